"""Exploration: short hunts over the locks of the catalogue and all families of faults, the least explored first.

Every hunt is one round with few schedules, from a seed of the night's own. What earlier nights have visited, and the
failures that they found, are in the results database. So each night continues where the last one ended.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final

from msgspec.structs import replace as with_

from harness.documents.exploration import Exploration, Explored, ExploredFailure, ExploredPair, Pair, PairVisit
from harness.errors import UsageError
from harness.plan import refuse_untrusted
from harness.run.pool import AbandonedJob, Pool, open_pool, results
from harness.run.store import writable

from .pairs import Queue, explorable
from .visits import VisitResult, repeat, visit

GIVE_UP: Final = 3
"""A lock that so many visits in a row could not run is left alone for this night."""
_Job = tuple[Pair, int]


@dataclass(slots=True)
class ExplorationState:
    """State of an exploration that is under way. ``failures`` are those of all nights by name."""

    budget_s: float
    began: float = field(default_factory=time.monotonic)
    visits: list[PairVisit] = field(default_factory=list)
    failures: dict[str, ExploredFailure] = field(default_factory=dict)
    interrupted: bool = False

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began


OnVisit = Callable[[PairVisit, ExplorationState], None]
"""Callback with a visit that ended and the state of the exploration."""


def explore(
    pairs: Sequence[Pair],
    store: Path,
    *,
    seed: int,
    budget_s: float,
    started: datetime,
    explored: Mapping[Pair, Explored] | None = None,
    known: Sequence[ExploredFailure] = (),
    workers: int | None = 1,
    scheduler: str | None = None,
    on_visit: OnVisit = lambda visit, state: None,  # noqa: ARG005
) -> Exploration:
    """Repeat the ``known`` failures, then visit pairs until ``budget_s`` seconds are over, or until an interrupt.

    ``explored`` has the visits of earlier nights. ``workers`` and ``scheduler`` are as in
    :func:`harness.studies.nightly.nightly`.
    """
    writable(store)
    state = ExplorationState(budget_s)
    queue = Queue.of(pairs, explored or {})
    try:
        with open_pool(workers, scheduler) as pool:
            for failure in _repeated(known, pool):
                state.failures[failure.name] = failure
            with contextlib.closing(_visits(queue, state, pool, store, seed, started)) as finished:
                for found in finished:
                    _add(state, found)
                    on_visit(found.visit, state)
                    if _fails_always(state.visits, found.visit.lock):
                        queue.drop(found.visit.lock)
    except KeyboardInterrupt:
        state.interrupted = True
    return _exploration(state, pairs, explored or {}, seed)


def _exploration(
    state: ExplorationState, pairs: Sequence[Pair], explored: Mapping[Pair, Explored], seed: int
) -> Exploration:
    totals = dict(explored)
    for one in state.visits:
        before = totals.get(one.pair, Explored())
        totals[one.pair] = Explored(
            before.visits + (one.schedules > 0), before.schedules + one.schedules, before.judged + one.judged
        )
    failing = [(one.lock, one.fault) for one in state.failures.values() if one.state in ("new", "known")]
    return Exploration(
        seed=seed,
        budget_s=state.budget_s,
        seconds=round(state.seconds, 1),
        interrupted=state.interrupted,
        visits=tuple(state.visits),
        pairs=tuple(
            ExploredPair(
                **pair._asdict(),
                **totals.get(pair, Explored())._asdict(),
                failures=failing.count((pair.lock, pair.fault)),
            )
            for pair in pairs
        ),
        failures=tuple(state.failures.values()),
    )


def _visits(
    queue: Queue, state: ExplorationState, pool: Pool, store: Path, seed: int, started: datetime
) -> Generator[VisitResult, None, None]:
    def jobs() -> Iterator[_Job]:
        while state.seconds < state.budget_s and queue.explored:
            yield queue.next()

    work = partial(_visit_on_worker, seed, started, pool.shared(store))
    with contextlib.closing(results(jobs(), work, pool, in_order=False)) as finished:
        for (pair, number), found in finished:
            if isinstance(found, AbandonedJob):
                lost = PairVisit(**pair._asdict(), seed=seed, round=number, error=found.why)
                yield VisitResult(visit=lost)
            else:
                yield found


def _visit_on_worker(seed: int, started: datetime, store: Path, job: _Job) -> VisitResult:
    return visit(*job, seed, started, store)


def _add(state: ExplorationState, found: VisitResult) -> None:
    state.visits.append(found.visit)
    for failure in found.failures:
        earlier = state.failures.get(failure.name)
        if earlier is None:
            state.failures[failure.name] = failure
        elif earlier.state == "gone":  # its old schedule does not show it any more, and a new one does
            state.failures[failure.name] = with_(failure, state="known", found_at=earlier.found_at)


def _fails_always(visits: Sequence[PairVisit], lock: str) -> bool:
    last = [one for one in visits if one.lock == lock][-GIVE_UP:]
    return len(last) == GIVE_UP and all(one.error and not one.schedules for one in last)


def _repeated(known: Sequence[ExploredFailure], pool: Pool) -> Iterator[ExploredFailure]:
    trusted = [failure for failure in known if _is_ours(failure)]
    with contextlib.closing(results(trusted, repeat, pool)) as finished:
        for failure, again in finished:
            yield with_(failure, state="error", why=again.why) if isinstance(again, AbandonedJob) else again


def _is_ours(failure: ExploredFailure) -> bool:
    """Return whether a stored failure runs no code but ours: a database may come from elsewhere."""
    try:
        refuse_untrusted(failure.plan, failure.name, ())
    except UsageError:
        return False
    return True


__all__ = ["ExplorationState", "OnVisit", "explorable", "explore"]
