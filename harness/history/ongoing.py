"""What a history that still grows says of this moment: how much was granted, who holds what, which faults are in force.

It is told each entry once and keeps no more than it shows, so that an hour of a run costs no more than a minute.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from . import NEMESIS, SECOND, Op

LOST: Final = {"check": "valid", "extend": "extended"}
"""Calls that may tell a holder that the lock is lost: by a false one of this."""


def lost(done: Op) -> bool:
    """Does the completion of a check or extend tell its client that the lock is lost?"""
    return done.f in LOST and done.type == "ok" and not (done.value or {}).get(LOST[done.f])


@dataclass(slots=True)
class Force:
    """A fault that has struck and is not healed, since when (ns). ``seen`` is None until somebody has looked whether it
    took effect; ``error`` says what was expected instead, then or when it was to be healed."""

    fault: str
    hosts: tuple[str, ...]
    since: int
    seen: bool | None
    observed: dict[str, Any]
    error: str


@dataclass(slots=True)
class Holding:
    """A hold that has not ended: since when, and until when the client believes in it (ns; None: until it releases)."""

    since: int
    until: int | None
    nested: int = 0
    shared: bool = False


class Ongoing:
    """Counts calls, holds and faults of a run while it is recorded; times in ns, as in the history.

    Holds are as docs/histories.md has them, but for the order in which clients on containers are heard."""

    def __init__(self) -> None:
        self.settings: dict[str, Any] = {}
        """What the entry ``start`` says."""
        self.origin = self.now = 0
        self.calls = self.granted = self.refused = self.unknown = 0
        """Calls that have ended, and acquires that were granted, that were not, and those of which nobody knows."""
        self.ended = ""
        """Why the run is over, empty while it is not."""
        self.forces: dict[int, Force] = {}
        self._holds: dict[tuple[str, str], Holding] = {}

    def add(self, op: Op) -> None:
        """The next entry."""
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
        """Who holds each key at this moment, the keys in order; a key that nobody holds is not there."""
        found: dict[str, list[str]] = {}
        for (key, client), hold in sorted(self._holds.items()):
            if hold.until is None or hold.until > self.now:
                found.setdefault(key, []).append(client)
        return found

    def held_since(self, key: str, client: str) -> int:
        """When a hold that is going on began; KeyError if there is none."""
        return self._holds[key, client].since

    def shared(self, key: str, client: str) -> bool:
        """Do others have a right to hold it meanwhile? KeyError if there is no such hold."""
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
            self._holds[slot] = Holding(op.time, self._until(op), shared=shared)
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
        """A client has heard whether it still has the lock."""
        hold = self._holds.get(_slot(op))
        if hold is None:
            return
        if lost(op):
            del self._holds[_slot(op)]
        else:
            hold.until = self._longer(hold, op)

    def _until(self, op: Op) -> int | None:
        """Until when a client that minds its lease believes in what it was just told."""
        lease = (op.value or {}).get("valid_for")
        checking = self.settings.get("discipline") == "checking"
        return op.time + int(lease * SECOND) if checking and lease is not None else None

    def _longer(self, hold: Holding, op: Op) -> int | None:
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
            self.forces[value["id"]] = Force(value["fault"], tuple(value["hosts"]), op.time, None, {}, "")
        elif force is not None:  # else it never struck: its event did not come
            force.seen, force.observed, force.error = op.type == "ok", value["observed"], op.error or ""

    def _heal(self, op: Op) -> None:
        force = self.forces.get(op.value["id"])
        if op.type == "ok":
            self.forces.pop(op.value["id"], None)
        elif force is not None:
            force.error = op.error or "not seen to be undone"


def _slot(op: Op) -> tuple[str, str]:
    return op.key or "", op.node or f"process {op.process}"
