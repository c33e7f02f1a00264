"""Accesses to the resource: those that it accepted, those that it may have accepted, and their critical sections."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from .base import MissingField
from .holds import Holds
from .view import CAS, FAIL, INVOKE, MARK, NONE, OK, READ, TAKE, WRITE, View

CODES: Final = (READ, WRITE, CAS, TAKE, MARK)
WRITES: Final = frozenset({"write", "cas"})


@dataclass(frozen=True, slots=True)
class Access:
    """An access that the resource accepted.

    It has its number in the resource's own order, the index of its ``invoke``, and the value that it read or wrote.
    """

    f: str
    key: str
    client: int
    arrival: int
    invoke: int
    done_ns: int
    fence: Any
    value: Any
    shared: bool = False
    """True if the client shared the lock with others."""


def accesses(columns: View) -> dict[str, list[Access]]:
    """Return the accepted accesses of each resource, in arrival order."""
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
    """Return, by resource, the invocations whose answer was lost, except reads: they may have been applied."""
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
    request, answer = columns.value[index] or {}, columns.value[done] or {}
    f = columns.fs[index]
    if not isinstance(answer, dict) or type(answer.get("arrival")) is not int:
        raise MissingField(
            f"entry {done} ({f} ok) needs the field 'arrival', a whole number: the place of the access in the order in "
            "which the resource accepted them"
        )
    return Access(
        f=f,
        key=columns.keys[columns.key[index]],
        client=int(columns.client[index]),
        arrival=answer["arrival"],
        invoke=index,
        done_ns=int(columns.time[done]),
        fence=request.get("fence"),
        value=answer.get("value") if columns.f[index] == READ else request.get("value"),
        shared=bool(request.get("shared")),
    )


def sections(found: Holds, key: str) -> dict[int, list[int]]:
    """Return the indices of the grants of ``key``, by client: each begins a critical section (nested grants do not)."""
    begun: defaultdict[int, list[int]] = defaultdict(list)
    if key in found.view.keys:
        rows = np.flatnonzero(found.key == found.view.keys.index(key))
        for client, grant in zip(found.client[rows].tolist(), found.grant[rows].tolist(), strict=True):
            begun[client].append(grant)
    return begun
