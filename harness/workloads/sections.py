"""What workloads that take locks have in common: one critical section after the other, to the end of the run."""

from __future__ import annotations

from collections.abc import Callable

from .client import Client, Grant

Section = Callable[[str, Grant], None]
"""What is done under the lock of a key."""


def sections(
    client: Client,
    section: Section,
    *,
    key: Callable[[], str] | None = None,
    timeout: float | None = None,
    pause: tuple[float, float] = (0.0, 0.05),
    shared: bool = False,
) -> None:
    """Take a lock, do what is to be done, give it back, rest, and begin again.

    ``key`` names the lock of the next section; without it that is one of the plan's keys, by chance. ``timeout`` is
    that of each acquire; who does not get the lock asks again after a ``pause`` (s, from and to). ``shared``: together
    with others who do so too.
    """
    while not client.over():
        name = f"k{client.rng.randrange(client.settings.keys)}" if key is None else key()
        grant = client.acquire(name, timeout, shared=shared)
        if grant is None:
            client.sleep(client.rng.uniform(*pause))
            continue
        section(name, grant)
        client.release(name)
        client.sleep(client.rng.uniform(0, 2 * client.settings.rest))


def update(client: Client, work: Section) -> Section:
    """The section that reads a counter of the resource, does its ``work``, and writes one more."""

    def section(key: str, grant: Grant) -> None:
        value = client.read(key, grant)
        work(key, grant)
        if value is not None and client.check(key):
            client.write(key, grant, value + 1)

    return section


def hold(client: Client) -> Section:
    """Work that takes as long as the plan says."""
    return lambda _key, _grant: client.sleep(client.hold)


def stay(client: Client, grant: Grant, seconds: float, share: float) -> None:
    """Hold for ``seconds`` at least, but of a lease for no more than this ``share``, unless the plan says longer."""
    long = seconds if grant.valid_for is None else min(seconds, share * max(0.0, grant.valid_for))
    client.sleep(max(client.hold, long))
