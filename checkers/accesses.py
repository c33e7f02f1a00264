"""What the resource accepted, what it may have accepted, and the critical sections that accesses belong to."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from checkers.holds import Holds
from checkers.view import CAS, FAIL, INVOKE, MARK, NONE, OK, READ, TAKE, WRITE, View

CODES: Final = (READ, WRITE, CAS, TAKE, MARK)
WRITES: Final = frozenset({"write", "cas"})


@dataclass(frozen=True, slots=True)
class Access:
    """An access that the resource accepted: its number in the resource's own order, its ``invoke`` index, the value
    that it read or wrote."""

    f: str
    key: str
    client: int
    arrival: int
    invoke: int
    done_ns: int
    fence: Any
    value: Any
    shared: bool = False
    """By a client that held the lock together with others."""


def accesses(columns: View) -> dict[str, list[Access]]:
    """The accepted accesses of each resource, in arrival order."""
    by_key: defaultdict[str, list[Access]] = defaultdict(list)
    for index in _calls(columns):
        done = int(columns.done[index])
        if done != NONE and columns.type[done] == OK:
            access = _access(columns, index, done)
            by_key[access.key].append(access)
    for accepted in by_key.values():
        accepted.sort(key=lambda access: access.arrival)
    return dict(by_key)


def lost_accesses(columns: View) -> dict[str, list[int]]:
    """The invocations, by resource, of all but reads whose answer was lost: they may have been applied."""
    by_key: defaultdict[str, list[int]] = defaultdict(list)
    for index in _calls(columns):
        done = int(columns.done[index])
        unknown = done == NONE or columns.type[done] not in (OK, FAIL)
        if unknown and columns.f[index] != READ:
            by_key[columns.keys[columns.key[index]]].append(index)
    return dict(by_key)


def _calls(columns: View) -> list[int]:
    mask = (columns.type == INVOKE) & np.isin(columns.f, CODES)
    found: list[int] = np.flatnonzero(mask).tolist()
    return found


def _access(columns: View, index: int, done: int) -> Access:
    asked, answer = columns.value[index] or {}, columns.value[done] or {}
    return Access(
        f=columns.fs[index],
        key=columns.keys[columns.key[index]],
        client=int(columns.client[index]),
        arrival=int(answer["arrival"]),
        invoke=index,
        done_ns=int(columns.time[done]),
        fence=asked.get("fence"),
        value=answer.get("value") if columns.f[index] == READ else asked.get("value"),
        shared=bool(asked.get("shared")),
    )


def sections(found: Holds, key: str) -> dict[int, list[int]]:
    """The indices of the grants of ``key``, by client: each begins a critical section (nested ones do not)."""
    begun: defaultdict[int, list[int]] = defaultdict(list)
    if key in found.view.keys:
        rows = np.flatnonzero(found.key == found.view.keys.index(key))
        for client, grant in zip(found.client[rows].tolist(), found.grant[rows].tolist(), strict=True):
            begun[client].append(grant)
    return begun
