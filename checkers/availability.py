"""Measure when a lock was available, and how soon it was again after a fault: figures for liveness and for reports.

The life of a key is cut into windows of a quarter of a second. A window is *served* if the key was granted in it, or
was held for at least half of it. A window is *missed* if it is not served, and for at least half of it some client
requested the key while none held it. Windows with hardly any request are neither. A hold counts until its lease ends,
if it has one, since a holder that is stopped after that does no work. A refused client counts as requesting until its
next request, if that comes within ``slack``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from harness.history import SECOND, History

from .base import no_lock_taken
from .deadlock import stated
from .holds import DIED
from .stuck import Stretches, stretches_in
from .view import ACQUIRE, INVOKE, NONE, OK, Bools, Ints

WINDOW: Final = SECOND // 4
DEATHS: Final = "client-crash"
"""The fault whose heals are ignored: clients wait for the lock of a dead client, not for its restart."""
Intervals = tuple[Ints, Ints]


@dataclass(frozen=True, slots=True)
class Served:
    """The windows of one key, from the first entry on, and ``gap`` (ns), the longest time of futile requests."""

    key: str
    served: Bools
    missed: Bools
    gap: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class Recovery:
    """The time from ``since_ns``, when a fault was healed or a holder died, to the next grant (None: no grant).

    ``key`` is the key of the dead holder, whose next grant counts; it is empty after a heal, when any grant counts.
    ``held``: a client held a key at that moment, so the time says more about that holder than about the fault.
    """

    fault: str
    hosts: tuple[str, ...]
    key: str
    since_ns: int
    grant_ns: int | None
    disturbs: bool
    held: bool

    @property
    def ns(self) -> int | None:
        return None if self.grant_ns is None else self.grant_ns - self.since_ns


def stretches_of(history: History) -> Stretches | None:
    """Return None if there is nothing to measure: a run without locks, or one that does not state ttl and slack."""
    known = len(history) > 0 and no_lock_taken(history) is None and stated(history)
    return stretches_in(history) if known else None


def served(stretches: Stretches) -> list[Served]:
    """Return each key of the run that some client requested."""
    requested = np.unique(stretches.columns.key[stretches.columns.rows(ACQUIRE, INVOKE)])
    return [_served(stretches, int(key)) for key in requested if key != NONE]


def share(keys: Sequence[Served]) -> float | None:
    """Return the share of served among served and missed windows, 0 to 1; None if there are none."""
    good = sum(int(one.served.sum()) for one in keys)
    bad = sum(int(one.missed.sum()) for one in keys)
    return good / (good + bad) if good + bad else None


def longest_gap(keys: Sequence[Served]) -> tuple[int, int] | None:
    """Return the longest time (ns, from and until) of futile requests for a key."""
    return max((one.gap for one in keys if one.gap), key=lambda gap: gap[1] - gap[0], default=None)


def recoveries(stretches: Stretches) -> list[Recovery]:
    """Return recoveries after each holder's death and each heal (not when the fault's next turn begins), by time."""
    return sorted((*_heals(stretches), *_deaths(stretches)), key=lambda one: one.since_ns)


def _served(stretches: Stretches, key: int) -> Served:
    columns = stretches.columns
    wanted, held = _request_times(stretches, key), _held(stretches, key)
    end = max(columns.end, columns.origin + 1)  # so that a history of a single moment has a window too
    edges = np.append(np.arange(columns.origin, end, WINDOW, dtype=np.int64), end)
    width = np.diff(edges)
    granted = np.zeros(len(width), dtype=bool)
    grants = columns.rows(ACQUIRE, OK)
    times = columns.time[grants[columns.key[grants] == key]]
    granted[np.minimum((times - columns.origin) // WINDOW, len(width) - 1)] = True
    holding = _within(held, edges)
    in_vain = _within(_union(*(np.concatenate(pair) for pair in zip(wanted, held, strict=True))), edges) - holding
    good = granted | (2 * holding >= width)
    return Served(columns.keys[key], good, ~good & (2 * in_vain >= width), _gap(wanted, held))


def _request_times(stretches: Stretches, key: int) -> Intervals:
    """Return when clients requested the key, with pauses of up to ``slack`` after a request that was not granted."""
    requests, columns = stretches.requests(key), stretches.columns
    begin, end = requests.begin, requests.end.copy()
    following = np.searchsorted(begin, end)
    some = following < len(begin)
    pause = np.full(len(begin), 2**62)
    pause[some] = begin[following[some]] - end[some]
    done = columns.done[requests.invoke]
    refused = (done == NONE) | (columns.type[done] != OK)
    on = refused & (pause <= stretches.slack)
    end[on] += pause[on]
    return _union(begin, end)


def _held(stretches: Stretches, key: int) -> Intervals:
    found = stretches.holds
    mine = found.key == key
    start = found.start[mine]
    return _union(start, np.maximum(start, np.minimum(found.end[mine], found.lease_end[mine])))


def _union(start: Ints, end: Ints) -> Intervals:
    """Return disjoint intervals that cover the same points, in order."""
    order = np.argsort(start, kind="stable")
    start, end = start[order], end[order]
    if not len(start):
        return start, end
    lasts = np.maximum.accumulate(end)
    fresh = np.concatenate(([True], start[1:] > lasts[:-1]))
    final = np.concatenate((np.flatnonzero(fresh)[1:] - 1, [len(start) - 1]))
    return start[fresh], lasts[final]


def _within(intervals: Intervals, edges: Ints) -> Ints:
    """Return the length of disjoint ``intervals`` between each two ``edges``, ns."""
    start, end = intervals
    if not len(start):
        return np.zeros(len(edges) - 1, dtype=np.int64)
    before = np.concatenate(([0], np.cumsum(end - start)))
    place = np.searchsorted(start, edges, side="right")
    last = np.maximum(place - 1, 0)
    covered = before[last] + np.clip(edges - start[last], 0, end[last] - start[last])
    return np.diff(np.where(place > 0, covered, 0))


def _gap(wanted: Intervals, held: Intervals) -> tuple[int, int] | None:
    """Return the longest part of a gap between holds in which clients requested the key."""
    since = np.concatenate(([np.iinfo(np.int64).min // 2], held[1]))
    until = np.concatenate((held[0], [2**62]))
    parts = [part for gap in zip(since.tolist(), until.tolist(), strict=True) for part in _inside(wanted, *gap)]
    return max(parts, key=lambda part: part[1] - part[0], default=None)


def _inside(wanted: Intervals, since: int, until: int) -> Iterator[tuple[int, int]]:
    index = int(np.searchsorted(wanted[1], since, side="right"))
    while index < len(wanted[0]) and wanted[0][index] < until:
        yield max(since, int(wanted[0][index])), min(until, int(wanted[1][index]))
        index += 1


def _heals(stretches: Stretches) -> Iterator[Recovery]:
    columns, found = stretches.columns, stretches.holds
    grants = np.sort(columns.time[columns.rows(ACQUIRE, OK)])
    for fault in stretches.faults:
        since = fault.until_ns
        if since >= columns.end or fault.name == DEATHS or fault.superseded:
            continue
        held = bool(((found.start <= since) & (found.end > since)).any())
        yield Recovery(fault.name, tuple(sorted(fault.hosts)), "", since, _next(grants, since), fault.disturbs, held)


def _deaths(stretches: Stretches) -> Iterator[Recovery]:
    columns, found = stretches.columns, stretches.holds
    grants = columns.rows(ACQUIRE, OK)
    for row in np.flatnonzero(np.isin(found.ended, DIED)).tolist():
        since, key = int(found.end[row]), int(found.key[row])
        later = np.sort(columns.time[grants[columns.key[grants] == key]])
        held = bool(((found.key == key) & (found.start <= since) & (found.end > since)).any())
        hosts = (columns.names[found.client[row]],)
        yield Recovery("its holder died", hosts, columns.keys[key], since, _next(later, since + 1), False, held)


def _next(times: Ints, since: int) -> int | None:
    """Return the first of the sorted ``times`` that is not before ``since``."""
    place = int(np.searchsorted(times, since))
    return int(times[place]) if place < len(times) else None
