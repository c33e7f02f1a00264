"""Mutants of the lock recipe of ZooKeeper. :class:`QueueLock` is correct; each other class has one mistake."""

from __future__ import annotations

import uuid
from typing import Any, ClassVar

from kazoo.exceptions import NodeExistsError

from harness.lock_impls.base import Grant
from harness.lock_impls.zookeeper_client import HeldNode, Signal, ZooKeeperLock


class QueueLock(ZooKeeperLock):
    """Not a mutant: numbered ephemeral nodes, each of which watches the one before it."""

    kinds: ClassVar = ("zookeeper",)
    OPTIONS: ClassVar[dict[str, Any]] = {}
    """Options of the request that creates a node."""

    def take(self, deadline: float) -> Grant | None:
        path, stat = self.session.make(f"{self.path}/{self.prefix()}", sequence=True, **self.OPTIONS)
        name = path.rpartition("/")[2]
        while not self.holds(name, queue := self.in_order(self.session.ask("get_children", self.path))):
            signal = Signal()
            watched = self.watched(name, queue)
            if self.session.ask("exists", f"{self.path}/{watched}", signal) is None:
                continue
            if not self.await_signal(signal, deadline):
                self.give_up(path)
                return None
            if self.woken_means_held():
                break
        self.held = HeldNode.of(path, stat)
        return self.granted(path, stat)

    def prefix(self) -> str:
        return "n-"

    def in_order(self, names: list[str]) -> list[str]:
        return sorted(names, key=lambda name: name.rpartition("-")[2])

    def holds(self, name: str, queue: list[str]) -> bool:
        return queue[0] == name

    def watched(self, name: str, queue: list[str]) -> str:
        return queue[queue.index(name) - 1]

    def woken_means_held(self) -> bool:
        return False

    def give_up(self, path: str) -> None:
        self.session.remove(path)

    def granted(self, path: str, stat: Any) -> Grant:
        return Grant(fence=stat.czxid)

    def give_back(self, held: HeldNode) -> bool:
        return self.session.remove(held.path)


class PersistentNode(QueueLock):
    """The node is not ephemeral, so the node of a dead client stays for ever."""

    OPTIONS: ClassVar = {"ephemeral": False}


class SortsNames(QueueLock):
    """The queue is sorted by the whole names, which begin with a random text, instead of by their numbers."""

    def prefix(self) -> str:
        return f"{uuid.uuid4().hex}-"

    def in_order(self, names: list[str]) -> list[str]:
        return sorted(names)


class LastHolds(QueueLock):
    """The queue is sorted in descending order, so each newcomer holds the lock at once."""

    def in_order(self, names: list[str]) -> list[str]:
        return super().in_order(names)[::-1]


class TwoHold(QueueLock):
    """The second in the queue holds the lock together with the first."""

    def holds(self, name: str, queue: list[str]) -> bool:
        return name in queue[:2]


class DoesNotWait(QueueLock):
    """A client holds the lock as soon as its node is created, whatever its place in the queue."""

    def holds(self, name: str, queue: list[str]) -> bool:
        return True


class WokenMeansHeld(QueueLock):
    """A waiter that is woken does not read the queue again: the one before it may have given up."""

    def woken_means_held(self) -> bool:
        return True


class WatchesItself(QueueLock):
    """A waiter watches its own node instead of the one before it, so a release does not wake it."""

    def watched(self, name: str, queue: list[str]) -> str:
        return name


class LeavesItsNode(QueueLock):
    """A waiter that gives up leaves its node in the queue, where its turn comes and nobody releases it."""

    def give_up(self, path: str) -> None:
        return


class ReleaseKeepsNode(QueueLock):
    """Release does not delete the node, which lives as long as the session."""

    def give_back(self, held: HeldNode) -> bool:
        return True


class DeletesFirstNode(QueueLock):
    """Release deletes the first node of the queue, which is that of the next holder if the session has ended."""

    def give_back(self, held: HeldNode) -> bool:
        first, *_ = self.in_order(self.session.ask("get_children", self.path))
        return self.session.remove(f"{self.path}/{first}")


class IgnoresSessionLoss(QueueLock):
    """The check of the holder says that it holds the lock although its session has ended."""

    def still_valid(self) -> bool:
        return True


class FenceWraps(QueueLock):
    """The fencing token is the last digit of the node's number, so it starts again after ten."""

    def granted(self, path: str, stat: Any) -> Grant:
        return Grant(fence=int(path[-1]))


class FenceIsSession(QueueLock):
    """The fencing token is the session's number, which is the same for each grant of a client."""

    def granted(self, path: str, stat: Any) -> Grant:
        return Grant(fence=stat.ephemeralOwner)


class ExistingNodeIsSuccess(QueueLock):
    """The error that the node exists already counts as acquired."""

    def take(self, deadline: float) -> Grant | None:
        try:
            path, stat = self.session.make(f"{self.path}/only")
        except NodeExistsError:
            return Grant()
        self.held = HeldNode.of(path, stat)
        return Grant()

    def release(self) -> None:
        if self.held is not None:
            super().release()
