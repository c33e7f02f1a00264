"""Rounds of a hunt: each searches so many schedules from a seed of its own, and can be played in any process.

What a round finds follows from what it is, not from when, where or beside whom it is played.
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

from ..errors import UsageError
from ..plan import Plan
from ..sim.patches import virtual
from ..sweep import SERVICE
from .asked import Asked
from .closeness import closeness, score
from .coverage import Coverage, covered, merged
from .shrinking import smallest
from .space import schedules
from .trials import Trial, gravity, play
from .vocabulary import Vocabulary

SHORT: Final = 0.5
"""Seconds of a run that shows nothing."""
SEEDS_APART: Final = 1_000_003
"""Two seeds of a hunt have no round in common."""
MOST_ERRORS: Final = 20
"""Kinds of errors that a round keeps."""


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """``asked`` is completed; ``number`` counts from 1."""

    asked: Asked
    number: int
    vocabulary: Vocabulary


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule that breaks a ``checker``, made small: ``broken`` are all that it breaks, the gravest first,
    ``schedule`` the number in its round (from 1 on) of the one that was found, and ``shrinks`` how many were tried to
    make it small."""

    plan: Plan
    checker: str
    broken: tuple[str, ...]
    schedule: int
    shrinks: int


class Searched(msgspec.Struct, frozen=True, kw_only=True):
    """What a round came to: one failure, or if it was thorough one of each kind, the gravest first.

    ``schedules`` were tried, and of ``judged`` ones it is known whether two clients held the lock at once. ``best`` is
    how close to that it came (:mod:`harness.hunting.closeness`). ``errors`` are what schedules ended with that broke or
    could not be run, and how many did.
    """

    number: int
    schedules: int
    judged: int
    coverage: Coverage
    best: float
    failures: tuple[Failure, ...] = ()
    errors: dict[str, int] = {}


Told = Callable[[int, int, float], None]
"""Told after each schedule: how many of this round have been tried, the states seen, how close the best came."""


def search(round_: Round, told: Told | None = None) -> Searched:
    """Play a round: Hypothesis draws schedules, led by how close they come, until one fails; that is made small. If
    ``told`` raises KeyboardInterrupt the round ends, with what it has seen so far."""
    asked = round_.asked
    searching = _Searching(asked, told)
    # All that is needed is loaded before time is virtual.
    play(with_(asked.plan(), clients=1, sections=1, time_limit=SHORT))
    with virtual():  # once for all schedules: that takes as long as a short schedule
        with contextlib.suppress(_Enough, KeyboardInterrupt), _same_everywhere():
            _drawn(searching, asked, round_)
        failures = tuple(_failures(searching.found, asked))
    return searching.result(round_.number, failures)


def _failures(found: dict[str, tuple[Trial, int]], asked: Asked) -> Iterator[Failure]:
    """The gravest, made small; if it is to be thorough, what those before it do not break as well, too."""
    broken: set[str] = set()
    for checker in sorted(found, key=gravity):
        if checker not in broken:
            trial, schedule = found[checker]
            shrunk = smallest(trial.plan, checker, asked)
            yield Failure(
                plan=shrunk.plan, checker=checker, broken=shrunk.broken, schedule=schedule, shrinks=shrunk.plays
            )
            broken.update(shrunk.broken)
        if not asked.thorough:
            return


class _Enough(Exception):
    """What was found ends the round."""


def _drawn(searching: _Searching, asked: Asked, round_: Round) -> None:
    @hypothesis.seed(asked.seed * SEEDS_APART + round_.number)
    @hypothesis.settings(
        max_examples=asked.schedules,
        phases=(Phase.generate, Phase.target),
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        verbosity=hypothesis.Verbosity.quiet,
        report_multiple_bugs=False,
        backend="hypothesis",
    )
    @hypothesis.given(schedules(asked, round_.vocabulary))
    def tried(plan: Plan) -> None:
        searching.try_(plan)
        if searching.enough:
            raise _Enough

    tried()


class _Searching:
    """What a search has seen so far."""

    def __init__(self, asked: Asked, told: Told | None) -> None:
        self._asked = asked
        self._told = told
        self._seen: list[Coverage] = []
        self._states: set[str] = set()
        self._errors: Counter[str] = Counter()
        self._tried: set[bytes] = set()
        self._best = 0.0
        self._judged = 0
        self.found: dict[str, tuple[Trial, int]] = {}
        """By checker: the first schedule that breaks it, and its number."""

    @property
    def enough(self) -> bool:
        """Has it found what cannot be graver? How well a lock serves is of less weight than whether it is safe."""
        return not self._asked.thorough and any(kind not in SERVICE for kind in self.found)

    def try_(self, plan: Plan) -> None:
        """What is drawn again is not played again."""
        known = msgspec.json.encode(plan)
        if known not in self._tried:
            self._tried.add(known)
            self._play(plan)
            if self._told is not None:
                self._told(len(self._tried), len(self._states), self._best)

    def _play(self, plan: Plan) -> None:
        try:
            trial = play(plan)
            counted = self._counted(trial, plan)
        except UsageError as error:
            self._errors[f"refused: {error}"] += 1
            return
        except Exception as error:  # noqa: BLE001 - a schedule that breaks the simulation is told, and the next is tried
            self._errors[f"{type(error).__name__}: {error}"] += 1
            return
        self._judged += trial.verdicts["mutual-exclusion"].valid is not None
        coverage = covered(trial)
        self._seen.append(coverage)
        self._states |= coverage.states
        self._best = max(self._best, score(trial))
        for label, value in closeness(trial).items():
            hypothesis.target(value, label=label)
        hypothesis.target(float(len(coverage.states)), label="states")
        for checker in counted.broken(self._asked.look_for):
            self.found.setdefault(checker, (counted, len(self._tried)))

    def _counted(self, trial: Trial, plan: Plan) -> Trial:
        """The trial, or, where a violation does not count since one of the faults was not seen to strike, that of the
        plan without this fault: the search would go on around what it never finds."""
        violated = any(verdict.valid is False for name, verdict in trial.verdicts.items() if name != "faults")
        if not violated or trial.verdicts["faults"].valid is True:
            return trial
        rest = [(*plan.faults[:number], *plan.faults[number + 1 :]) for number in range(len(plan.faults))]
        without = (play(with_(plan, faults=faults)) for faults in rest)
        return next((less for less in without if less.broken(self._asked.look_for)), trial)

    def result(self, number: int, failures: tuple[Failure, ...]) -> Searched:
        return Searched(
            number=number,
            schedules=len(self._tried),
            judged=self._judged,
            coverage=merged(self._seen),
            best=round(self._best, 6),
            failures=failures,
            errors=dict(self._errors.most_common(MOST_ERRORS)),
        )


@contextlib.contextmanager
def _same_everywhere() -> Iterator[None]:
    """Hypothesis draws constants that it reads in the source of whatever modules are loaded, which are others in a
    worker than in a shell: a round would find one thing here and another there."""
    nothing = Constants(
        integers=SortedSet(), floats=SortedSet(key=float_to_int), bytes=SortedSet(), strings=SortedSet()
    )
    theirs = providers._get_local_constants
    providers._get_local_constants = lambda: nothing
    providers.CONSTANTS_CACHE.cache.clear()
    try:
        yield
    finally:
        providers._get_local_constants = theirs
        providers.CONSTANTS_CACHE.cache.clear()
