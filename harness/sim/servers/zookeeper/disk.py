"""Durable state of a simulated ZooKeeper server: its transaction log and its epochs.

The log keeps the last committed transactions, so that a follower that was away briefly can catch up, and the
transactions that are proposed but not committed. Writing takes no time, and only a wipe of the disk loses data. The
znodes are kept in :mod:`.tree`.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from .tree import Txn

MAX_RECENT_TXNS: Final = 500
"""Number of committed transactions kept for followers (``zookeeper.commitLogCount``)."""


class ZooKeeperDisk:
    """The log and epochs of one server."""

    def __init__(self) -> None:
        self.accepted_epoch = 0
        """The highest epoch that this server has promised to a leader."""
        self.epoch = 0
        """The epoch of the last leader whose history this server has adopted."""
        self.committed = 0
        """zxid of the last committed transaction."""
        self.recent: deque[Txn] = deque(maxlen=MAX_RECENT_TXNS)
        self.proposed: deque[Txn] = deque()

    @property
    def last_zxid(self) -> int:
        """zxid of the last transaction in the log."""
        return self.proposed[-1].zxid if self.proposed else self.committed

    @property
    def recency(self) -> tuple[int, int]:
        """(epoch, last zxid): the server with the greatest pair in a majority knows every committed transaction."""
        return self.epoch, self.last_zxid

    def commit(self) -> Txn:
        """Mark the first proposed transaction as committed and return it."""
        txn = self.proposed.popleft()
        self.recent.append(txn)
        self.committed = txn.zxid
        return txn

    def txns_after(self, zxid: int) -> list[Txn] | None:
        """Return all transactions after ``zxid``, or None if the log does not reach back that far."""
        if zxid == self.committed:
            return list(self.proposed)
        for index, txn in enumerate(self.recent):
            if txn.zxid == zxid:
                return [*list(self.recent)[index + 1 :], *self.proposed]
        return None

    def replace(self, committed: int) -> None:
        """Clear the log, after the znodes were replaced by a leader's snapshot as of zxid ``committed``."""
        self.committed = committed
        self.recent.clear()
        self.proposed.clear()
