"""``mutex``: acquire, read the resource, hold, write the resource, release."""

from __future__ import annotations

from typing import ClassVar

from harness.worker.client import Client
from harness.worker.interfaces import ClientSettings
from harness.worker.sections import hold, sections, update


class MutexWorkload:
    """Read-modify-write of a counter under the lock: two overlapping critical sections lose an update."""

    name: ClassVar = "mutex"
    updates: ClassVar = True

    @staticmethod
    def stock(settings: ClientSettings, duration: float) -> dict[str, int]:
        """Return the initial values of resources, by name. The default value is 0."""
        del settings, duration
        return {}

    @staticmethod
    def run(client: Client) -> None:
        sections(client, update(client, hold(client)))
