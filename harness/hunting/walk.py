"""Goes through one schedule in the order of time, and says what was seen of clients, servers' keys and faults.

Clients are alike: a state says what some client believes and on how many servers it has the key, not which client.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from checkers.holds import EXPIRED, Holds, holds
from checkers.view import ACQUIRE, CHECK, CRASH, EXTEND, INFO, INVOKE, OK, RELEASE, Ints, View

from ..history import NEMESIS
from .asked import NO_FAULT
from .owners import Owned, owned
from .trials import Trial

PHASES: Final = ("free", "asked for", "held", "held and asked for", "releasing", "unsure")
"""What a lock can be at: ``releasing`` when nobody holds it and somebody gives it back, ``unsure`` when nobody does
either and a client does not know what came of its last call."""
BELIEFS: Final = ("holds", "releasing", "asking", "unsure", "idle", "gone")
_PHASE: Final = (("releasing", "releasing"), ("unsure", "unsure"), ("asking", "asked for"))
_RANK: Final = {belief: rank for rank, belief in enumerate(BELIEFS)}
_State = tuple[tuple[tuple[int, int], ...], int, int, int, tuple[str, ...]]
"""Clients as (number of the belief, servers that have the key for it times -1), servers that have it for nobody, that
are down, that have it for somebody unknown, and faults at work."""


class Walk:
    """What was seen: ``states`` as text, ``moments`` (family of faults, phase of a key when it struck) and ``struck``,
    the families in the order in which they did. A fault that was not seen to have an effect did not strike."""

    def __init__(self, trial: Trial) -> None:
        found = holds(trial.history)
        self.moments: set[tuple[str, str]] = set()
        self.struck: list[str] = []
        self._found: set[_State] = set()
        self._columns = found.view
        self._types, self._fs, self._keys_of = found.view.type.tolist(), found.view.f.tolist(), found.view.key.tolist()
        self._grants, self._releases = set(found.grant.tolist()), set(found.release.tolist())
        settings = found.view.settings
        self._keys = {key: _Key(settings.get("clients", []), settings.get("servers", [])) for key in found.view.keys}
        self._void = {op.value["id"] for op in trial.history.nemesis("inject") if op.type == "fail"}
        self._at_work: dict[int, str] = {}
        self._faults: tuple[str, ...] = ()
        self._go(owned(trial.keys), list(_expiries(found)))

    @property
    def states(self) -> frozenset[str]:
        return frozenset(map(_text, self._found))

    def _go(self, states: list[Owned], expiries: list[tuple[int, str, str]]) -> None:
        """Entries of one time come before what servers had from then on: who causes a change speaks first."""
        told, over = iter(states), iter(expiries)
        state, expiry = next(told, None), next(over, None)
        wanted = _told_of_locks(self._columns)
        for index, time in zip(wanted.tolist(), self._columns.time[wanted].tolist(), strict=True):
            while state is not None and state.time < time:
                self._serve(state)
                state = next(told, None)
            while expiry is not None and expiry[0] <= time:
                self._believe(expiry[2], expiry[1], "idle")
                expiry = next(over, None)
            self._enter(index)
        while state is not None:
            self._serve(state)
            state = next(told, None)

    def _serve(self, state: Owned) -> None:
        key = self._keys.get(state.key)
        if key is not None:
            key.put(state)
            self._found.add(key.state(self._faults))

    def _believe(self, key: str, client: str, belief: str) -> None:
        one = self._keys[key]
        one.beliefs[client] = belief
        self._found.add(one.state(self._faults))

    def _enter(self, index: int) -> None:
        columns, host = self._columns, self._columns.node[index]
        if columns.process[index] == NEMESIS:
            self._nemesis(index)
        elif host is not None and self._keys_of[index] >= 0:
            key = columns.keys[self._keys_of[index]]
            before = self._keys[key].beliefs.get(host, "idle")
            after = self._next(index, before)
            if after != before:
                self._believe(key, host, after)

    def _next(self, index: int, belief: str) -> str:
        """What a client believes after an entry. Who holds and asks once more, or gives back one of several, holds."""
        f, kind = self._fs[index], self._types[index]
        if f == ACQUIRE:
            if kind == OK:
                return "holds" if index in self._grants else belief
            if belief == "holds":
                return belief
            return "asking" if kind == INVOKE else "unsure" if kind == INFO else "idle"
        if f == RELEASE:
            if kind == INVOKE:
                return "releasing" if belief != "holds" or index in self._releases else belief
            return belief if belief != "releasing" else "unsure" if kind == INFO else "idle"
        answer: dict[str, Any] = self._columns.value[index] or {}
        lost = kind == OK and answer.get("valid" if f == CHECK else "extended") is False
        return "idle" if lost and belief == "holds" else belief

    def _nemesis(self, index: int) -> None:
        f, value = self._columns.fs[index], self._columns.value[index] or {}
        if f == "crash":
            for key in self._keys:
                self._believe(key, value["host"], "gone")
        elif f == "inject" and self._types[index] == INVOKE and self._counts(value):
            self.struck.append(value["fault"])
            phases = {key.phase() for key in self._keys.values()} or {PHASES[0]}
            self.moments |= {(value["fault"], phase) for phase in phases}
            self._strike({**self._at_work, value["id"]: value["fault"]})
        elif f == "heal":
            self._strike({number: fault for number, fault in self._at_work.items() if number != value["id"]})

    def _counts(self, struck: dict[str, Any]) -> bool:
        return struck["fault"] != NO_FAULT and struck["id"] not in self._void

    def _strike(self, at_work: dict[int, str]) -> None:
        self._at_work, self._faults = at_work, tuple(sorted(set(at_work.values())))
        self._found |= {key.state(self._faults) for key in self._keys.values()}


def _told_of_locks(columns: View) -> Ints:
    """The entries that can change what clients believe of locks, or which faults are at work."""
    f = columns.f
    calls = (f == ACQUIRE) | (f == RELEASE) | (f == CHECK) | (f == EXTEND) | (f == CRASH)
    return np.flatnonzero(calls | (columns.process == NEMESIS))


def _expiries(found: Holds) -> Iterator[tuple[int, str, str]]:
    """When (ns) which client stopped believing by its own clock, and of which key, in the order of time."""
    rows = np.flatnonzero(found.ended == EXPIRED)
    for row in rows[np.argsort(found.end[rows], kind="stable")].tolist():
        yield int(found.end[row]), found.view.names[found.client[row]], found.view.keys[found.key[row]]


class _Key:
    """What the clients of one key believe, and what the servers have under it."""

    def __init__(self, clients: list[str], servers: list[str]) -> None:
        self.beliefs = dict.fromkeys(clients, "idle")
        self._has: dict[str, Owned] = {}
        self._counts = dict.fromkeys(clients, 0)
        self._free, self._down, self._other = len(servers), 0, 0

    def put(self, state: Owned) -> None:
        before = self._has.get(state.host)
        if before is None:
            self._free -= 1
        else:
            self._count(before, -1)
        self._count(state, 1)
        self._has[state.host] = state

    def _count(self, state: Owned, more: int) -> None:
        if not state.answers:
            self._down += more
        elif not state.taken:
            self._free += more
        elif state.client in self._counts:
            self._counts[state.client] += more
        else:
            self._other += more

    def state(self, faults: tuple[str, ...]) -> _State:
        counts = self._counts
        clients = sorted([(_RANK[belief], -counts.get(name, 0)) for name, belief in self.beliefs.items()])
        return tuple(clients), self._free, self._down, self._other, faults

    def phase(self) -> str:
        now = self.beliefs.values()
        if "holds" in now:
            return "held and asked for" if "asking" in now else "held"
        return next((phase for belief, phase in _PHASE if belief in now), PHASES[0])


def _text(state: _State) -> str:
    clients, free, down, other, faults = state
    believed = ", ".join(f"{BELIEFS[rank]} {-count}" if count else BELIEFS[rank] for rank, count in clients)
    servers = ", ".join(
        f"{name} {count}" for name, count in (("free", free), ("down", down), ("other", other)) if count
    )
    return " | ".join(part for part in (believed, servers, " + ".join(faults)) if part)
