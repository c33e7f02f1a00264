"""``order``: every order is processed exactly once, though two trade centres (or more) have been told of it.

The story of article 000: each centre takes the lock of the order, looks whether it has been processed, works on it for
the hold time and marks it. Two centres inside at once both find it unprocessed.
"""

from __future__ import annotations

from typing import Any, ClassVar

from harness.worker.client import Client
from harness.worker.interfaces import ClientSettings, Grant
from harness.worker.sections import sections


class OrderWorkload:
    """Orders ``o0``, ``o1``, ...: each must be processed once, by the first client that acquires its lock."""

    name: ClassVar = "order"
    updates: ClassVar = True

    @staticmethod
    def stock(settings: ClientSettings, duration: float) -> dict[str, Any]:
        """Return an empty stock: the counts of processed orders start at 0."""
        del settings, duration
        return {}

    @staticmethod
    def run(client: Client) -> None:
        order = 0

        def section(key: str, grant: Grant) -> None:
            nonlocal order
            times = client.read(key, grant)
            if times == 0:
                client.sleep(client.hold)
                if client.check(key) and client.mark(key, grant) is not None:
                    order += 1
            elif times is not None:
                order += 1

        sections(client, section, key=lambda: f"o{order}")
