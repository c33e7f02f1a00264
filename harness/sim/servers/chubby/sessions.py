"""Sessions on a Chubby cell's master during one epoch: leases, KeepAlives, expiry, fail-overs.

Source: Burrows 2006, sections 2.8 and 2.9. Sessions are in the replicated database, but their leases exist only in the
master's memory. After a fail-over the new master therefore refuses requests with another epoch's number, so that each
client learns of the fail-over; gives each session the longest lease that the old master may have given it; and answers
only KeepAlives until each session has sent one in the new epoch or has ended.

A session ends a little after its lease (:data:`DRIFT`), never before. Where the paper is silent: a KeepAlive is
answered when a third of the lease is left, by the master's or by the client's count; and a repeated request gets its
first answer again, which is stored with the session.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Final

from harness.sim.service import Conn, Timer

from . import files
from .calls import ClientRequest, RejectedOperation
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
"""Lease, grace period and greatest lock-delay in the paper."""
ANSWER_AT_FRACTION: Final = 1 / 3


class MasterSession:
    """A session in the master's memory. ``lease`` and ``lock_delay`` are in seconds, ``lease_end`` in monotonic ns."""

    def __init__(self, id_: str, lease: float, lock_delay: float, lease_end: int, *, acknowledged: bool) -> None:
        self.id = id_
        self.lease = lease
        self.lock_delay = lock_delay
        self.lease_end = lease_end
        self.acknowledged = acknowledged
        """True if it has sent a KeepAlive in this epoch."""
        self.keepalive: ClientRequest | None = None
        self.timer: Timer | None = None
        self.waiting: Waiter | None = None
        self.ended = False


class Waiter:
    """An Acquire that waits for its lock; a session has at most one."""

    def __init__(self, call: ClientRequest, session: MasterSession, handle: Message, mode: str) -> None:
        self.call = call
        self.session = session
        self.handle = handle
        self.mode = mode
        self.timer: Timer | None = None


class SessionTable(ABC):
    """The sessions of one epoch. Derived classes implement the operations other than on sessions."""

    def __init__(self, replica: Replica, lease: float | None, grace: float | None, lock_delay: float | None) -> None:
        self.replica = replica
        self.host = replica.host
        self.epoch = replica.disk.epoch
        self.rows = replica.disk.rows
        self._options = (lease, grace, lock_delay)
        self._count = 0
        self.sessions: dict[str, MasterSession] = {}
        self._retired = False
        self._postponed: list[ClientRequest] = []

    # Fail-over.

    def recover(self) -> None:
        """Give each session in the database the longest lease that the old master may have given it."""
        now = self.replica.now()
        for key, row in self.rows.items():
            if key.startswith(files.SESSION):
                lease_end = now + ns(row["lease"])
                id_ = key.removeprefix(files.SESSION)
                self._watch(MasterSession(id_, row["lease"], row["delay"], lease_end, acknowledged=False))

    def _is_master(self) -> bool:
        return not self._retired and self.replica.serves()

    def _recovering(self) -> bool:
        return not all(session.acknowledged for session in self.sessions.values())

    def _serve_postponed(self) -> None:
        """Serve the postponed requests, once all sessions have sent a KeepAlive or ended."""
        if not self._recovering():
            postponed, self._postponed = self._postponed, []
            for call in postponed:
                self.serve(call)

    def retire(self) -> None:
        """Refuse all waiting requests, because this replica is no longer the master."""
        self._retired = True
        for call in [*self._waiting_calls(), *self._postponed]:
            call.refuse(NOT_MASTER, master=None)

    def _waiting_calls(self) -> list[ClientRequest]:
        """Return the KeepAlives that are held back and the requests that wait for a lock."""
        calls: list[ClientRequest] = []
        for session in self.sessions.values():
            calls += [session.keepalive] if session.keepalive is not None else []
            calls += [session.waiting.call] if session.waiting is not None else []
        return calls

    def connection_lost(self, conn: Conn) -> None:
        """Drop the waiting requests of a closed connection."""
        for session in self.sessions.values():
            if session.keepalive is not None and session.keepalive.conn is conn:
                session.keepalive = None
            if session.waiting is not None and session.waiting.call.conn is conn:
                self._stop_waiting(session.waiting)
        self._postponed = [call for call in self._postponed if call.conn is not conn]

    # Requests.

    def serve(self, call: ClientRequest) -> None:
        """Answer a request, now or later. Call it only while :meth:`Replica.serves`."""
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

    def _unless_recovering(self, call: ClientRequest, do: Callable[[ClientRequest], None]) -> None:
        if self._recovering():
            self._postponed.append(call)
        else:
            do(call)

    def _perform(self, session: MasterSession, call: ClientRequest) -> None:
        number, (done, reply) = call.body["n"], self.rows[files.SESSION + session.id]["done"]
        if session.waiting is not None and number >= done:  # repeated, or replaced by another request
            self._stop_waiting(session.waiting)
        if number < done:
            call.refuse(OLD_REQUEST)
        elif number == done:
            self._answer_once_committed(call, reply)
        elif call.op == "EndSession":
            self.replica.commit(self._end(session, 0.0), partial(self._answer, call, {"ok": {}}))
            self._serve_postponed()
        else:
            try:
                self.perform(call, session)
            except RejectedOperation as refused:
                call.refuse(refused.code)

    @abstractmethod
    def perform(self, call: ClientRequest, session: MasterSession) -> None:
        """Execute a request in a session; raises :class:`RejectedOperation`."""

    @abstractmethod
    def _stop_waiting(self, waiter: Waiter) -> None:
        """Remove a waiter from its queue."""

    @abstractmethod
    def _release_all(self, session: MasterSession, lock_delay: float) -> list[Change]:
        """Return the changes that release a session's locks, with a lock-delay in seconds, and close its handles."""

    def _answer_once_committed(self, call: ClientRequest, reply: Message) -> None:
        self.replica.once_committed(partial(self._answer, call, reply))

    def _answer(self, call: ClientRequest, reply: Message) -> None:
        if self._is_master():
            call.answer(reply)
        else:
            call.refuse(NOT_MASTER, master=None)

    def _commit_and_answer(
        self, call: ClientRequest, session: MasterSession, changes: list[Change], result: Message
    ) -> None:
        """Commit the changes of a request together with its answer, then send the answer."""
        key, reply = files.SESSION + session.id, {"ok": result}
        row = {**self.rows[key], "done": [call.body["n"], reply]}
        self.replica.commit([*changes, (key, row)], partial(self._answer, call, reply))

    # Sessions.

    def _create_session(self, call: ClientRequest) -> None:
        lease_option, grace_option, delay_option = self._options
        lease = lease_option or float(call.body.get("lease") or LEASE_S)
        grace = grace_option or lease * GRACE_S / LEASE_S
        requested_delay = call.body.get("lock_delay")
        lock_delay = delay_option or min(
            LOCK_DELAY_S if requested_delay is None else float(requested_delay), LOCK_DELAY_S
        )
        if not lease > 0 <= lock_delay:
            call.refuse(BAD_REQUEST)
            return
        self._count += 1
        id_ = f"{self.epoch}.{self._count}"
        session = MasterSession(id_, lease, lock_delay, self.replica.now() + ns(lease), acknowledged=True)
        result = {"session": id_, "epoch": self.epoch, "lease": lease, "grace": grace, "lock_delay": lock_delay}
        row = {"host": call.conn.peer, "lease": lease, "delay": lock_delay, "done": [-1, None]}
        self._watch(session)
        self.replica.commit([(files.SESSION + id_, row)], partial(self._answer, call, {"ok": result}))

    def left(self, id_: str) -> int | None:
        """Return the ns until a session expires unless its client is heard from; None if it does not exist."""
        session = self.sessions.get(id_)
        return None if session is None else max(0, session.lease_end + ns(session.lease * DRIFT) - self.replica.now())

    def _watch(self, session: MasterSession) -> None:
        self.sessions[session.id] = session
        margin = ns(session.lease * DRIFT)
        self.host.call_later(session.lease_end + margin - self.replica.now(), self._check_expiry, session)

    def _check_expiry(self, session: MasterSession) -> None:
        if session.ended or not self._is_master():
            return
        left = session.lease_end + ns(session.lease * DRIFT) - self.replica.now()
        if left > 0:
            self.host.call_later(left, self._check_expiry, session)
        else:
            self.host.log(f"session {session.id} has expired")
            self.replica.commit(self._end(session, session.lock_delay), _no_op)
            self._serve_postponed()

    def _end(self, session: MasterSession, lock_delay: float) -> list[Change]:
        """Remove a session, and return the changes that release its locks with a lock-delay in seconds."""
        session.ended = True
        del self.sessions[session.id]
        if session.waiting is not None:
            session.waiting.call.refuse(NO_SESSION)
            self._stop_waiting(session.waiting)
        if session.keepalive is not None:
            session.keepalive.refuse(NO_SESSION)
        return [(files.SESSION + session.id, None), *self._release_all(session, lock_delay)]

    def _keep_alive(self, call: ClientRequest, session: MasterSession) -> None:
        if session.timer is not None:
            session.timer.cancel()
        session.keepalive = call
        if not session.acknowledged:
            session.acknowledged = True
            self._answer_keep_alive(session, extend=False)
            self._serve_postponed()
            return
        left = min((session.lease_end - self.replica.now()) / SECOND, float(call.body["left"]))
        wait = max(0.0, left - session.lease * ANSWER_AT_FRACTION)
        session.timer = self.host.call_later(ns(wait), self._answer_keep_alive, session)

    def _answer_keep_alive(self, session: MasterSession, *, extend: bool = True) -> None:
        """Answer a session's KeepAlive; the lease is extended from now, but not by the first one after a fail-over."""
        call, session.keepalive = session.keepalive, None
        if call is None or session.ended:
            return
        if not self._is_master():
            call.refuse(NOT_MASTER, master=None)
            return
        now = self.replica.now()
        if extend:
            session.lease_end = max(session.lease_end, now + ns(session.lease))
        result = {"lease": (session.lease_end - now) / SECOND, "held": (now - call.received_at) / SECOND}
        self._answer_once_committed(call, {"ok": result})


def _no_op() -> None: ...
