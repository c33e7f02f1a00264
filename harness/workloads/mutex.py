"""``mutex``: acquire, read the resource, hold, write the resource, release."""

from __future__ import annotations

from typing import ClassVar

from .client import Client, Settings
from .sections import hold, sections, update


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
        sections(client, update(client, hold(client)))
