"""Walk through one schedule in the order of time and collect states of clients, servers' keys and faults.

Clients are interchangeable: a state says what some client believes and on how many servers it owns the key, not which
client it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from harness.checkers.holds import EXPIRED, Holds, holds
from harness.checkers.view import ACQUIRE, CHECK, CRASH, EXTEND, INFO, INVOKE, OK, RELEASE, Ints, View
from harness.history import NEMESIS
from harness.history.key_owners import Ownership, ownerships

from .request import NO_FAULT
from .trials import Trial

PHASES: Final = ("free", "asked for", "held", "held and asked for", "releasing", "unsure")
"""Phases of a lock. ``releasing``: no client holds it, and one is releasing it. ``unsure``: no client holds or releases
it, and the outcome of a client's last call is unknown."""
BELIEFS: Final = ("holds", "releasing", "asking", "unsure", "idle", "gone")
_PHASE: Final = (("releasing", "releasing"), ("unsure", "unsure"), ("asking", "asked for"))
_RANK: Final = {belief: rank for rank, belief in enumerate(BELIEFS)}
_State = tuple[tuple[tuple[int, int], ...], int, int, int, tuple[str, ...]]
"""Per client (number of its belief, -1 times the servers on which it owns the key); numbers of servers on which the key
is free, that are down, and on which the owner is unknown; active faults."""


class TrialCoverage:
    """Collected from one trial: ``states`` as text, ``moments`` (family of faults, phase of a key when it struck), and
    ``struck``, the families in the order in which they struck. Faults without a confirmed effect do not count."""

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
        self._go(ownerships(trial.keys), list(_expiries(found)))

    @property
    def states(self) -> frozenset[str]:
        return frozenset(map(_text, self._found))

    def _go(self, states: list[Ownership], expiries: list[tuple[int, str, str]]) -> None:
        """Process entries before server states of the same time, since an entry causes the change."""
        told, over = iter(states), iter(expiries)
        state, expiry = next(told, None), next(over, None)
        wanted = _lock_entries(self._columns)
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

    def _serve(self, state: Ownership) -> None:
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
        """Return a client's belief after an entry. It still holds after a re-acquire and a nested release."""
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


def _lock_entries(columns: View) -> Ints:
    """Return the entries that can change a client's belief or the active faults."""
    f = columns.f
    calls = (f == ACQUIRE) | (f == RELEASE) | (f == CHECK) | (f == EXTEND) | (f == CRASH)
    return np.flatnonzero(calls | (columns.process == NEMESIS))


def _expiries(found: Holds) -> Iterator[tuple[int, str, str]]:
    """Yield time (ns), client and key of each hold that ended by the client's own clock, in the order of time."""
    rows = np.flatnonzero(found.ended == EXPIRED)
    for row in rows[np.argsort(found.end[rows], kind="stable")].tolist():
        yield int(found.end[row]), found.view.names[found.client[row]], found.view.keys[found.key[row]]


class _Key:
    """Beliefs of the clients of one key, and its states on the servers."""

    def __init__(self, clients: list[str], servers: list[str]) -> None:
        self.beliefs = dict.fromkeys(clients, "idle")
        self._has: dict[str, Ownership] = {}
        self._counts = dict.fromkeys(clients, 0)
        self._free, self._down, self._other = len(servers), 0, 0

    def put(self, state: Ownership) -> None:
        before = self._has.get(state.host)
        if before is None:
            self._free -= 1
        else:
            self._count(before, -1)
        self._count(state, 1)
        self._has[state.host] = state

    def _count(self, state: Ownership, more: int) -> None:
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
