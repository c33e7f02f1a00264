"""Shared parts of the adapters of kazoo's recipes: a session, one call of the recipe's ``acquire``, and the fence.

The fence is the czxid of the node that the recipe made. kazoo's recipes do not return it, so the adapter reads it as a
user would: one request more than the recipe makes.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

from kazoo.exceptions import LockTimeout, NoNodeError

from harness.lock_impls.base import Grant, LockError
from harness.lock_impls.contexts import Context
from harness.lock_impls.zookeeper_client import ZooKeeperSession, known_outcome

LIBRARY: Final = "kazoo 2.11.0"


class KazooLockLike(Protocol):
    """``kazoo.recipe.lock.Lock``, ``ReadLock``, ``WriteLock`` or ``Semaphore``."""

    path: str
    is_acquired: bool

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool: ...

    def release(self) -> bool: ...


class KazooAdapter:
    """A lock that calls a recipe of kazoo; ``usual`` is the recipe that ``acquire`` takes."""

    def __init__(self, session: ZooKeeperSession, usual: Any) -> None:
        self.session = session
        self.usual: KazooLockLike = usual
        self._held: KazooLockLike = usual  # the recipe that was taken last
        self._unread: KazooLockLike | None = (
            None  # acquired, but its fence was not read: the caller does not know of it, and it would block us too
        )

    def acquire(self, timeout: float) -> Grant | None:
        return self._take(self.usual, timeout)

    def node(self, recipe: Any) -> str:
        """Path of the node that makes its client a holder."""
        return f"{recipe.path}/{recipe.node}"

    def _take(self, recipe: KazooLockLike, timeout: float) -> Grant | None:
        self.session.connect()
        with known_outcome():
            if self._unread is not None:
                self._unread.release()
                self._unread = None
            try:
                gotten = recipe.acquire(timeout=timeout) if timeout > 0 else recipe.acquire(blocking=False)
            except LockTimeout:
                return None
            if not gotten:
                return None
            self._held = self._unread = recipe
            grant = Grant(fence=self._czxid(recipe))
            self._unread = None
            return grant

    def _czxid(self, recipe: KazooLockLike) -> int:
        try:
            return int(self.session.again(self.session.ask, "exists", self.node(recipe)).czxid)
        except (AttributeError, NoNodeError) as error:
            raise LockError("the session has ended, and the node with it") from error

    def context(self, timeout: float) -> Context:  # noqa: ARG002 - the recipe waits without limit in `with`
        self.session.connect()
        return Context(self.usual, known_outcome, grant=lambda: Grant(fence=self._czxid(self.usual)))

    def release(self) -> None:
        with known_outcome():
            if not self._held.release():
                raise LockError(f"{self._held.path} is not held by this client")

    def still_valid(self) -> bool:
        return bool(self._held.is_acquired)
