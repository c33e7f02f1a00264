"""``optimistic``: a version column and no lock, which is what articles 000 to 003 compare their locks with.

A client reads the value and its version, works for the hold time, and writes only if the version is still the same.
Who is refused begins again: work is done in vain, and no update is lost. No acquire is ever made, so a fault on an
event needs another one, such as ``read``.
"""

from __future__ import annotations

from typing import Any, ClassVar

from harness.worker.client import Client
from harness.worker.interfaces import ClientSettings


class OptimisticWorkload:
    """Optimistic updates without a lock: read value and version, write if the version is unchanged, else retry."""

    name: ClassVar = "optimistic"
    locks: ClassVar = False

    @staticmethod
    def stock(settings: ClientSettings, duration: float) -> dict[str, Any]:
        """Return an empty stock: registers start at 0."""
        del settings, duration
        return {}

    @staticmethod
    def run(client: Client) -> None:
        while not client.over():
            key = f"k{client.rng.randrange(client.settings.keys)}"
            while not client.over():
                seen = client.look(key)
                client.sleep(client.hold)
                if seen is not None and client.swap(key, seen[0] + 1, seen[1]) is not None:
                    break
            client.sleep(client.rng.uniform(0, 2 * client.settings.rest))
