"""What a ZooKeeper server has on its disk: the znodes as of the last committed transaction, the log, and its epochs.

The log keeps the last committed transactions, from which a follower that was away for a short while catches up, and
those that were proposed and not yet committed. Writing takes no time and nothing is lost, except by a wipe.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from .tree import Txn

KEPT: Final = 500
"""Committed transactions that are kept for others (``zookeeper.commitLogCount``)."""


class Disk:
    def __init__(self) -> None:
        self.accepted = 0
        """The highest epoch of a leader that this server has promised to follow."""
        self.epoch = 0
        """The epoch of the last leader whose history it has taken over."""
        self.committed = 0
        """zxid of the last committed transaction."""
        self.recent: deque[Txn] = deque(maxlen=KEPT)
        self.proposed: deque[Txn] = deque()

    @property
    def last(self) -> int:
        """zxid of the last transaction in the log."""
        return self.proposed[-1].zxid if self.proposed else self.committed

    @property
    def recency(self) -> tuple[int, int]:
        """Of two servers the one with the greater knows all that can have been committed."""
        return self.epoch, self.last

    def commit(self) -> Txn:
        """The first proposed transaction is committed."""
        txn = self.proposed.popleft()
        self.recent.append(txn)
        self.committed = txn.zxid
        return txn

    def since(self, zxid: int) -> list[Txn] | None:
        """All transactions after ``zxid``, or None if the log does not say which those are."""
        if zxid == self.committed:
            return list(self.proposed)
        for at, txn in enumerate(self.recent):
            if txn.zxid == zxid:
                return [*list(self.recent)[at + 1 :], *self.proposed]
        return None

    def replace(self, committed: int) -> None:
        """A snapshot of the leader's znodes has been taken over."""
        self.committed = committed
        self.recent.clear()
        self.proposed.clear()
