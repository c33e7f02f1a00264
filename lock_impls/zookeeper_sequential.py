"""The lock recipe of ZooKeeper: numbered ephemeral nodes, where each client waits for the node before its own.

Requests: ``create /locks/KEY/GUID-lock-`` EPHEMERAL|SEQUENTIAL · ``getChildren`` without a watch; the lowest number
holds the lock · else ``exists`` of the node before, with a watch, and again from ``getChildren`` when it is deleted ·
``delete``.
If the answer to the create was lost: ``sync`` and ``getChildren``; the node with this guid is ours if this session made
it. Numbers are 32 bits wide and compared with wrap-around (RFC 1982).
Source: article 003; ZooKeeper recipes, "Locks" and "Recoverable Errors and the GUID"; Curator's InterProcessMutex.

Safe for: correctness, if the resource refuses a fence below the highest it has seen. Clients are served in the order of
arrival; a release wakes one. ``fence="czxid"`` is the number of the transaction that created the node and always grows.
``fence="sequence"`` is the number in its name, which starts again when the parent is deleted, and turns negative after
2 147 483 647. With ``check="session"`` :meth:`still_valid` checks only kazoo's state, as many users do.

Known failures: zk-pause, ttl-check-then-pause, chubby-late (the fence covers all of these); with ``fence="sequence"``
zk-seq-reset and zk-order (BROKEN).
"""

from __future__ import annotations

import time
import uuid
from typing import Any, ClassVar, Literal

from kazoo.exceptions import NoNodeError
from kazoo.protocol.states import KazooState

from .base import Grant, LockError, LockInfo
from .zookeeper_client import (
    DEATH,
    KINDS,
    OUTAGE,
    PAUSE_S,
    REQUIRES,
    TRIES,
    UNANSWERED,
    HeldNode,
    Signal,
    ZooKeeperLock,
    ZooKeeperSession,
    paused_holder,
)

INFIX = "-lock-"
_WRAP = 2**32


class SequentialLock(ZooKeeperLock):
    info: ClassVar = LockInfo(
        name="zookeeper-sequential",
        title="The recipe: sequential ephemeral nodes, each watching the one before it",
        algorithm="create GUID-lock-N (ephemeral, sequential); the lowest N holds; others watch their predecessor.",
        source="article 003; ZooKeeper recipes",
        safety="F",
        kinds=KINDS,
        requires=REQUIRES,
        fence=True,
        queue=True,
        options={"fence": "czxid", "check": "server"},
        on_death=DEATH,
        outage=OUTAGE,
        no_single_point=True,
        failures=(paused_holder("zookeeper-sequential"),),
    )

    def __init__(
        self,
        session: ZooKeeperSession,
        key: str,
        ttl: float,
        fence: Literal["czxid", "sequence"] = "czxid",
        check: Literal["server", "session"] = "server",
    ) -> None:
        super().__init__(session, key, ttl)
        self.fence = fence
        self.check = check
        self._doubtful: set[str] = set()

    def take(self, deadline: float) -> Grant | None:
        self._clear_doubts()
        guid = self.new_name()
        self._doubtful.add(guid)
        name = self._enqueue(guid)
        held = self._wait(name, deadline)
        if held is None:
            self.session.remove(self._path(name))
        self._doubtful.discard(guid)
        if held is None:
            return None
        self.held = held
        return Grant(fence=held.czxid if self.fence == "czxid" else number_of(name))

    def new_name(self) -> str:
        """Return a new guid, which marks the node of one try."""
        return uuid.uuid4().hex

    def _path(self, name: str) -> str:
        return f"{self.path}/{name}"

    def _enqueue(self, guid: str) -> str:
        """Create our node once, through lost answers, and return its name."""
        for _ in range(TRIES):
            try:
                path, _ = self.session.make(self._path(guid + INFIX), sequence=True)
            except UNANSWERED:
                name = self.recovered(guid)
                if name is not None:
                    return name
            else:
                return path.rpartition("/")[2]
        raise LockError(f"no node was made in {TRIES} tries")

    def recovered(self, guid: str) -> str | None:
        """Return the name of the node whose creation was not answered, or None if it was not created.

        A node of an earlier session does not count, even if it still exists: it is about to be deleted.
        """
        try:
            names = self.session.look("get_children", self.path)
        except NoNodeError:
            return None
        for name in names:
            if name.startswith(guid):
                stat = self.session.ask("exists", self._path(name))
                return name if stat is not None and self.session.made(stat) else None
        return None

    def _wait(self, name: str, deadline: float) -> HeldNode | None:
        """Wait for our turn; None if others are before us until the deadline."""
        while True:
            try:
                held, waited = self._step(name, deadline)
            except UNANSWERED:
                held, waited = None, True
                time.sleep(PAUSE_S)
            if held is not None:
                return held
            if not waited or time.monotonic() >= deadline:
                return None

    def _step(self, name: str, deadline: float) -> tuple[HeldNode | None, bool]:
        """Return our node if it is the first; otherwise whether the node before it was deleted in time."""
        queue = self.in_order(self.session.ask("get_children", self.path), name)
        if name not in queue:
            raise LockError(f"{self._path(name)} is gone: its session has ended")
        if queue[0] == name:
            return self._first(name), False
        signal = Signal()
        if self.session.ask("exists", self._path(queue[queue.index(name) - 1]), signal) is None:
            return None, True
        return None, self.await_signal(signal, deadline)

    def _first(self, name: str) -> HeldNode:
        stat = self.session.ask("exists", self._path(name))
        if stat is None or self.session.id not in (stat.ephemeralOwner, None):
            raise LockError(f"{self._path(name)} is gone: its session has ended")
        return HeldNode.of(self._path(name), stat)

    def in_order(self, names: list[str], own: str) -> list[str]:
        """Sort names by their number, not by the text before it."""
        base = number_of(own)
        return sorted((name for name in names if INFIX in name), key=lambda name: ahead(number_of(name), base))

    def _clear_doubts(self) -> None:
        """Delete nodes that earlier tries with unknown outcome may have left: they would block all clients."""
        for guid in sorted(self._doubtful):
            name = self.recovered(guid)
            if name is not None:
                self.session.remove(self._path(name))
            self._doubtful.discard(guid)

    def give_back(self, held: HeldNode) -> bool:
        """Delete our node. No other node has this name, so the request can be repeated."""
        guid = held.path.rpartition("/")[2].partition(INFIX)[0]
        self._doubtful.add(guid)
        removed = self.session.remove(held.path)
        self._doubtful.discard(guid)
        return removed

    def still_valid(self) -> bool:
        if self.check == "session":
            state: Any = self.session.client.state
            return self.held is not None and bool(state == KazooState.CONNECTED)
        return super().still_valid()


def number_of(name: str) -> int:
    """The number that the server has appended to a name: ten characters or more, with a sign if negative."""
    return int(name.rpartition(INFIX)[2])


def ahead(number: int, base: int) -> int:
    """Return the distance of two sequence numbers, with wrap-around at 32 bits."""
    return (number - base + _WRAP // 2) % _WRAP - _WRAP // 2
