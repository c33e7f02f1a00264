"""``mutex``: acquire, read the resource, hold, write the resource, release."""

from __future__ import annotations

from typing import ClassVar

from .client import Client, Settings


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
        while not client.over():
            key = f"k{client.rng.randrange(client.settings.keys)}"
            grant = client.acquire(key)
            if grant is None:
                client.sleep(client.rng.uniform(0, 0.05))
                continue
            value = client.read(key, grant)
            client.sleep(client.hold)
            if value is not None and client.check(key):
                client.write(key, grant, value + 1)
            client.release(key)
            client.sleep(client.rng.uniform(0, 2 * client.settings.rest))
