"""The master of a Chubby cell during one epoch: executes operations on handles, files and locks.

Source: Burrows 2006, sections 2.4 (locks, sequencers, lock-delay) and 2.9 (fail-overs). Handles exist only in the
master's memory. A new master recreates a handle when a client uses it, unless it was closed in this epoch, and removes
ephemeral files that no client has opened again within a minute. Where the paper is silent: waiters get a lock in the
order of their requests, and a shared request does not overtake earlier exclusive ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from . import files
from .calls import ClientRequest, RejectedOperation
from .protocol import BAD_HANDLE, NOT_FOUND, NOT_HELD, SECOND, Message, ns
from .replica import Change, Replica
from .sessions import MasterSession, SessionTable, Waiter

REOPEN_S: Final = 60.0
"""Time after a fail-over for which ephemeral files exist without an open handle."""


class Master(SessionTable):
    """The operations on files and locks, on top of the sessions."""

    def __init__(self, replica: Replica, lease: float | None, grace: float | None, lock_delay: float | None) -> None:
        super().__init__(replica, lease, grace, lock_delay)
        self._handles: dict[str, Message] = {}
        """Open handles by their ids."""
        self._closed_handles: set[str] = set()
        self._queues: dict[str, list[Waiter]] = {}
        self._delayed_until: dict[str, int] = {}
        """Monotonic ns until which a free lock is not granted (lock-delay), by file."""
        self.recover()

    def recover(self) -> None:
        """Recover the sessions, and restart all lock-delays, because their start is not recorded."""
        super().recover()
        for key, row in self.rows.items():
            if key.startswith(files.FILE) and row["delay"]:
                self._start_lock_delay(key.removeprefix(files.FILE), row["delay"])
        self.host.call_later(ns(REOPEN_S), self._remove_orphans)

    def perform(self, call: ClientRequest, session: MasterSession) -> None:
        _OPERATIONS[call.op](self, call, session)

    def _require_handle(self, call: ClientRequest, session: MasterSession) -> Message:
        """Return the handle of a request; one of an earlier epoch is recreated, unless it was closed in this one.

        Raises RejectedOperation.
        """
        handle: Message = call.body["handle"]
        id_ = handle["id"]
        if not id_.startswith(session.id + "/"):
            raise RejectedOperation(BAD_HANDLE)
        if id_ not in self._handles:
            if id_ in self._closed_handles or handle["epoch"] >= self.epoch:
                raise RejectedOperation(BAD_HANDLE)
            self._handles[id_] = handle
        return handle

    def _require_file(self, handle: Message) -> files.Row:
        row = files.file_of(self.rows, handle["name"])
        if row is None or row["instance"] != handle["instance"]:
            raise RejectedOperation(NOT_FOUND)
        return row

    def _remove_orphans(self) -> None:
        if not self._is_master():
            return
        open_ = {handle["name"] for handle in self._handles.values()}
        for key, row in list(self.rows.items()):
            name = key.removeprefix(files.FILE)
            if key.startswith(files.FILE) and row["ephemeral"] and name not in open_:
                self.replica.commit(files.delete(self.rows, name), _no_op)

    # Handles.

    def _open_file(self, call: ClientRequest, session: MasterSession) -> None:
        body = call.body
        name, changes = body["name"], []
        row = files.file_of(self.rows, name)
        if row is None:
            if not body["create"]:
                raise RejectedOperation(NOT_FOUND)
            changes = [files.create(self.rows, name, body["contents"], ephemeral=body["ephemeral"])]
            row = changes[0][1]
        handle = {
            "id": f"{session.id}/{body['n']}",
            "epoch": self.epoch,
            "name": name,
            "instance": row["instance"],
        }
        self._handles[handle["id"]] = handle
        self._commit_and_answer(call, session, changes, {"handle": handle})

    def _close_handle(self, call: ClientRequest, session: MasterSession) -> None:
        handle = self._require_handle(call, session)
        self._commit_and_answer(call, session, self._remove_handle(handle["id"], handle["name"]), {})

    def _remove_handle(self, id_: str, name: str) -> list[Change]:
        """Close a handle, and return the changes: its lock is released, an ephemeral file without handles deleted."""
        self._handles.pop(id_, None)
        self._closed_handles.add(id_)
        row = files.file_of(self.rows, name)
        if row is None:
            return []
        if row["ephemeral"] and not any(handle["name"] == name for handle in self._handles.values()):
            return files.delete(self.rows, name)
        if id_ in row["holders"] and row["holders"][id_] in self.sessions:
            self.host.call_later(0, self._grant_waiting, name)
            return [files.release(self.rows, name, [id_])]
        return []

    def _delete(self, call: ClientRequest, session: MasterSession) -> None:
        handle = self._require_handle(call, session)
        self._require_file(handle)
        self._commit_and_answer(call, session, files.delete(self.rows, handle["name"]), {})
        for waiter in list(self._queues.get(handle["name"], ())):
            self._stop_waiting(waiter)
            waiter.call.refuse(NOT_FOUND)

    def _read(self, call: ClientRequest, session: MasterSession) -> None:
        row = self._require_file(self._require_handle(call, session))
        self._answer_once_committed(call, {"ok": {"contents": row["contents"], "stat": files.stat(row)}})

    def _release_all(self, session: MasterSession, delay: float) -> list[Change]:
        changes: list[Change] = []
        for name, handles in files.held_by(self.rows, session.id).items():
            change = files.release(self.rows, name, handles, delay)
            changes.append(change)
            if change[1]["mode"] == "free" and delay:
                self._start_lock_delay(name, delay)
            self.host.call_later(0, self._grant_waiting, name)
        for id_, handle in list(self._handles.items()):
            if id_.startswith(session.id + "/"):
                changes += self._remove_handle(id_, handle["name"])
        return changes

    # Locks.

    def _acquire(self, call: ClientRequest, session: MasterSession) -> None:
        handle, mode = self._require_handle(call, session), call.body["mode"]
        waited = (self.replica.now() - call.received_at) / SECOND
        wait = 0.0 if call.op == "TryAcquire" else float(call.body["wait"]) - waited
        waiter = Waiter(call, session, handle, mode)
        self._require_file(handle)
        if not self._queues.get(handle["name"]) and self._grant(waiter):
            return
        if wait <= 0:
            self._commit_and_answer(call, session, [], {"held": False})
            return
        session.waiting = waiter
        self._queues.setdefault(handle["name"], []).append(waiter)
        waiter.timer = self.host.call_later(ns(wait), self._on_wait_timeout, waiter)

    def _grant(self, waiter: Waiter) -> bool:
        name, id_ = waiter.handle["name"], waiter.handle["id"]
        row = self.rows[files.FILE + name]
        if self._delayed_until.get(name, 0) > self.replica.now() or not files.compatible(row, waiter.mode, id_):
            return False
        change = files.grant(self.rows, name, waiter.mode, id_, waiter.session.id)
        self._delayed_until.pop(name, None)
        self._commit_and_answer(waiter.call, waiter.session, [change], {"held": True})
        return True

    def _on_wait_timeout(self, waiter: Waiter) -> None:
        if waiter.session.waiting is waiter and self._is_master():
            self._stop_waiting(waiter)
            self._commit_and_answer(waiter.call, waiter.session, [], {"held": False})
            self._grant_waiting(waiter.handle["name"])

    def _stop_waiting(self, waiter: Waiter) -> None:
        waiter.session.waiting = None
        if waiter.timer is not None:
            waiter.timer.cancel()
        self._queues[waiter.handle["name"]].remove(waiter)

    def _grant_waiting(self, name: str) -> None:
        """Grant a lock to its waiters in order, up to the first that must wait."""
        queue = self._queues.get(name)
        while queue and self._is_master() and self._grant(queue[0]):
            self._stop_waiting(queue[0])

    def _start_lock_delay(self, name: str, seconds: float) -> None:
        self._delayed_until[name] = self.replica.now() + ns(seconds)
        self.host.call_later(ns(seconds), self._grant_waiting, name)

    def _require_held(self, handle: Message) -> files.Row:
        row = self._require_file(handle)
        if handle["id"] not in row["holders"]:
            raise RejectedOperation(NOT_HELD)
        return row

    def _release(self, call: ClientRequest, session: MasterSession) -> None:
        handle = self._require_handle(call, session)
        self._require_held(handle)
        self._commit_and_answer(call, session, [files.release(self.rows, handle["name"], [handle["id"]])], {})
        self._grant_waiting(handle["name"])

    def _get_sequencer(self, call: ClientRequest, session: MasterSession) -> None:
        handle = self._require_handle(call, session)
        shown = files.sequencer(handle["name"], self._require_held(handle))
        self._answer_once_committed(call, {"ok": {"sequencer": shown}})

    def _check_sequencer(self, call: ClientRequest, session: MasterSession) -> None:  # noqa: ARG002
        valid = files.is_current(self.rows, call.body["sequencer"])
        self._answer_once_committed(call, {"ok": {"valid": valid}})


def _no_op() -> None: ...


_OPERATIONS: Final[dict[str, Callable[[Master, ClientRequest, MasterSession], None]]] = {
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
