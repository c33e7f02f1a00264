"""Read-write locks that break mutual exclusion, for tests of the workload ``readers-writers``."""

from __future__ import annotations

from kazoo.recipe.lock import ReadLock

from harness.lock_impls.base import Grant
from harness.lock_impls.thirdparty.kazoo_read_write_lock import KazooReadWriteLock
from harness.lock_impls.zookeeper_client import ZooKeeperSession


class ReadersApart(KazooReadWriteLock):
    """Readers queue on another path than writers, so they do not exclude each other."""

    def __init__(self, session: ZooKeeperSession, path: str) -> None:
        super().__init__(session, path)
        self.readers = ReadLock(session.client, f"{path}-readers")


class AllShare(KazooReadWriteLock):
    """Writers acquire in shared mode, as readers do."""

    def acquire(self, timeout: float) -> Grant | None:
        return self.acquire_shared(timeout)
