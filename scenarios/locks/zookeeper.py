"""ZooKeeper locks with documented mistakes, one class for each, for scenarios; some classes are the cures."""

from __future__ import annotations

import threading
import time
from typing import Any, ClassVar, Final, Self

from kazoo.exceptions import NoNodeError, NotEmptyError

from harness.lock_impls.base import Endpoints, Grant, LockError
from harness.lock_impls.origins import mistake, model_of
from harness.lock_impls.zookeeper_client import UNANSWERED, HeldNode, Signal, ZooKeeperSession
from harness.lock_impls.zookeeper_ephemeral import EphemeralLock
from harness.lock_impls.zookeeper_sequential import INFIX, SequentialLock, number_of

LATER_S: Final = 1.0


class NoGuid(SequentialLock):
    """zk-create-lost-reply: if the answer to its create is lost it creates a second node, and waits for its own
    first node, which stays as long as its session lives."""

    origin: ClassVar = mistake(
        "a create that is repeated without a guid", "ZooKeeper's recipes, 'Recoverable Errors and the GUID'"
    )
    kinds = ("zookeeper",)

    def recovered(self, guid: str) -> str | None:
        return None


class LeavesItsNode(SequentialLock):
    """zk-abort-orphan: gives up, and leaves its node in the queue, where its turn will come."""

    origin: ClassVar = model_of("an interrupted acquire", "Apache Curator", "2.6.0", "apache/curator#600 (CURATOR-79)")
    kinds = ("zookeeper",)

    def take(self, deadline: float) -> Grant | None:
        guid = self.new_name()
        name = self._enqueue(guid)
        held = self._wait(name, deadline)
        if held is None:
            return None
        self.held = held
        return Grant(fence=held.czxid)


class TextOrder(SequentialLock):
    """zk-order: names are x-SESSION-lock-NUMBER, and are compared as text, as in ZooKeeper's WriteLock."""

    origin: ClassVar = model_of(
        "the order of nodes in WriteLock", "ZooKeeper's lock recipe", "3.4.11", "ZNodeName.java, line 78"
    )
    kinds = ("zookeeper",)

    def new_name(self) -> str:
        return f"x-{self.session.id:x}"

    def in_order(self, names: list[str], own: str) -> list[str]:
        return sorted(names)


class ForgetsItsWatch(SequentialLock):
    """zk-lost-wake: a watch that is lost with its connection is not registered again (kazoo before 2.0)."""

    origin: ClassVar = model_of("a waiter", "kazoo", "1.3.1", "kazoo/recipe/lock.py, line 165")
    kinds = ("zookeeper",)

    def await_signal(self, signal: Signal, deadline: float) -> bool:
        while signal.wait(deadline):
            if signal.fired:
                return True
            signal = Signal()  # nothing will ever set it
        return False


class DeletesEmptyParent(SequentialLock):
    """zk-seq-reset: its nodes have no guid, and the client that releases the last of them deletes the parent. Then
    the numbers, and with them the names, start at 0 again. The number is the fence."""

    origin: ClassVar = model_of("the release of a locker", "zk-ruby", "1.5.1", "lib/zk/locker/locker_base.rb, line 281")
    kinds = ("zookeeper",)
    NAME = "ex"

    def new_name(self) -> str:
        return self.NAME

    def recovered(self, guid: str) -> str | None:
        return None

    def take(self, deadline: float) -> Grant | None:
        name = self._enqueue(self.NAME)
        held = self._wait(name, deadline)
        if held is None:
            self.give_back(HeldNode(self._path(name), 0, 0))
            return None
        self.held = held
        return self.granted(name, held)

    def granted(self, name: str, held: HeldNode) -> Grant:
        return Grant(fence=number_of(name))

    def give_back(self, held: HeldNode) -> bool:
        removed = self.session.remove(held.path)
        try:
            self.session.ask("delete", self.path)
        except (NotEmptyError, NoNodeError, *UNANSWERED):
            pass
        return removed


class DeletesEmptyParentFencedByCzxid(DeletesEmptyParent):
    """The same with the czxid as the fence, which does not start again."""

    origin: ClassVar = DeletesEmptyParent.origin.fixed("the czxid is the fencing token")

    def granted(self, name: str, held: HeldNode) -> Grant:
        return Grant(fence=held.czxid)


class DeletesInSameParent(DeletesEmptyParentFencedByCzxid):
    """zk-seq-reset.foreign, cured as in zk-ruby 1.5.2: a client whose parent was replaced deletes nothing."""

    origin: ClassVar = DeletesEmptyParent.origin.fixed(
        "a release looks whether the parent is the same (1.5.2); the czxid is the fencing token"
    )
    _parent = 0

    def _enqueue(self, guid: str) -> str:
        name = super()._enqueue(guid)
        self._parent = self._czxid_of_parent()
        return name

    def give_back(self, held: HeldNode) -> bool:
        return self._czxid_of_parent() == self._parent and super().give_back(held)

    def _czxid_of_parent(self) -> int:
        stat = self.session.ask("exists", self.path)
        return 0 if stat is None else int(stat.czxid)


KAZOO: Final = model_of("acquire and release of one lock object", "kazoo", "2.0", "kazoo/recipe/lock.py, line 112")


class CountsEntries(SequentialLock):
    """zk-reentry, cured: the holder acquires again if its node still exists, and must release as often."""

    origin: ClassVar = KAZOO.fixed("each acquire is counted, and looks at the node")
    kinds = ("zookeeper",)
    entries = 0

    def take(self, deadline: float) -> Grant | None:
        if self.held is not None and self.may_enter(self.held):
            self.entries += 1
            return Grant(fence=self.held.czxid)
        grant = super().take(deadline)
        self.entries = 1 if grant is not None else 0
        return grant

    def may_enter(self, held: HeldNode) -> bool:
        if not self.still_exists(held):
            self.held = None
            raise LockError(f"{held.path} is gone: its session has ended")
        return True

    def release(self) -> None:
        if self.held is not None and self.entries > 1:
            self.entries -= 1
            return
        super().release()


class ReentersBlindly(CountsEntries):
    """zk-reentry (b): a re-acquire succeeds from a map of threads, without a check of the node (as in Curator)."""

    origin: ClassVar = model_of(
        "InterProcessMutex.acquire in the thread that holds it",
        "Apache Curator",
        "5.9.0",
        "InterProcessMutex.java, line 208",
    )

    def may_enter(self, held: HeldNode) -> bool:
        return True

    def still_valid(self) -> bool:
        return self.held is not None


class DoesNotCount(CountsEntries):
    """zk-reentry (a): a second acquire returns, and one release frees the lock (kazoo up to 2.0)."""

    origin: ClassVar = KAZOO

    def release(self) -> None:
        SequentialLock.release(self)


CURATOR: Final = model_of(
    "a protected create", "Apache Curator", "4.0.1", "CreateBuilderImpl.java, line 1253; apache/curator#1121"
)


class ResetsItsSession(SequentialLock):
    """cur-old-session, cured: if the connection is lost while it creates its node, it opens a new session and searches
    for the node; a node of another session is not its own (Curator since CURATOR-604).

    The old session ends a moment later. In the original report the servers end it when its time-out is over; here the
    old client ends it, so that the moment is always the same.
    """

    origin: ClassVar = CURATOR.fixed("a node of an earlier session does not count")
    kinds = ("zookeeper",)
    where: Endpoints

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float, **options: Any) -> Self:
        lock = super().open(endpoints, key, ttl, **options)
        lock.where = endpoints
        return lock

    def _enqueue(self, guid: str) -> str:
        try:
            return str(self.session.make(self._path(guid + INFIX), sequence=True)[0]).rpartition("/")[2]
        except UNANSWERED:
            self._reset()
        return self.recovered(guid) or super()._enqueue(guid)

    def _reset(self) -> None:
        old, self.session = self.session, ZooKeeperSession(self.where, self.ttl)
        self.session.connect()
        threading.Thread(target=self._end, args=(old,), daemon=True).start()

    @staticmethod
    def _end(old: ZooKeeperSession) -> None:
        time.sleep(LATER_S)
        old.client.stop()


class LocksOnTheOldNode(ResetsItsSession):
    """cur-old-session: uses the node as its own although an earlier session made it, which is about to end."""

    origin: ClassVar = CURATOR

    def recovered(self, guid: str) -> str | None:
        try:
            names = self.session.look("get_children", self.path)
        except NoNodeError:
            return None
        return next((name for name in names if name.startswith(guid + INFIX)), None)

    def _first(self, name: str) -> HeldNode:
        stat = self.session.ask("exists", self._path(name))
        if stat is None:
            raise LockError(f"{self._path(name)} is gone")
        return HeldNode.of(self._path(name), stat)


class DeletesByName(EphemeralLock):
    """del-foreign: a release deletes any node with the name of its own node."""

    origin: ClassVar = mistake("a release that deletes any node of the lock's name", "article 001 (for Redis)")
    kinds = ("zookeeper",)

    def give_back(self, held: HeldNode) -> bool:
        return self.session.remove(held.path)
