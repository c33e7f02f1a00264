"""``counter``: one is added to a number under the lock, and in a transaction of the lock's own service where it has one
(``increment()``, see :class:`lock_impls.base.Lock`): a lock that keeps others out does not help a transaction that saw
the number too early, or is seen too late.
"""

from __future__ import annotations

from typing import Any, ClassVar

from .client import Client, Settings


class Counter:
    """Add to a counter, kept by the lock's own service where the lock has ``increment()``, else by the resource."""

    name: ClassVar = "counter"

    @staticmethod
    def stock(settings: Settings, duration: float) -> dict[str, Any]:
        """None: counters begin at 0."""
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
            if client.counts(key):
                if client.check(key):
                    client.add(key)
                client.sleep(client.hold)
            else:
                value = client.read(key, grant)
                client.sleep(client.hold)
                if value is not None and client.check(key):
                    client.write(key, grant, value + 1)
            client.release(key)
            client.sleep(client.rng.uniform(0, 2 * client.settings.rest))
