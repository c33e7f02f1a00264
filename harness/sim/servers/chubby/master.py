"""The master of a Chubby cell, for the time of one epoch: handles, files and locks.

Source: Burrows 2006, sections 2.4 (locks, sequencers, lock-delay) and 2.9 (fail-overs). Handles are in the master's
memory alone. A new master recreates one when a client uses it, but not one that was closed in this epoch, and removes
ephemeral files that nobody has opened again in a minute. What the paper leaves open: who waits for a lock gets it in
the order of asking, and somebody who wants to share does not overtake those before him either.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from harness.sim.servers.chubby import files

from .calls import Call, Refused
from .protocol import BAD_HANDLE, NOT_FOUND, NOT_HELD, SECOND, Message, ns
from .replica import Change, Replica
from .sessions import Session, Sessions, Waiter

REOPEN_S: Final = 60.0
"""How long after a fail-over ephemeral files may wait to be opened again."""


class Master(Sessions):
    """Files and locks for the sessions."""

    def __init__(self, replica: Replica, lease: float | None, grace: float | None, lock_delay: float | None) -> None:
        super().__init__(replica, lease, grace, lock_delay)
        self._open: dict[str, Message] = {}
        """Handles by their ids."""
        self._closed: set[str] = set()
        self._queues: dict[str, list[Waiter]] = {}
        self._delayed: dict[str, int] = {}
        """Until when a free lock is nobody's to have, ns."""
        self.recover()

    def recover(self) -> None:
        """A lock-delay that is found begins anew: nobody knows when it began."""
        super().recover()
        for key, row in self.rows.items():
            if key.startswith(files.FILE) and row["delay"]:
                self._delay(key.removeprefix(files.FILE), row["delay"])
        self.host.call_later(ns(REOPEN_S), self._remove_orphans)

    def perform(self, call: Call, session: Session) -> None:
        _OPERATIONS[call.op](self, call, session)

    def _handle(self, call: Call, session: Session) -> Message:
        """The handle that a call brings; one of an earlier epoch is recreated, unless it has been closed in this."""
        handle: Message = call.body["handle"]
        id_ = handle["id"]
        if not id_.startswith(session.id + "/"):
            raise Refused(BAD_HANDLE)
        if id_ not in self._open:
            if id_ in self._closed or handle["epoch"] >= self.epoch:
                raise Refused(BAD_HANDLE)
            self._open[id_] = handle
        return handle

    def _file(self, handle: Message) -> files.Row:
        row = files.file_of(self.rows, handle["name"])
        if row is None or row["instance"] != handle["instance"]:
            raise Refused(NOT_FOUND)
        return row

    def _remove_orphans(self) -> None:
        if not self._in_office():
            return
        open_ = {handle["name"] for handle in self._open.values()}
        for key, row in list(self.rows.items()):
            name = key.removeprefix(files.FILE)
            if key.startswith(files.FILE) and row["ephemeral"] and name not in open_:
                self.replica.commit(files.deleted(self.rows, name), _nothing)

    # Handles.

    def _open_file(self, call: Call, session: Session) -> None:
        body = call.body
        name, changes = body["name"], []
        row = files.file_of(self.rows, name)
        if row is None:
            if not body["create"]:
                raise Refused(NOT_FOUND)
            changes = [files.created(self.rows, name, body["contents"], ephemeral=body["ephemeral"])]
            row = changes[0][1]
        handle = {
            "id": f"{session.id}/{body['n']}",
            "epoch": self.epoch,
            "name": name,
            "instance": row["instance"],
        }
        self._open[handle["id"]] = handle
        self._do(call, session, changes, {"handle": handle})

    def _close_handle(self, call: Call, session: Session) -> None:
        handle = self._handle(call, session)
        self._do(call, session, self._close(handle["id"], handle["name"]), {})

    def _close(self, id_: str, name: str) -> list[Change]:
        """Forget a handle: the last one of an ephemeral file takes it along, one that holds a lock gives it back."""
        self._open.pop(id_, None)
        self._closed.add(id_)
        row = files.file_of(self.rows, name)
        if row is None:
            return []
        if row["ephemeral"] and not any(handle["name"] == name for handle in self._open.values()):
            return files.deleted(self.rows, name)
        if id_ in row["holders"] and row["holders"][id_] in self.sessions:
            self.host.call_later(0, self._pump, name)
            return [files.given_back(self.rows, name, [id_])]
        return []

    def _delete(self, call: Call, session: Session) -> None:
        handle = self._handle(call, session)
        self._file(handle)
        self._do(call, session, files.deleted(self.rows, handle["name"]), {})
        for waiter in list(self._queues.get(handle["name"], ())):
            self._leave(waiter)
            waiter.call.refuse(NOT_FOUND)

    def _read(self, call: Call, session: Session) -> None:
        row = self._file(self._handle(call, session))
        self._answer_once_committed(call, {"ok": {"contents": row["contents"], "stat": files.stat(row)}})

    def _freed(self, session: Session, delay: float) -> list[Change]:
        changes: list[Change] = []
        for name, handles in files.held_by(self.rows, session.id).items():
            change = files.given_back(self.rows, name, handles, delay)
            changes.append(change)
            if change[1]["mode"] == "free" and delay:
                self._delay(name, delay)
            self.host.call_later(0, self._pump, name)
        for id_, handle in list(self._open.items()):
            if id_.startswith(session.id + "/"):
                changes += self._close(id_, handle["name"])
        return changes

    # Locks.

    def _acquire(self, call: Call, session: Session) -> None:
        handle, mode = self._handle(call, session), call.body["mode"]
        waited = (self.replica.now() - call.began) / SECOND
        wait = 0.0 if call.op == "TryAcquire" else float(call.body["wait"]) - waited
        waiter = Waiter(call, session, handle, mode)
        self._file(handle)
        if not self._queues.get(handle["name"]) and self._grant(waiter):
            return
        if wait <= 0:
            self._do(call, session, [], {"held": False})
            return
        session.waiting = waiter
        self._queues.setdefault(handle["name"], []).append(waiter)
        waiter.timer = self.host.call_later(ns(wait), self._wait_over, waiter)

    def _grant(self, waiter: Waiter) -> bool:
        name, id_ = waiter.handle["name"], waiter.handle["id"]
        row = self.rows[files.FILE + name]
        if self._delayed.get(name, 0) > self.replica.now() or not files.compatible(row, waiter.mode, id_):
            return False
        change = files.granted(self.rows, name, waiter.mode, id_, waiter.session.id)
        self._delayed.pop(name, None)
        self._do(waiter.call, waiter.session, [change], {"held": True})
        return True

    def _wait_over(self, waiter: Waiter) -> None:
        if waiter.session.waiting is waiter and self._in_office():
            self._leave(waiter)
            self._do(waiter.call, waiter.session, [], {"held": False})
            self._pump(waiter.handle["name"])

    def _leave(self, waiter: Waiter) -> None:
        waiter.session.waiting = None
        if waiter.timer is not None:
            waiter.timer.cancel()
        self._queues[waiter.handle["name"]].remove(waiter)

    def _pump(self, name: str) -> None:
        """Give a lock to those who wait for it, as far as it goes."""
        queue = self._queues.get(name)
        while queue and self._in_office() and self._grant(queue[0]):
            self._leave(queue[0])

    def _delay(self, name: str, seconds: float) -> None:
        self._delayed[name] = self.replica.now() + ns(seconds)
        self.host.call_later(ns(seconds), self._pump, name)

    def _held_row(self, handle: Message) -> files.Row:
        row = self._file(handle)
        if handle["id"] not in row["holders"]:
            raise Refused(NOT_HELD)
        return row

    def _release(self, call: Call, session: Session) -> None:
        handle = self._handle(call, session)
        self._held_row(handle)
        self._do(call, session, [files.given_back(self.rows, handle["name"], [handle["id"]])], {})
        self._pump(handle["name"])

    def _get_sequencer(self, call: Call, session: Session) -> None:
        handle = self._handle(call, session)
        shown = files.sequencer(handle["name"], self._held_row(handle))
        self._answer_once_committed(call, {"ok": {"sequencer": shown}})

    def _check_sequencer(self, call: Call, session: Session) -> None:  # noqa: ARG002
        valid = files.is_current(self.rows, call.body["sequencer"])
        self._answer_once_committed(call, {"ok": {"valid": valid}})


def _nothing() -> None: ...


_OPERATIONS: Final[dict[str, Callable[[Master, Call, Session], None]]] = {
    "Open": Master._open_file,
    "Close": Master._close_handle,
    "Delete": Master._delete,
    "GetContentsAndStat": Master._read,
    "Acquire": Master._acquire,
    "TryAcquire": Master._acquire,
    "Release": Master._release,
    "GetSequencer": Master._get_sequencer,
    "CheckSequencer": Master._check_sequencer,
}
