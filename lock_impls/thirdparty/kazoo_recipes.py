"""What the adapters of kazoo's recipes share: a session, one call of the recipe's ``acquire``, and the czxid of the
node that it made, which is the fence that ZooKeeper has and kazoo's recipes do not hand out.

A user would read it as this does: one request more than the recipe makes.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

from kazoo.exceptions import LockTimeout, NoNodeError

from lock_impls.base import Grant, LockError
from lock_impls.zookeeper_client import Session, known_outcome

LIBRARY: Final = "kazoo 2.11.0"


class Recipe(Protocol):
    """``kazoo.recipe.lock.Lock``, ``ReadLock``, ``WriteLock`` or ``Semaphore``."""

    path: str
    is_acquired: bool

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool: ...

    def release(self) -> bool: ...


class KazooRecipe:
    """``usual`` is the recipe that ``acquire`` takes."""

    def __init__(self, session: Session, usual: Any) -> None:
        self.session = session
        self.usual: Recipe = usual
        self._held: Recipe = usual  # the one that was taken last
        self._unread: Recipe | None = None  # got, and its fence not read: nobody knows of it, and it would block us too

    def acquire(self, timeout: float) -> Grant | None:
        return self._take(self.usual, timeout)

    def node(self, recipe: Any) -> str:
        """The path of the node that makes its client a holder."""
        return f"{recipe.path}/{recipe.node}"

    def _take(self, recipe: Recipe, timeout: float) -> Grant | None:
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

    def _czxid(self, recipe: Recipe) -> int:
        try:
            return int(self.session.again(self.session.ask, "exists", self.node(recipe)).czxid)
        except (AttributeError, NoNodeError) as error:
            raise LockError("the session has ended, and the node with it") from error

    def release(self) -> None:
        with known_outcome():
            if not self._held.release():
                raise LockError(f"{self._held.path} is not held by this client")

    def still_valid(self) -> bool:
        return bool(self._held.is_acquired)
