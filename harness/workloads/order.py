"""``order``: every order is processed exactly once, though two trade centres (or more) have been told of it.

The story of article 000: each centre takes the lock of the order, looks whether it has been processed, works on it for
the hold time and marks it. Two centres inside at once both find it unprocessed.
"""

from __future__ import annotations

from typing import Any, ClassVar

from .client import Client, Grant, Settings
from .sections import sections


class Order:
    """Orders ``o0``, ``o1``, ...: each is to be processed once, by whichever client comes first."""

    name: ClassVar = "order"

    @staticmethod
    def stock(settings: Settings, duration: float) -> dict[str, Any]:
        """None: how often an order has been processed begins at 0."""
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
