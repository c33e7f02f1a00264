"""``inventory``: many buyers, few units, and a shop that must not sell what it has not got (the story these locks
come from).

A buyer takes the lock of the item, looks whether any is left, thinks for the hold time, and buys. An item that is
sold out gives way to the next. Two buyers inside at once both see the last unit.
"""

from __future__ import annotations

import math
from typing import ClassVar

from harness.worker.client import Client
from harness.worker.interfaces import ClientSettings, Grant
from harness.worker.sections import sections

UNITS = 3


class InventoryWorkload:
    """Sales of items ``i0``, ``i1``, ... with a stock of three each: no item may be oversold."""

    name: ClassVar = "inventory"
    updates: ClassVar = True

    @staticmethod
    def stock(settings: ClientSettings, duration: float) -> dict[str, int]:
        """Return enough items for the whole run, even if every section is as short as the shortest hold."""
        hold = min([settings.hold, *settings.holds.values()])
        return {f"i{n}": UNITS for n in range(math.ceil(duration / hold / UNITS) + 1)}

    @staticmethod
    def run(client: Client) -> None:
        item = 0

        def section(key: str, grant: Grant) -> None:
            nonlocal item
            left = client.read(key, grant)
            if left is not None and left <= 0:
                item += 1
            elif left is not None:
                client.sleep(client.hold)
                if client.check(key):
                    client.take(key, grant)

        sections(client, section, key=lambda: f"i{item}")
