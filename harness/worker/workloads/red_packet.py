"""``red-packet``: many grab shares of a packet of money, and all of it must be accounted for.

Who has the lock of a packet reads what is left in it and what he has got of it himself, decides on a random share,
thinks for the hold time, and writes both down: the packet, and his account. Two grabbers inside at once share out the
same money twice.
"""

from __future__ import annotations

import math
from random import Random
from typing import Any, ClassVar

from harness.worker.client import Client
from harness.worker.interfaces import ClientSettings, Grant
from harness.worker.sections import sections

CENTS = 1000
SHARES = 5


class RedPacketWorkload:
    """Packets ``p0``, ``p1``, ... of 1000 cents in five shares: no money may appear or vanish.

    The resource ``p0/c3`` holds the share of client ``c3`` in packet ``p0``."""

    name: ClassVar = "red-packet"
    updates: ClassVar = True

    @staticmethod
    def stock(settings: ClientSettings, duration: float) -> dict[str, Any]:
        """Return enough packets for the whole run, even if every section is as short as the shortest hold."""
        hold = min([settings.hold, *settings.holds.values()])
        return {f"p{n}": {"cents": CENTS, "shares": SHARES} for n in range(math.ceil(duration / hold / SHARES) + 1)}

    @staticmethod
    def run(client: Client) -> None:
        packet = 0

        def section(key: str, grant: Grant) -> None:
            nonlocal packet
            packet += _take_share(client, key, grant)

        sections(client, section, key=lambda: f"p{packet}")


def _take_share(client: Client, key: str, grant: Grant) -> bool:
    """Take a share; True if there was none left."""
    account = f"{key}/{client.node}"
    left, mine = client.read(key, grant), client.read(account, grant)
    if left is None or mine is None:
        return False
    if not left["shares"]:
        return True
    share = decide(client.rng, left["cents"], left["shares"])
    client.sleep(client.hold)
    rest = {"cents": left["cents"] - share, "shares": left["shares"] - 1}
    if client.check(key) and client.write(key, grant, rest) is not None:
        client.write(account, grant, mine + share)
    return False


def decide(rng: Random, cents: int, shares: int) -> int:
    """A share: the last one is all that is left; before, each of the others is left a cent at least, and nobody gets
    more than twice the average."""
    if shares == 1:
        return cents
    return rng.randint(1, min(cents - (shares - 1), max(1, 2 * cents // shares)))
