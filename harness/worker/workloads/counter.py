"""``counter``: one is added to a number under the lock, and in a transaction of the lock's own service where it has one
(``increment()``, see :class:`harness.lock_impls.base.Lock`): a lock that keeps others out does not help a transaction
that saw the number too early, or is seen too late.
"""

from __future__ import annotations

from typing import Any, ClassVar

from harness.worker.client import Client
from harness.worker.interfaces import ClientSettings, Grant
from harness.worker.sections import hold, sections, update


class CounterWorkload:
    """Additions to a counter in the lock's own service (if the lock has ``increment()``), otherwise in the resource."""

    name: ClassVar = "counter"
    updates: ClassVar = True

    @staticmethod
    def stock(settings: ClientSettings, duration: float) -> dict[str, Any]:
        """Return an empty stock: counters start at 0."""
        del settings, duration
        return {}

    @staticmethod
    def run(client: Client) -> None:
        in_the_resource = update(client, hold(client))

        def section(key: str, grant: Grant) -> None:
            if not client.counts(key):
                in_the_resource(key, grant)
                return
            if client.check(key):
                client.add(key)
            client.sleep(client.hold)

        sections(client, section)
