"""The present state of a run that is still recorded: grants so far, current holders, active faults.

It reads each entry once and stores only what it shows, so its memory does not grow with the length of the run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from . import NEMESIS, SECOND, Op

LOST: Final = {"check": "valid", "extend": "extended"}
"""Calls that may tell a holder that the lock is lost, each with the field that is then false."""


def lost(done: Op) -> bool:
    """Return whether the completion of a check or extend says that the lock is lost."""
    return done.f in LOST and done.type == "ok" and not (done.value or {}).get(LOST[done.f])


@dataclass(slots=True)
class OngoingFault:
    """A fault that has struck and is not healed, with its start (ns).

    ``seen`` is None until it was checked whether the fault took effect; ``error`` says what was expected instead, at
    the injection or at the heal.
    """

    fault: str
    hosts: tuple[str, ...]
    since: int
    seen: bool | None
    observed: dict[str, Any]
    error: str


@dataclass(slots=True)
class OngoingHold:
    """A hold that has not ended: its start, and the time until which the client relies on it (ns; None: until its
    release)."""

    since: int
    until: int | None
    nested: int = 0
    shared: bool = False


class Ongoing:
    """Counts calls, holds and faults of a run while it is recorded; times are in ns, as in the history.

    Holds are as in docs/histories.md, except that entries of clients in containers may arrive slightly out of order.
    """

    def __init__(self) -> None:
        self.settings: dict[str, Any] = {}
        """The value of the entry ``start``."""
        self.origin = self.now = 0
        self.calls = self.granted = self.refused = self.unknown = 0
        """Numbers of ended calls, and of acquires that were granted, were not granted, or have an unknown outcome."""
        self.ended = ""
        """Return the reason why the run has ended; empty while it is in progress."""
        self.forces: dict[int, OngoingFault] = {}
        self._holds: dict[tuple[str, str], OngoingHold] = {}

    def add(self, op: Op) -> None:
        """Add the next entry."""
        if not self.origin:
            self.origin = op.time
        self.now = max(self.now, op.time)
        if op.process == NEMESIS:
            self._nemesis(op)
            return
        self.calls += op.type != "invoke"
        if op.f == "acquire":
            self._acquire(op)
        elif op.f == "release":
            self._release(op)
        elif op.f in LOST and op.type == "ok":
            self._told(op)

    def holders(self) -> dict[str, list[str]]:
        """Return the holders of each key that is held at this moment, sorted by key."""
        found: dict[str, list[str]] = {}
        for (key, client), hold in sorted(self._holds.items()):
            if hold.until is None or hold.until > self.now:
                found.setdefault(key, []).append(client)
        return found

    def held_since(self, key: str, client: str) -> int:
        """Return when the current hold began; KeyError if there is none."""
        return self._holds[key, client].since

    def shared(self, key: str, client: str) -> bool:
        """Return whether the current hold is shared. KeyError if there is none."""
        return self._holds[key, client].shared

    # Clients.

    def _acquire(self, op: Op) -> None:
        if op.type == "invoke":
            return
        self.granted += op.type == "ok"
        self.refused += op.type == "fail"
        self.unknown += op.type == "info"
        if op.type != "ok":
            return
        slot = _slot(op)
        hold = self._holds.get(slot)
        if hold is None or (hold.until is not None and hold.until <= op.time):
            shared = bool((op.value or {}).get("shared"))
            self._holds[slot] = OngoingHold(op.time, self._until(op), shared=shared)
        else:
            hold.nested += 1
            hold.until = self._longer(hold, op)

    def _release(self, op: Op) -> None:
        hold = self._holds.get(_slot(op))
        if op.type != "invoke" or hold is None:
            return
        if hold.nested:
            hold.nested -= 1
        else:
            del self._holds[_slot(op)]

    def _told(self, op: Op) -> None:
        """Process the answer to a check or extend."""
        hold = self._holds.get(_slot(op))
        if hold is None:
            return
        if lost(op):
            del self._holds[_slot(op)]
        else:
            hold.until = self._longer(hold, op)

    def _until(self, op: Op) -> int | None:
        """Return until when a client relies on the grant or extension: one that says so (``relies_for``), or one with
        discipline ``checking``. None if it has no end."""
        lease, relies = ((op.value or {}).get(name) for name in ("valid_for", "relies_for"))
        if relies is not None:
            return op.time + int(relies * SECOND)
        checking = self.settings.get("discipline") == "checking"
        return op.time + int(lease * SECOND) if checking and lease is not None else None

    def _longer(self, hold: OngoingHold, op: Op) -> int | None:
        until = self._until(op)
        return hold.until if until is None or hold.until is None else max(hold.until, until)

    # The nemesis.

    def _nemesis(self, op: Op) -> None:
        if op.f == "start":
            self.settings = op.value
        elif op.f == "stop":
            self.ended = op.value["reason"]
        elif op.f == "crash":
            gone = op.value["host"]
            self._holds = {slot: hold for slot, hold in self._holds.items() if slot[1] != gone}
        elif op.f == "inject":
            self._inject(op)
        elif op.f == "heal":
            self._heal(op)

    def _inject(self, op: Op) -> None:
        value, force = op.value, self.forces.get(op.value["id"])
        if op.type == "invoke":
            self.forces[value["id"]] = OngoingFault(value["fault"], tuple(value["hosts"]), op.time, None, {}, "")
        elif force is not None:  # otherwise the fault never struck: its event did not occur
            force.seen, force.observed, force.error = op.type == "ok", value["observed"], op.error or ""

    def _heal(self, op: Op) -> None:
        force = self.forces.get(op.value["id"])
        if op.type == "ok":
            self.forces.pop(op.value["id"], None)
        elif force is not None:
            force.error = op.error or "heal not confirmed"


def _slot(op: Op) -> tuple[str, str]:
    return op.key or "", op.node or f"process {op.process}"
