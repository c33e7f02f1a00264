"""The sessions of a Chubby cell's master, for the time of one epoch: leases, KeepAlives, fail-overs.

Source: Burrows 2006, sections 2.8 and 2.9. Sessions are in the database that the replicas keep, their leases in the
master's memory alone. A new master therefore refuses calls with another epoch's number, so that every client learns of
the fail-over; gives each session the longest lease that the old master may have given it; and answers KeepAlives only,
until each session has sent one in the new epoch or has ended.

A session ends a little after its lease (:data:`DRIFT`), never before. What the paper leaves open: a KeepAlive is
answered when a third of the lease is left, or of what the client says it has left; and a request that is sent again
with its number is answered as it was the first time, for which its answer is kept with the session.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Final

from harness.sim.servers.chubby import files

from ...service import Conn, Timer
from .calls import Call, Refused
from .protocol import (
    BAD_REQUEST,
    DRIFT,
    NO_SESSION,
    NOT_MASTER,
    OLD_REQUEST,
    SECOND,
    STALE_EPOCH,
    Message,
    ns,
    well_formed,
)
from .replica import Change, Replica

LEASE_S: Final = 12.0
GRACE_S: Final = 45.0
LOCK_DELAY_S: Final = 60.0
"""The paper's: lease, grace period, and the longest lock-delay."""
ANSWER_AT: Final = 1 / 3


class Session:
    """What the master has of a session in its memory. ``end`` is its lease's, ns."""

    def __init__(self, id_: str, lease: float, delay: float, end: int, *, acknowledged: bool) -> None:
        self.id = id_
        self.lease = lease
        self.delay = delay
        self.end = end
        self.acknowledged = acknowledged
        """Has it sent a KeepAlive in this epoch?"""
        self.keepalive: Call | None = None
        self.timer: Timer | None = None
        self.waiting: Waiter | None = None
        self.ended = False


class Waiter:
    """An Acquire that waits for its lock; a session has one at most."""

    def __init__(self, call: Call, session: Session, handle: Message, mode: str) -> None:
        self.call = call
        self.session = session
        self.handle = handle
        self.mode = mode
        self.timer: Timer | None = None


class Sessions(ABC):
    """The sessions of one epoch. What is done in them, beside keeping them alive, is the deriving class'."""

    def __init__(self, replica: Replica, lease: float | None, grace: float | None, lock_delay: float | None) -> None:
        self.replica = replica
        self.host = replica.host
        self.epoch = replica.disk.epoch
        self.rows = replica.disk.rows
        self._options = (lease, grace, lock_delay)
        self._count = 0
        self.sessions: dict[str, Session] = {}
        self._retired = False
        self._postponed: list[Call] = []

    # Fail-over.

    def recover(self) -> None:
        """Each session of the database gets the longest lease that the old master may have given it."""
        now = self.replica.now()
        for key, row in self.rows.items():
            if key.startswith(files.SESSION):
                end = now + ns(row["lease"])
                id_ = key.removeprefix(files.SESSION)
                self._watch(Session(id_, row["lease"], row["delay"], end, acknowledged=False))

    def _in_office(self) -> bool:
        return not self._retired and self.replica.serves()

    def _recovering(self) -> bool:
        return not all(session.acknowledged for session in self.sessions.values())

    def _go_on(self) -> None:
        """All sessions have been heard, or have ended: now what was asked meanwhile."""
        if not self._recovering():
            postponed, self._postponed = self._postponed, []
            for call in postponed:
                self.serve(call)

    def over(self) -> None:
        """It is the master no more: whoever waits must look for another."""
        self._retired = True
        for call in [*self._waiting(), *self._postponed]:
            call.refuse(NOT_MASTER, master=None)

    def _waiting(self) -> list[Call]:
        """Calls that wait for their time or for a lock."""
        calls: list[Call] = []
        for session in self.sessions.values():
            calls += [session.keepalive] if session.keepalive is not None else []
            calls += [session.waiting.call] if session.waiting is not None else []
        return calls

    def lost(self, conn: Conn) -> None:
        """A client's connection has broken: what was asked on it waits for nothing any more."""
        for session in self.sessions.values():
            if session.keepalive is not None and session.keepalive.conn is conn:
                session.keepalive = None
            if session.waiting is not None and session.waiting.call.conn is conn:
                self._leave(session.waiting)
        self._postponed = [call for call in self._postponed if call.conn is not conn]

    # Calls.

    def serve(self, call: Call) -> None:
        """Answer a call, now or later. Only while :meth:`Replica.serves`."""
        body = call.body
        if not well_formed(body):
            call.refuse(BAD_REQUEST)
        elif call.op == "CreateSession":
            self._unless_recovering(call, self._create_session)
        elif body["epoch"] != self.epoch:
            call.refuse(STALE_EPOCH, epoch=self.epoch)
        elif (session := self.sessions.get(body["session"])) is None:
            call.refuse(NO_SESSION)
        elif call.op == "KeepAlive":
            self._keep_alive(call, session)
        else:
            self._unless_recovering(call, partial(self._perform, session))

    def _unless_recovering(self, call: Call, do: Callable[[Call], None]) -> None:
        if self._recovering():
            self._postponed.append(call)
        else:
            do(call)

    def _perform(self, session: Session, call: Call) -> None:
        number, (done, reply) = call.body["n"], self.rows[files.SESSION + session.id]["done"]
        if session.waiting is not None and number >= done:  # asked again, or given up for something else
            self._leave(session.waiting)
        if number < done:
            call.refuse(OLD_REQUEST)
        elif number == done:
            self._answer_once_committed(call, reply)
        elif call.op == "EndSession":
            self.replica.commit(self._end(session, 0.0), partial(self._answer, call, {"ok": {}}))
            self._go_on()
        else:
            try:
                self.perform(call, session)
            except Refused as refused:
                call.refuse(refused.code)

    @abstractmethod
    def perform(self, call: Call, session: Session) -> None:
        """Do what is asked in a session; raises :class:`Refused`."""

    @abstractmethod
    def _leave(self, waiter: Waiter) -> None:
        """Wait no more."""

    @abstractmethod
    def _freed(self, session: Session, delay: float) -> list[Change]:
        """The changes that take from a session what it has; ``delay`` is the lock-delay it leaves."""

    def _answer_once_committed(self, call: Call, reply: Message) -> None:
        self.replica.once_committed(partial(self._answer, call, reply))

    def _answer(self, call: Call, reply: Message) -> None:
        if self._in_office():
            call.answer(reply)
        else:
            call.refuse(NOT_MASTER, master=None)

    def _do(self, call: Call, session: Session, changes: list[Change], result: Message) -> None:
        """Commit what a call changes together with its answer, and then answer."""
        key, reply = files.SESSION + session.id, {"ok": result}
        row = {**self.rows[key], "done": [call.body["n"], reply]}
        self.replica.commit([*changes, (key, row)], partial(self._answer, call, reply))

    # Sessions.

    def _create_session(self, call: Call) -> None:
        lease_option, grace_option, delay_option = self._options
        lease = lease_option or float(call.body.get("lease") or LEASE_S)
        grace = grace_option or lease * GRACE_S / LEASE_S
        asked = call.body.get("lock_delay")
        delay = delay_option or min(LOCK_DELAY_S if asked is None else float(asked), LOCK_DELAY_S)
        if not lease > 0 <= delay:
            call.refuse(BAD_REQUEST)
            return
        self._count += 1
        id_ = f"{self.epoch}.{self._count}"
        session = Session(id_, lease, delay, self.replica.now() + ns(lease), acknowledged=True)
        result = {"session": id_, "epoch": self.epoch, "lease": lease, "grace": grace, "lock_delay": delay}
        row = {"host": call.conn.peer, "lease": lease, "delay": delay, "done": [-1, None]}
        self._watch(session)
        self.replica.commit([(files.SESSION + id_, row)], partial(self._answer, call, {"ok": result}))

    def left(self, id_: str) -> int | None:
        """ns until a session is over unless its client is heard of; None if there is none."""
        session = self.sessions.get(id_)
        return None if session is None else max(0, session.end + ns(session.lease * DRIFT) - self.replica.now())

    def _watch(self, session: Session) -> None:
        self.sessions[session.id] = session
        margin = ns(session.lease * DRIFT)
        self.host.call_later(session.end + margin - self.replica.now(), self._look_at, session)

    def _look_at(self, session: Session) -> None:
        if session.ended or not self._in_office():
            return
        left = session.end + ns(session.lease * DRIFT) - self.replica.now()
        if left > 0:
            self.host.call_later(left, self._look_at, session)
        else:
            self.host.log(f"session {session.id} has expired")
            self.replica.commit(self._end(session, session.delay), _nothing)
            self._go_on()

    def _end(self, session: Session, delay: float) -> list[Change]:
        """Forget a session; the changes that free its locks, with a lock-delay if it has failed."""
        session.ended = True
        del self.sessions[session.id]
        if session.waiting is not None:
            session.waiting.call.refuse(NO_SESSION)
            self._leave(session.waiting)
        if session.keepalive is not None:
            session.keepalive.refuse(NO_SESSION)
        return [(files.SESSION + session.id, None), *self._freed(session, delay)]

    def _keep_alive(self, call: Call, session: Session) -> None:
        if session.timer is not None:
            session.timer.cancel()
        session.keepalive = call
        if not session.acknowledged:
            session.acknowledged = True
            self._answer_keep_alive(session, extend=False)
            self._go_on()
            return
        left = min((session.end - self.replica.now()) / SECOND, float(call.body["left"]))
        wait = max(0.0, left - session.lease * ANSWER_AT)
        session.timer = self.host.call_later(ns(wait), self._answer_keep_alive, session)

    def _answer_keep_alive(self, session: Session, *, extend: bool = True) -> None:
        """The lease counts from this answer; to a client that has just found the new master, it is what it is."""
        call, session.keepalive = session.keepalive, None
        if call is None or session.ended:
            return
        if not self._in_office():
            call.refuse(NOT_MASTER, master=None)
            return
        now = self.replica.now()
        if extend:
            session.end = max(session.end, now + ns(session.lease))
        result = {"lease": (session.end - now) / SECOND, "held": (now - call.began) / SECOND}
        self._answer_once_committed(call, {"ok": result})


def _nothing() -> None: ...
