"""A Chubby lock on ZooKeeper: a session with a grace period, a sequencer, and a delay after a lost holder.

/locks/KEY is a permanent node (the "file"): its content is the guid of the holder, or empty after a release. Its
ephemeral child ``holder`` exists while the holder's session lives. To acquire: ``getData`` of the file, ``exists`` of
the child with a watch; if it does not exist, ``multi`` of (``setData`` of the file if its version is the one that was
read; ``create`` of the child). To release: ``multi`` of (``setData`` of nothing if the version is the holder's;
``delete`` of the child). So a release can only end the releaser's own hold.

The file reveals a loss without release: there is no child, but the content still names a holder, so the holder's
session has ended. The lock is then taken only ``lock_delay`` after this client first saw that, as in Chubby, so that
late requests of the old holder arrive before. The fence is the sequencer's generation: the zxid of the ``multi``, which
is the czxid of the child. When a connection is lost the holder is in jeopardy: :meth:`still_valid` blocks for up to
``grace`` seconds, until the session has been continued (on another server) or is over; then it is False for this hold.

Source: article 003; Burrows, "The Chubby lock service for loosely-coupled distributed systems" (OSDI 2006) 2.4 and 2.8.

Safe for: correctness, if the resource refuses a sequencer older than the newest it has seen; the delay alone only makes
late requests less likely. Unfair: all waiters are woken, and each measures the delay by itself.

Known failures: zk-pause, ttl-check-then-pause, chubby-late (the fence covers all of these).
"""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from typing import Any, ClassVar

from kazoo.exceptions import (
    BadVersionError,
    KazooException,
    NodeExistsError,
    NoNodeError,
    RolledBackError,
    RuntimeInconsistency,
)

from .base import Grant, LockError, LockInfo
from .zookeeper_client import (
    KINDS,
    OUTAGE,
    PAUSE_S,
    REQUIRES,
    UNANSWERED,
    HeldNode,
    Signal,
    ZooKeeperLock,
    ZooKeeperSession,
    paused_holder,
)

GRACE_S = 5.0
LOCK_DELAY_S = 0.4
RELEASED = b""
_TOO_LATE = BadVersionError, NodeExistsError, NoNodeError, RolledBackError, RuntimeInconsistency
"""Errors of the parts of a transaction that came too late."""


@dataclass(frozen=True, slots=True)
class Sequencer:
    """Proof of a hold that a holder sends to servers. They refuse a generation lower than the highest one seen for
    this name."""

    name: str
    mode: str
    generation: int


class ChubbyZooKeeperLock(ZooKeeperLock):
    info: ClassVar = LockInfo(
        name="chubby-zookeeper",
        title="A Chubby lock on ZooKeeper: grace period, sequencer, lock-delay",
        algorithm="multi: write the holder into a file and create its ephemeral child; the zxid is the generation.",
        source="article 003; Burrows, OSDI 2006",
        safety="F",
        kinds=KINDS,
        requires=REQUIRES,
        fence=True,
        options={"grace": GRACE_S, "lock_delay": LOCK_DELAY_S},
        on_death="its session's end, the ttl (2 to 20 ticks) after its last heartbeat, and lock_delay more",
        outage=OUTAGE,
        no_single_point=True,
        overtime=LOCK_DELAY_S,
        failures=(paused_holder("chubby-zookeeper"),),
    )

    def __init__(
        self, session: ZooKeeperSession, key: str, ttl: float, grace: float = GRACE_S, lock_delay: float = LOCK_DELAY_S
    ) -> None:
        super().__init__(session, key, ttl)
        self.grace = grace
        self.lock_delay = lock_delay
        self.child = f"{self.path}/holder"
        self.sequencer: Sequencer | None = None
        self._guid = b""
        self._version = -1
        self._abandoned: tuple[int, float] = -1, 0.0
        self._doubtful: set[bytes] = set()
        """Guids of holds of which it is unknown whether they were written, or released."""

    def take(self, deadline: float) -> Grant | None:
        self._clear_doubts()
        while True:
            try:
                wait = self._obstacle(deadline)
            except UNANSWERED:
                if self._doubtful:  # we may hold the lock
                    raise
                wait = PAUSE_S
            if wait is None:
                return self._grant()
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                return None
            time.sleep(min(wait, remaining))

    def _obstacle(self, deadline: float) -> float | None:
        """Try to take the lock: None once we hold it, else how long to wait before the next try."""
        content, version = self._file()
        signal = Signal()
        if self.session.ask("exists", self.child, signal) is not None:
            self.await_signal(signal, deadline)
            return 0.0
        delay = self._delay(content, version)
        return delay if delay > 0 else self._try(version)

    def _file(self) -> tuple[bytes, int]:
        try:
            content, stat = self.session.ask("get", self.path)
        except NoNodeError:
            self.session.ask("ensure_path", self.path)
            content, stat = self.session.ask("get", self.path)
        return content, stat.version

    def _delay(self, content: bytes, version: int) -> float:
        """Seconds until the lock of a lost holder may be taken; 0 if it was released."""
        if content == RELEASED:
            return 0.0
        if self._abandoned[0] != version:
            self._abandoned = version, time.monotonic()
        return self._abandoned[1] + self.lock_delay - time.monotonic()

    def _try(self, version: int) -> float | None:
        guid = uuid.uuid4().hex.encode()
        self._doubtful.add(guid)
        taking = self.session.client.transaction()
        taking.set_data(self.path, guid, version)
        taking.create(self.child, guid, ephemeral=True)
        try:
            taken = _was_executed(self.session.patiently(taking.commit_async()))
        except UNANSWERED:
            taken = self._is_ours(guid)
        if not taken:
            self._doubtful.discard(guid)
            return 0.0
        stat = self.session.again(self.session.ask, "exists", self.child)
        if stat is None or self.session.id not in (stat.ephemeralOwner, None):
            raise LockError("the session has ended, and its node with it")
        self.held, self._version, self._guid = HeldNode.of(self.child, stat), version + 1, guid
        self._doubtful.discard(guid)
        return None

    def _grant(self) -> Grant:
        assert self.held is not None
        self.sequencer = Sequencer(self.path, "exclusive", self.held.czxid)
        return Grant(fence=self.sequencer.generation)

    def _is_ours(self, *guids: bytes) -> bool:
        """Return whether the child contains one of these guids and belongs to this session."""
        try:
            content, stat = self.session.look("get", self.child)
        except NoNodeError:
            return False
        return content in guids and self.session.made(stat)

    def _clear_doubts(self) -> None:
        """Release a lock that we hold because an earlier request was executed without our knowing it."""
        if self._doubtful and self._is_ours(*self._doubtful):
            _, version = self._file()
            self._leave(version)
        self._doubtful.clear()

    def _leave(self, version: int) -> bool:
        """Release the hold that was taken at this version of the file; False if another client has taken the lock
        since."""
        leaving = self.session.client.transaction()
        leaving.set_data(self.path, RELEASED, version)
        leaving.delete(self.child)
        return _was_executed(self.session.patiently(leaving.commit_async()))

    def give_back(self, held: HeldNode) -> bool:
        """Release the hold. The version makes a repetition safe: while our session lives, only we can have released
        it."""
        attempts = 0

        def leave() -> bool:
            nonlocal attempts
            attempts += 1
            return self._leave(self._version) or (attempts > 1 and self.session.id == held.session)

        self._doubtful.add(self._guid)
        released = bool(self.session.again(leave))
        self._doubtful.discard(self._guid)
        return released

    def still_valid(self) -> bool:
        """Ask the server; in jeopardy, block for as long as the grace period lasts."""
        deadline = time.monotonic() + self.grace
        while self.held is not None:
            try:
                return self.still_exists(self.held)
            except UNANSWERED:
                self.session.connected(max(0.0, deadline - time.monotonic()))
            except KazooException:
                return False
            if time.monotonic() >= deadline:
                return False
        return False


def _was_executed(results: list[Any]) -> bool:
    """Return whether a transaction was executed.

    False: nothing was executed, because another client came first or the holder's node is gone. Any other error is
    raised.
    """
    failed = [result for result in results if isinstance(result, Exception)]
    unexpected = [error for error in failed if not isinstance(error, _TOO_LATE)]
    if unexpected:
        raise unexpected[0]
    return not failed
