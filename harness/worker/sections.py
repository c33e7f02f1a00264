"""The common loop of workloads that take locks: one critical section after the other until the end of the run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .client import Client
from .interfaces import Grant

Section = Callable[[str, Grant], None]
"""Work done under the lock of a key."""


def sections(
    client: Client,
    section: Section,
    *,
    key: Callable[[], str] | None = None,
    timeout: float | None = None,
    pause: tuple[float, float] = (0.0, 0.05),
    shared: bool = False,
) -> None:
    """Acquire a lock, run ``section``, release the lock, rest, and repeat.

    ``key`` returns the name of the next lock; without it a random one of the plan's keys is used. ``timeout`` is that
    of each acquire. A client that does not get the lock tries again after a ``pause`` (range in seconds). With
    ``shared``, locks are acquired shared.
    """
    for name, grant in grants(client, key=key, timeout=timeout, pause=pause, shared=shared):
        section(name, grant)
        client.release(name)


def grants(
    client: Client,
    *,
    key: Callable[[], str] | None = None,
    pause: tuple[float, float] = (0.0, 0.05),
    **acquire: Any,
) -> Iterator[tuple[str, Grant]]:
    """Acquire a lock, yield its key and the grant, rest, and repeat until the end of the run; see :func:`sections`.

    Whoever takes a grant releases the lock. ``acquire`` are arguments of :meth:`Client.acquire`."""
    while not client.over():
        name = f"k{client.rng.randrange(client.settings.keys)}" if key is None else key()
        grant = client.acquire(name, **acquire)
        if grant is None:
            client.sleep(client.rng.uniform(*pause))
            continue
        yield name, grant
        client.sleep(client.rng.uniform(0, 2 * client.settings.rest))


def update(client: Client, work: Section) -> Section:
    """Return a section that reads a counter of the resource, does ``work``, and writes the counter plus one."""

    def section(key: str, grant: Grant) -> None:
        value = client.read(key, grant)
        work(key, grant)
        if value is not None and client.check(key):
            client.write(key, grant, value + 1)

    return section


def hold(client: Client) -> Section:
    """Return work that takes the client's hold time."""
    return lambda _key, _grant: client.sleep(client.hold)


def stay(client: Client, grant: Grant, seconds: float, share: float) -> None:
    """Hold for at least ``seconds``, but at most this ``share`` of a lease unless the plan's hold time is longer."""
    long = seconds if grant.valid_for is None else min(seconds, share * max(0.0, grant.valid_for))
    client.sleep(max(client.hold, long))
