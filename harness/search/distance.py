"""Near-miss scores: how close a schedule came to a violation, as numbers that :func:`hypothesis.target` maximises.

The scores are smooth, so that the search can climb: a schedule in which a holder loses one more server, or in which
another client requests the key at the critical moment, scores higher.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from harness.checkers.holds import FOREVER, OPEN, Holds, holds
from harness.checkers.view import ACQUIRE, ADD, CAS, INVOKE, MARK, NONE, OK, READ, TAKE, WRITE, View
from harness.clusters.kinds import KINDS
from harness.history import SECOND
from harness.history.key_owners import Ownership, ownerships

from .trials import Trial

DOUBLE: Final = "double hold"
STUCK: Final = "stuck"
STALE: Final = "stale"
VIOLATED: Final = 2.0
"""``double hold`` is at least this if the mutual exclusion checker found an overlap, and less if not."""

_DOWN, _LATE, _RUN_OUT = 0.5, 0.25, 0.5
"""Loss (of 1) of a server that is down; of a replica without the grant; of a server whose lease is almost over."""


@dataclass(slots=True)
class _Loss:
    """Loss of one hold on the servers while the client believed that it held the lock.

    ``share`` is the greatest part of the needed servers that was lost, 0 to 1. ``since`` is when (ns) too many were
    lost. ``others`` is the part of the needed servers that belonged to another client, 0 to 1.
    """

    share: float = 0.0
    since: int | None = None
    others: float = 0.0


def near_miss_scores(trial: Trial) -> dict[str, float]:
    """Return the scores of a schedule, by label:

    - ``double hold``: up to 1 for the servers that a holder lost while it believed that it held the lock, as a share of
      the servers that another client needs to acquire it; a server whose lease runs out counts in part. Up to
      :data:`VIOLATED` for how long the belief lasted after that, whether other clients requested the key meanwhile, and
      how many servers they had. From :data:`VIOLATED` on, two clients held the lock at the same time.
    - ``stuck``: the longest time in which clients requested the key and no client held it, in units of ttl plus slack.
    - ``stale``: how long after its loss on the servers a holder still accessed the resource successfully, in ttls, at
      most 2.

    If the servers show no key of the lock, the lease is taken from the grant, else from the plan's ttl.
    """
    found = holds(trial.history)
    losses = list(_losses(trial, found))
    return {
        DOUBLE: _double_hold(trial, found, losses),
        STUCK: _stuck_score(trial, found),
        STALE: _stale(trial, found, losses),
    }


def double_hold_score(trial: Trial) -> float:
    """Return how close the schedule came to two clients holding the lock at once."""
    return near_miss_scores(trial)[DOUBLE]


def _losses(trial: Trial, found: Holds) -> Iterator[_Loss]:
    """Yield the loss of each hold, in the order of grants."""
    states: dict[str, list[Ownership]] = {}
    for state in ownerships(trial.keys):
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
    """Return when (ns) each critical section ended; a client may work on until its release though its lease is over."""
    released = np.where(found.release != NONE, found.view.time[found.release], found.end)
    return np.maximum(released, found.end).tolist()  # type: ignore[no-any-return]


def _by_lease(start: int, end: int, over: int, lease_end: int, ttl: int) -> _Loss:
    """Return the loss of a hold whose key no server shows."""
    until = start + ttl if lease_end == FOREVER else max(lease_end, start)
    if until < over:
        return _Loss(1.0 if until < end else _RUN_OUT, until)
    return _Loss(_RUN_OUT * (end - start) / max(until - start, 1))


class _Servers:
    """States of one key on all servers, over time."""

    def __init__(self, trial: Trial, key: str, hosts: list[str], states: list[Ownership]) -> None:
        self._states = states
        self._times = [state.time for state in states]
        self._ttl = trial.plan.ttl * SECOND
        votes = KINDS.find(trial.plan.kind).majority
        self._need = len(hosts) // 2 + 1 if votes else max(1, len(hosts))
        self._late = _LATE if len(hosts) > 1 and not votes else 1.0
        self._now = {host: Ownership(0, host, key, taken=False, client=None, ends=None, answers=True) for host in hosts}
        self._at = 0

    def loss(self, client: str, start: int, end: int, over: int) -> _Loss:
        """Return what ``client`` lost, which held the lock from ``start`` to ``end`` and acted until ``over`` (ns).

        Call this for holds in the order of their starts.
        """
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
        self, found: _Loss, client: str, now: dict[str, Ownership], had: set[str], span: tuple[int, int, int]
    ) -> None:
        """Update ``found`` with the servers' states between two changes.

        ``span`` (ns): start of this interval, its end or that of the hold if that is earlier, and the end of the hold.
        """
        since, until, end = span
        lost = sorted((self._lost(one, client, until, had) for one in now.values()), reverse=True)[: self._need]
        gone = lost[-1] >= 1.0
        if not gone:
            found.since = None  # the client has its servers back: the lease was extended after all
        elif found.since is None:
            found.since = since
        if since > end:
            return
        found.share = max(found.share, sum(lost) / self._need)
        if gone:
            others = sum(one.client not in (None, client) for one in now.values())
            found.others = max(found.others, min(1.0, others / self._need))

    def _lost(self, state: Ownership, client: str, at: int, had: set[str]) -> float:
        """Return how far the client has lost this server at a time (ns), 0 to 1."""
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
    return max((_single_hold_score(found, row, loss, ttl) for row, loss in enumerate(losses)), default=0.0)


def _single_hold_score(found: Holds, row: int, loss: _Loss, ttl: float) -> float:
    """Return the score of a hold that overlaps no other."""
    end = int(found.end[row])
    if loss.since is None or loss.since >= end:
        return min(loss.share, 1.0)
    beyond = min(1.0, (end - loss.since) / ttl)
    return 1.0 + 0.3 * beyond + 0.3 * _other_client_requested(found, row, loss.since, end) + 0.3 * loss.others


def _other_client_requested(found: Holds, row: int, since: int, until: int) -> bool:
    columns = found.view
    acquires = columns.rows(ACQUIRE, INVOKE)
    acquires = acquires[(columns.key[acquires] == found.key[row]) & (columns.client[acquires] != found.client[row])]
    done = columns.done[acquires]
    ended = np.where(done == NONE, columns.end, columns.time[done])
    return bool(((columns.time[acquires] <= until) & (ended >= since)).any())


def _stuck_score(trial: Trial, found: Holds) -> float:
    columns = found.view
    patience = columns.seconds("ttl", trial.plan.ttl) or 0
    patience += columns.seconds("slack", trial.plan.slack) or 0
    longest = max((_unserved(columns, found, key) for key in range(len(columns.keys))), default=0)
    return longest / max(1, patience)


def _unserved(columns: View, found: Holds, key: int) -> int:
    """Return the longest time (ns) in which clients requested a key, at least repeatedly, and no client held it."""
    acquires = columns.rows(ACQUIRE)
    acquires = acquires[columns.key[acquires] == key]
    grants = set(found.grant[found.key == key].tolist())
    events: list[tuple[int, int, int, int]] = []  # time, ends of holds first, what it adds to askers, to holders
    over = (found.key == key) & (found.ended != OPEN)
    events += [(end, 0, 0, -1) for end in found.end[over].tolist()]
    times, kinds = columns.time[acquires].tolist(), columns.type[acquires].tolist()
    for index, time, kind in zip(acquires.tolist(), times, kinds, strict=True):
        events.append((time, 1, 1 if kind == INVOKE else -1, int(kind == OK and index in grants)))
    events.sort()
    longest = askers = holders = 0
    since: int | None = None
    for time, _, requested, holding in [*events, (columns.end, 2, 0, 0)]:
        if since is not None and askers:
            longest = max(longest, time - since)
        askers, holders = askers + requested, holders + holding
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
