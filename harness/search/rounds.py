"""Rounds of a hunt: each searches a number of schedules from a seed of its own.

The result of a round depends only on its content, so any process or machine may execute it.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

import hypothesis
import msgspec
from hypothesis import HealthCheck, Phase
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants
from hypothesis.internal.floats import float_to_int
from msgspec.structs import replace as with_
from sortedcontainers import SortedSet

from harness.checkers.base import SERVICE, doubt_of
from harness.errors import UsageError
from harness.plan import Plan
from harness.sim.patches import virtual

from .coverage import Coverage, coverage_of, merged
from .distance import double_hold_score, near_miss_scores
from .request import HuntRequest
from .shrink import shrink
from .space import openings, schedules
from .trials import FailureKind, Trial, gravity, run_trial
from .vocabulary import Vocabulary

SHORT: Final = 0.5
"""Duration (s) of a run that only loads modules."""
SEEDS_APART: Final = 1_000_003
"""Distance between the seeds of two hunts, so that they have no round in common."""
MOST_ERRORS: Final = 20
"""Most kinds of errors in the result of a round."""


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """One round. ``request`` is completed; ``number`` counts from 1."""

    request: HuntRequest
    number: int
    vocabulary: Vocabulary


class ShrunkFailure(msgspec.Struct, frozen=True, kw_only=True):
    """A shrunk schedule with a failure of this ``kind``.

    ``kinds`` are all its kinds, the gravest first. ``schedule`` is the number of the original schedule in its round,
    from 1. ``shrinks`` counts the schedules that were tried to shrink it, 0 before that.
    """

    plan: Plan
    kind: FailureKind
    kinds: tuple[FailureKind, ...]
    schedule: int
    shrinks: int

    @property
    def known(self) -> bool:
        """Return whether the lock's documentation states all of it as limits."""
        return all(kind.limit for kind in self.kinds)

    @property
    def broken(self) -> tuple[str, ...]:
        """Return the checkers that find a violation, the gravest first."""
        return tuple(dict.fromkeys(kind.checker for kind in self.kinds))

    @property
    def limits(self) -> dict[str, tuple[str, ...]]:
        """Return the documented limits that explain violations, by checker."""
        of = {checker: tuple(kind.limit for kind in self.kinds if kind.checker == checker) for checker in self.broken}
        return {checker: limits for checker, limits in of.items() if all(limits)}


class RoundResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a round: one failure, or one of each kind if the request is thorough, the gravest first.

    ``limits`` are the known limits that it reached, one schedule of each kind, not shrunk: other rounds reach the same.
    ``schedules`` counts the schedules tried, ``judged`` those with a verdict on mutual exclusion. ``best`` is the
    highest near-miss score (:mod:`harness.search.distance`). ``errors`` counts, by message, the schedules that could
    not be executed.
    """

    number: int
    schedules: int
    judged: int
    coverage: Coverage
    best: float
    failures: tuple[ShrunkFailure, ...] = ()
    limits: tuple[ShrunkFailure, ...] = ()
    errors: dict[str, int] = {}


RoundProgress = Callable[[int, int, float], None]
"""Called after each schedule with: schedules tried in this round, states seen, best near-miss score."""


def no_schedules(number: int, error: str) -> RoundResult:
    """Return the result of a round that could execute nothing, for one reason."""
    return RoundResult(number=number, schedules=0, judged=0, coverage=Coverage(), best=0.0, errors={error: 1})


def search(round_: Round, progress: RoundProgress | None = None) -> RoundResult:
    """Execute a round: Hypothesis draws schedules, guided by their near-miss scores, until one fails; shrink that one.

    If ``progress`` raises KeyboardInterrupt, the round ends with its results so far.
    """
    request = round_.request
    searching = _RoundSearch(request, progress)
    load_modules(request)
    with virtual():  # once for all schedules, since patching takes as long as a short schedule
        with contextlib.suppress(_RoundOver, KeyboardInterrupt), same_everywhere():
            _draw_schedules(searching, request, round_)
        failures = tuple(_failures(searching.found, request))
    return searching.result(round_.number, failures)


def shrink_alone(failure: ShrunkFailure, request: HuntRequest) -> ShrunkFailure:
    """Shrink a failure outside a round."""
    load_modules(request)
    with virtual():
        return _shrunk(failure, request)


def load_modules(request: HuntRequest) -> None:
    """Load all modules, which must happen before time becomes virtual."""
    run_trial(with_(request.plan(), clients=1, sections=1, time_limit=SHORT))


def _failures(found: dict[FailureKind, ShrunkFailure], request: HuntRequest) -> Iterator[ShrunkFailure]:
    """Yield the gravest failure, shrunk; if thorough, also those of checkers that no earlier one breaks."""
    broken: set[str] = set()
    for kind in sorted(found, key=_gravity):
        if kind.checker not in broken:
            shrunk = _shrunk(found[kind], request)
            yield shrunk
            broken.update(shrunk.broken)
        if not request.thorough:
            return


def _gravity(kind: FailureKind) -> tuple[tuple[int, str], str]:
    return gravity(kind.checker), kind.limit


def _shrunk(failure: ShrunkFailure, request: HuntRequest) -> ShrunkFailure:
    shrunk = shrink(failure.plan, failure.kind, request)
    return with_(failure, plan=shrunk.plan, kinds=shrunk.kinds, shrinks=shrunk.tried)


class _RoundOver(Exception):
    """Raised to end the round early."""


def _draw_schedules(searching: _RoundSearch, request: HuntRequest, round_: Round) -> None:
    @hypothesis.seed(request.seed * SEEDS_APART + round_.number)
    @hypothesis.settings(
        max_examples=request.schedules,
        phases=(Phase.explicit, Phase.generate, Phase.target),
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        verbosity=hypothesis.Verbosity.quiet,
        report_multiple_bugs=False,
        backend="hypothesis",
    )
    @hypothesis.given(schedules(request, round_.vocabulary, round_.number))
    def tried(plan: Plan) -> None:
        searching.try_(plan)
        if searching.enough:
            raise _RoundOver

    first = openings(request) if round_.number == 1 else ()
    for plan in reversed(first):  # the last one added is tried first
        tried = hypothesis.example(plan)(tried)
    tried()


class _RoundSearch:
    """State of a round: what its schedules have shown so far."""

    def __init__(self, request: HuntRequest, progress: RoundProgress | None) -> None:
        self._request = request
        self._progress = progress
        self._seen: list[Coverage] = []
        self._states: set[str] = set()
        self._errors: Counter[str] = Counter()
        self._tried: set[bytes] = set()
        self._best = 0.0
        self._judged = 0
        self.found: dict[FailureKind, ShrunkFailure] = {}
        """The first failure of each kind that counts, not shrunk."""
        self.limits: dict[FailureKind, ShrunkFailure] = {}
        """The first failure of each known limit."""

    @property
    def enough(self) -> bool:
        """Return whether a safety violation was found, and one is enough. Violations of service do not end a round."""
        return not self._request.thorough and any(kind.checker not in SERVICE for kind in self.found)

    def try_(self, plan: Plan) -> None:
        """Execute a schedule, unless the same one was drawn before."""
        known = msgspec.json.encode(plan)
        if known not in self._tried:
            self._tried.add(known)
            self._try(plan)
            if self._progress is not None:
                self._progress(len(self._tried), len(self._states), self._best)

    def _try(self, plan: Plan) -> None:
        try:
            trial = run_trial(plan)
            counted = self._counting_trial(trial, plan)
        except UsageError as error:
            self._errors[f"refused: {error}"] += 1
            return
        except Exception as error:  # noqa: BLE001 - count it, and try the next schedule
            self._errors[f"{type(error).__name__}: {error}"] += 1
            return
        doubt = doubt_of(trial.history)
        if doubt is not None:
            self._errors[doubt] += 1
        self._judged += trial.verdicts["mutual-exclusion"].valid is not None
        coverage = coverage_of(trial)
        self._seen.append(coverage)
        self._states |= coverage.states
        self._best = max(self._best, double_hold_score(trial))
        kinds = counted.kinds(self._request.look_for)
        new = self._new(kinds)
        if new or not kinds:  # variations of a schedule with a known limit would show nothing else
            for label, value in near_miss_scores(trial).items():
                hypothesis.target(value, label=label)
        hypothesis.target(float(len(coverage.states)), label="states")
        for kind in new or kinds:
            failure = ShrunkFailure(plan=counted.plan, kind=kind, kinds=kinds, schedule=len(self._tried), shrinks=0)
            (self.found if new else self.limits).setdefault(kind, failure)

    def _new(self, kinds: tuple[FailureKind, ...]) -> tuple[FailureKind, ...]:
        """Return the kinds that count as failures of the search."""
        return tuple(kind for kind in kinds if self._request.stops_at_limits or not kind.limit)

    def _counting_trial(self, trial: Trial, plan: Plan) -> Trial:
        """Return the trial whose violations count.

        A violation does not count if a fault was not confirmed. Then try the plan without that fault. Otherwise the
        search keeps circling a violation it cannot count.
        """
        violated = any(verdict.valid is False for name, verdict in trial.verdicts.items() if name != "faults")
        if not violated or trial.verdicts["faults"].valid is True:
            return trial
        rest = [(*plan.faults[:number], *plan.faults[number + 1 :]) for number in range(len(plan.faults))]
        without = (run_trial(with_(plan, faults=faults)) for faults in rest)
        return next((less for less in without if less.kinds(self._request.look_for)), trial)

    def result(self, number: int, failures: tuple[ShrunkFailure, ...]) -> RoundResult:
        return RoundResult(
            number=number,
            schedules=len(self._tried),
            judged=self._judged,
            coverage=merged(self._seen),
            best=round(self._best, 6),
            failures=failures,
            limits=tuple(self.limits[kind] for kind in sorted(self.limits, key=_gravity)),
            errors=dict(self._errors.most_common(MOST_ERRORS)),
        )


@contextlib.contextmanager
def same_everywhere() -> Iterator[None]:
    """Make Hypothesis draw the same in every process.

    It also draws constants that it finds in the source of loaded modules, and a worker has loaded other modules than a
    shell.
    """
    nothing = Constants(
        integers=SortedSet(), floats=SortedSet(key=float_to_int), bytes=SortedSet(), strings=SortedSet()
    )
    original = providers._get_local_constants
    providers._get_local_constants = lambda: nothing
    providers.CONSTANTS_CACHE.cache.clear()
    try:
        yield
    finally:
        providers._get_local_constants = original
        providers.CONSTANTS_CACHE.cache.clear()
