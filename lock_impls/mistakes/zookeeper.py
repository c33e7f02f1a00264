"""ZooKeeper locks that are wrong on purpose: each is one documented mistake, and the scenarios must notice it."""

from __future__ import annotations

import uuid
from typing import Any

from kazoo.exceptions import NoNodeError, NotEmptyError

from lock_impls.base import Grant, LockError
from lock_impls.zookeeper_client import UNANSWERED, Held, Signal
from lock_impls.zookeeper_ephemeral import EphemeralLock
from lock_impls.zookeeper_sequential import INFIX, SequentialLock, number_of


class NoGuid(SequentialLock):
    """zk-create-lost-reply: when the answer to its create is lost it creates once more, and waits for its own first
    node, which nothing removes while its session lives."""

    kinds = ("zookeeper",)

    def recovered(self, guid: str) -> str | None:
        return None


class LeavesItsNode(SequentialLock):
    """zk-abort-orphan: gives up, and leaves its node in the queue, where its turn will come."""

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
    """zk-order: names are x-SESSION-lock-NUMBER, and are compared as text, as ZooKeeper's WriteLock did."""

    kinds = ("zookeeper",)

    def new_name(self) -> str:
        return f"x-{self.session.id:x}"

    def in_order(self, names: list[str], own: str) -> list[str]:
        return sorted(names)


class ForgetsItsWatch(SequentialLock):
    """zk-lost-wake: a watch that is lost with its connection is not left again (kazoo before 2.0)."""

    kinds = ("zookeeper",)

    def await_signal(self, signal: Signal, deadline: float) -> bool:
        while signal.wait(deadline):
            if signal.fired:
                return True
            signal = Signal()  # nobody will ever set it
        return False


class Tidy(SequentialLock):
    """zk-seq-reset: its nodes have no guid, and whoever releases the last of them deletes the parent: the numbers start
    at 0 again, and with them the names. The number is the fence."""

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
            self.give_back(Held(self._path(name), 0, 0))
            return None
        self.held = held
        return self.granted(name, held)

    def granted(self, name: str, held: Held) -> Grant:
        return Grant(fence=number_of(name))

    def give_back(self, held: Held) -> bool:
        removed = self.session.remove(held.path)
        try:
            self.session.ask("delete", self.path)
        except (NotEmptyError, NoNodeError, *UNANSWERED):
            pass
        return removed


class TidyByCzxid(Tidy):
    """The same with the czxid for a fence, which does not start again."""

    def granted(self, name: str, held: Held) -> Grant:
        return Grant(fence=held.czxid)


class ReentersBlindly(SequentialLock):
    """zk-reentry (b): who has got it once gets it again without a look at the node (Curator's map of threads)."""

    kinds = ("zookeeper",)

    def take(self, deadline: float) -> Grant | None:
        if self.held is not None:
            return Grant(fence=self.held.czxid)
        return super().take(deadline)


class DoesNotCount(ReentersBlindly):
    """zk-reentry (a): a second acquire returns, and one release frees (kazoo up to 2.0)."""


class LocksAgainOnTheOldNode(SequentialLock):
    """cur-old-session: looks for a node of its own first, and takes it also when an earlier session has made it
    (Curator's protected nodes before CURATOR-604)."""

    kinds = ("zookeeper",)
    mine = ""

    def new_name(self) -> str:
        self.mine = self.mine or uuid.uuid4().hex
        return self.mine

    def _enqueue(self, guid: str) -> str:
        try:
            names = self.session.ask("get_children", self.path)
        except NoNodeError:
            names = []
        own = [name for name in names if name.startswith(guid + INFIX)]
        return own[0] if own else super()._enqueue(guid)

    def _first(self, name: str) -> Held:
        stat: Any = self.session.ask("exists", self._path(name))
        if stat is None:
            raise LockError("gone")
        return Held.of(self._path(name), stat)


class DeletesByName(EphemeralLock):
    """zk-seq-reset, second half: a release deletes whatever has the name that its own node had."""

    kinds = ("zookeeper",)

    def give_back(self, held: Held) -> bool:
        return self.session.remove(held.path)
