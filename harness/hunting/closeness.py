"""How close a schedule came to a violation: numbers for a search to climb, higher is closer.

They are what :func:`hypothesis.target` is told. All of them are steps made smooth: a schedule that costs a holder one
server more, or that has somebody ask in the moment that matters, scores higher than one that does not.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from checkers.holds import FOREVER, OPEN, Holds, holds
from checkers.view import ACQUIRE, ADD, CAS, INVOKE, MARK, NONE, OK, READ, TAKE, WRITE, View

from ..history import SECOND
from .owners import Owned, owned
from .trials import Trial

DOUBLE: Final = "double hold"
STUCK: Final = "stuck"
STALE: Final = "stale"
VIOLATED: Final = 2.0
"""From here on ``double hold`` is a real one, as the checker of mutual exclusion sees it; below, nobody was."""
INDEPENDENT: Final = "redis-independent"
"""The kind of cluster in which each server has a vote of its own, and a majority of them is the lock."""

_DOWN, _LATE, _RUN_OUT = 0.5, 0.25, 0.5
"""What a server counts for that is down; a replica that has not heard of the grant; one whose lease is all but over."""


@dataclass(slots=True)
class _Loss:
    """What came of one hold: the greatest ``share`` (of 1) of its servers that was lost while the client believed,
    since when (ns) too many were, how many of those that are needed another client had (``others``, of 1)."""

    share: float = 0.0
    since: int | None = None
    others: float = 0.0


def closeness(trial: Trial) -> dict[str, float]:
    """The scores of a schedule, by label:

    - ``double hold``: up to 1 for the share of servers that a holder lost, of as many as another needs to hold the
      lock, while it believed that it held; a server whose lease runs out counts in part. Then more, below
      :data:`VIOLATED`, for how long it went on believing, for others that asked in that time, and for what they had.
      From :data:`VIOLATED` on, two did hold at once.
    - ``stuck``: the longest time in which somebody asked and nobody held or was granted, in ttl plus slack.
    - ``stale``: how long after its loss on the servers a holder touched the resource, which let it, in ttls, at
      most 2.

    Where servers show nothing under the lock's key, leases are taken to be what the grants say, else the ttl.
    """
    found = holds(trial.history)
    losses = list(_losses(trial, found))
    return {
        DOUBLE: _double_hold(trial, found, losses),
        STUCK: _stuck(trial, found),
        STALE: _stale(trial, found, losses),
    }


def score(trial: Trial) -> float:
    """How close the schedule came to a double hold."""
    return closeness(trial)[DOUBLE]


def _losses(trial: Trial, found: Holds) -> Iterator[_Loss]:
    """What each hold lost, in the order of grants."""
    states: dict[str, list[Owned]] = {}
    for state in owned(trial.keys):
        states.setdefault(state.key, []).append(state)
    servers: list[str] = (found.view.settings or {}).get("servers", [])
    seen = {key: _Servers(trial, key, servers, of) for key, of in states.items() if any(one.taken for one in of)}
    until = _sections(found)
    names, keys = found.view.names, found.view.keys
    rows = zip(found.client.tolist(), found.key.tolist(), found.start.tolist(), found.end.tolist(), until, strict=True)
    for row, (client, key, start, end, over) in enumerate(rows):
        if keys[key] in seen:
            yield seen[keys[key]].loss(names[client], start, end, over)
        else:
            yield _by_lease(start, end, over, int(found.lease_end[row]), int(trial.plan.ttl * SECOND))


def _sections(found: Holds) -> list[int]:
    """Until when (ns) each holder acted as one: who no longer believes may work on all the same until the release."""
    released = np.where(found.release != NONE, found.view.time[found.release], found.end)
    return np.maximum(released, found.end).tolist()  # type: ignore[no-any-return]


def _by_lease(start: int, end: int, over: int, lease_end: int, ttl: int) -> _Loss:
    """The loss of a hold of which no server shows anything."""
    until = start + ttl if lease_end == FOREVER else max(lease_end, start)
    if until < over:
        return _Loss(1.0 if until < end else _RUN_OUT, until)
    return _Loss(_RUN_OUT * (end - start) / max(until - start, 1))


class _Servers:
    """What the servers had under one key, all the time."""

    def __init__(self, trial: Trial, key: str, hosts: list[str], states: list[Owned]) -> None:
        self._states = states
        self._times = [state.time for state in states]
        self._ttl = trial.plan.ttl * SECOND
        votes = trial.plan.kind == INDEPENDENT
        self._need = len(hosts) // 2 + 1 if votes else max(1, len(hosts))
        self._late = _LATE if len(hosts) > 1 and not votes else 1.0
        self._now = {host: Owned(0, host, key, taken=False, client=None, ends=None, answers=True) for host in hosts}
        self._at = 0

    def loss(self, client: str, start: int, end: int, over: int) -> _Loss:
        """What ``client`` lost that believed from ``start`` to ``end`` and acted until ``over`` (ns). Holds must be
        asked for in the order of their starts."""
        self._advance(bisect_right(self._times, start))
        now, had = dict(self._now), {host for host, one in self._now.items() if one.client == client}
        found = _Loss()
        at = start
        for state in self._states[self._at : bisect_right(self._times, over)]:
            self._weigh(found, client, now, had, (at, min(state.time, end), end))
            now[state.host], at = state, state.time
            if state.client == client:
                had.add(state.host)
        self._weigh(found, client, now, had, (at, end, end))
        return found

    def _advance(self, until: int) -> None:
        for state in self._states[self._at : until]:
            self._now[state.host] = state
        self._at = until

    def _weigh(
        self, found: _Loss, client: str, now: dict[str, Owned], had: set[str], span: tuple[int, int, int]
    ) -> None:
        """Take in what the servers had from one change to the next. ``span``: since when, until when at most the client
        believed, and until when it did in the end (ns)."""
        since, until, end = span
        lost = sorted((self._lost(one, client, until, had) for one in now.values()), reverse=True)[: self._need]
        gone = lost[-1] >= 1.0
        if not gone:
            found.since = None  # it has got it back: its lease was prolonged after all
        elif found.since is None:
            found.since = since
        if since > end:
            return
        found.share = max(found.share, sum(lost) / self._need)
        if gone:
            others = sum(one.client not in (None, client) for one in now.values())
            found.others = max(found.others, min(1.0, others / self._need))

    def _lost(self, state: Owned, client: str, at: int, had: set[str]) -> float:
        """How far (of 1) the client has lost this server at a time (ns)."""
        if not state.answers:
            return _DOWN
        if state.client not in (None, client) or not state.taken:
            return 1.0 if state.host in had else self._late
        if state.ends is None:
            return 0.0
        return _RUN_OUT * min(1.0, max(0.0, 1.0 - (state.ends - at) / self._ttl))


def _double_hold(trial: Trial, found: Holds, losses: list[_Loss]) -> float:
    verdict = trial.verdicts["mutual-exclusion"]
    ttl = trial.plan.ttl * SECOND
    if verdict.valid is False:
        together = max(violation.until_ns - violation.from_ns for violation in verdict.evidence)
        return VIOLATED + min(1.0, together / ttl)
    return max((_near(found, row, loss, ttl) for row, loss in enumerate(losses)), default=0.0)


def _near(found: Holds, row: int, loss: _Loss, ttl: float) -> float:
    """The score of one hold that no other overlaps."""
    end = int(found.end[row])
    if loss.since is None or loss.since >= end:
        return min(loss.share, 1.0)
    beyond = min(1.0, (end - loss.since) / ttl)
    return 1.0 + 0.3 * beyond + 0.3 * _another_asked(found, row, loss.since, end) + 0.3 * loss.others


def _another_asked(found: Holds, row: int, since: int, until: int) -> bool:
    columns = found.view
    asked = columns.rows(ACQUIRE, INVOKE)
    asked = asked[(columns.key[asked] == found.key[row]) & (columns.client[asked] != found.client[row])]
    done = columns.done[asked]
    ended = np.where(done == NONE, columns.end, columns.time[done])
    return bool(((columns.time[asked] <= until) & (ended >= since)).any())


def _stuck(trial: Trial, found: Holds) -> float:
    columns = found.view
    patience = columns.seconds("ttl", trial.plan.ttl) or 0
    patience += columns.seconds("slack", trial.plan.slack) or 0
    longest = max((_unserved(columns, found, key) for key in range(len(columns.keys))), default=0)
    return longest / max(1, patience)


def _unserved(columns: View, found: Holds, key: int) -> int:
    """The longest time (ns) in which a key was asked for, now and again at least, and nobody held or got it."""
    asks = columns.rows(ACQUIRE)
    asks = asks[columns.key[asks] == key]
    grants = set(found.grant[found.key == key].tolist())
    events: list[tuple[int, int, int, int]] = []  # time, ends of holds first, what it adds to askers, to holders
    over = (found.key == key) & (found.ended != OPEN)
    events += [(end, 0, 0, -1) for end in found.end[over].tolist()]
    times, kinds = columns.time[asks].tolist(), columns.type[asks].tolist()
    for index, time, kind in zip(asks.tolist(), times, kinds, strict=True):
        events.append((time, 1, 1 if kind == INVOKE else -1, int(kind == OK and index in grants)))
    events.sort()
    longest = askers = holders = 0
    since: int | None = None
    for time, _, asking, holding in [*events, (columns.end, 2, 0, 0)]:
        if since is not None and askers:
            longest = max(longest, time - since)
        askers, holders = askers + asking, holders + holding
        if holders:
            since = None
        elif since is None and askers:
            since = time
    return longest


def _stale(trial: Trial, found: Holds, losses: list[_Loss]) -> float:
    lost = [(row, loss.since) for row, loss in enumerate(losses) if loss.since is not None]
    if not lost:
        return 0.0
    columns = found.view
    touches = np.flatnonzero(np.isin(columns.f, (READ, WRITE, CAS, TAKE, MARK, ADD)) & (columns.type == OK))
    when, who = columns.time[touches], columns.client[touches]
    until = _sections(found)
    latest = 0
    for row, since in lost:
        mine = when[(who == found.client[row]) & (when > since) & (when <= until[row])]
        latest = max(latest, int(mine.max()) - since if len(mine) else 0)
    return min(2.0, latest / (trial.plan.ttl * SECOND))
