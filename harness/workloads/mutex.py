"""``mutex``: acquire, read the resource, hold, write the resource, release."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from .client import Client, Grant, Settings


class Mutex:
    """A read-modify-write of a counter under the lock: an overlap of two sections loses an update."""

    name: ClassVar = "mutex"

    @staticmethod
    def stock(settings: Settings, duration: float) -> dict[str, int]:
        """Initial values of the resources, by name; 0 where nothing is said."""
        del settings, duration
        return {}

    @staticmethod
    def run(client: Client) -> None:
        sections(client, lambda _key, _grant: client.sleep(client.hold))


def sections(
    client: Client,
    work: Callable[[str, Grant], None],
    *,
    timeout: float | None = None,
    pause: tuple[float, float] = (0.0, 0.05),
) -> None:
    """Section after section, to the end of the run: a counter is read, ``work`` is done, and the counter is written.

    ``timeout`` is that of each acquire; who does not get the lock asks again after a ``pause`` (s, from and to).
    """
    while not client.over():
        key = f"k{client.rng.randrange(client.settings.keys)}"
        grant = client.acquire(key, timeout)
        if grant is None:
            client.sleep(client.rng.uniform(*pause))
            continue
        value = client.read(key, grant)
        work(key, grant)
        if value is not None and client.check(key):
            client.write(key, grant, value + 1)
        client.release(key)
        client.sleep(client.rng.uniform(0, 2 * client.settings.rest))


def stay(client: Client, grant: Grant, seconds: float, share: float) -> None:
    """Hold for ``seconds`` at least, but of a lease for no more than this ``share``, unless the plan says longer."""
    long = seconds if grant.valid_for is None else min(seconds, share * max(0.0, grant.valid_for))
    client.sleep(max(client.hold, long))
