"""Locks for readers and writers that do not keep the promise."""

from __future__ import annotations

from kazoo.recipe.lock import ReadLock

from lock_impls.base import Grant
from lock_impls.thirdparty.kazoo_read_write_lock import KazooReadWriteLock
from lock_impls.zookeeper_client import Session


class ReadersApart(KazooReadWriteLock):
    """Its readers queue on another path than its writers, and meet none."""

    def __init__(self, session: Session, path: str) -> None:
        super().__init__(session, path)
        self.readers = ReadLock(session.client, f"{path}-readers")


class AllShare(KazooReadWriteLock):
    """Writers are let in as readers are."""

    def acquire(self, timeout: float) -> Grant | None:
        return self.acquire_shared(timeout)
