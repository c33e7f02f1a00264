"""Exhaustive search: check a lock in every interleaving of messages and faults within given bounds.

    from harness.search.exhaustive import exhaust
    from harness.search.scope import Scope
    print(exhaust(Scope(lock="redis-token", clients=2, faults=1)).sentence())

:mod:`harness.search.steered` defines the steps of an execution, :mod:`harness.search.interleavings` which orders of
steps count as one, and :mod:`harness.search.strikes` which faults can strike.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

import msgspec

from harness.documents import ExhaustiveDocument, convert
from harness.documents.exhaustive import SCHEMA
from harness.errors import UsageError
from harness.plan import Plan
from harness.run.plans.lock_facts import preloaded, searched_facts
from harness.run.processes import workers
from harness.run.processes.interpreter import interpreter_of
from harness.run.processes.signals import sigint_noted
from harness.sim.patches import virtual
from harness.worker.channel import Channel, Frame

from .executions import execute, judge
from .interleavings import Execution, ExecutionStep, Path, explore
from .scope import Scope
from .steered import Section
from .trials import Trial

Progress = Callable[[int, int], None]
"""Called after each execution with: interleavings so far, executions cut as redundant so far."""


class FirstViolation(msgspec.Struct, frozen=True, kw_only=True):
    """An interleaving that violates a property of the lock.

    ``number`` counts from 1; :func:`harness.search.executions.repeat` executes its ``steps`` again. ``broken`` names
    the checkers that found a violation, the gravest first; ``why`` is the first one's explanation. ``limit`` is the
    documented limit of the lock that explains the violation, empty if none does.
    """

    number: int
    steps: tuple[ExecutionStep, ...]
    broken: tuple[str, ...]
    why: str
    limit: str = ""


class ExhaustiveResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of an exhaustive search.

    ``interleavings`` counts complete executions, one of each class of equivalent ones; ``redundant`` counts executions
    cut because they could only repeat one. ``truncated``: the search stopped before it had tried everything.

    ``deepest`` is the greatest number of steps, ``choices`` the number of moments with more than one possible step.
    ``blocked`` counts executions that stopped before every client was done. ``violated`` counts executions with a
    violation. ``known_limits`` has the first one of each documented limit of the lock, and ``violation`` the first one
    that none explains. ``bounds`` says in words what was searched.
    """

    scope: Scope
    bounds: str
    interleavings: int
    redundant: int
    blocked: int
    deepest: int
    choices: int
    violated: int
    violation: FirstViolation | None
    known_limits: tuple[FirstViolation, ...]
    truncated: bool
    seconds: float

    def document(self) -> ExhaustiveDocument:
        """Return the document that ``harness hunt --exhaustive --json`` prints."""
        fields = {"schema": SCHEMA, "reduced": True, **msgspec.to_builtins(self)}
        return convert(fields, ExhaustiveDocument, "the search")

    def sentence(self) -> str:
        """Return the result as a sentence for a terminal."""
        count = f"{self.interleavings:,}"
        if self.violation is not None:
            found = f"Violation in interleaving {self.violation.number:,}"
            found += "" if self.truncated else f" ({self.violated:,} among all {count} have one)"
        else:
            of = "beyond the documented limits of the lock " if self.known_limits else ""
            which = f"the first {count}" if self.truncated else f"all {count}"
            found = f"No violation {of}in {which} interleavings"
            found += "; the others were not tried" if self.truncated else ""
        if self.blocked:
            found += f" ({self.blocked:,} of them stopped before every client was done)"
        return f"{found}: {self.bounds}"


class _SearchLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments of a search in a worker; see :func:`exhaust`."""

    scope: Scope
    plan: Plan
    first: bool
    stop_at_limits: bool
    most: int
    budget_s: float


def exhaust(
    scope: Scope,
    *,
    first: bool = True,
    stop_at_limits: bool = False,
    most: int = 0,
    budget_s: float = 0.0,
    progress: Progress | None = None,
) -> ExhaustiveResult:
    """Execute all interleavings within the scope, in a worker process.

    The search ends at the ``first`` violation, after ``most`` interleavings, after ``budget_s`` seconds (0: no limit),
    or when interrupted. A violation that a documented limit of the lock explains does not end it, unless
    ``stop_at_limits``. Raises UsageError for an impossible scope, HarnessError for an execution that cannot be judged
    or a worker that ended early.
    """
    if stop_at_limits and not first:
        raise UsageError("keep_going and stop_at_first exclude each other")
    plan = scope.plan()

    def on_frame(kind: Frame, body: bytes) -> bool:
        """Pass progress on; return True if it interrupts the search."""
        if kind is Frame.PROGRESS and progress is not None:
            try:
                progress(*msgspec.json.decode(body, type=tuple[int, int]))
            except KeyboardInterrupt:
                return True
        return False

    limits = _SearchLimits(
        scope=scope,
        plan=plan,
        first=first,
        stop_at_limits=stop_at_limits,
        most=most,
        budget_s=budget_s,
    )
    result = workers.call(
        f"{__name__}:exhaust_in_worker",
        msgspec.json.encode(limits),
        on_frame,
        interpreter=interpreter_of(plan, search=True),
        preload=(__name__, *preloaded(scope.lock)),
        interruptible=True,
    )
    return msgspec.json.decode(result, type=ExhaustiveResult)


def exhaust_in_worker(argument: bytes, channel: Channel) -> bytes:
    """Search within :class:`_SearchLimits`. After SIGINT it ends with its result so far."""
    limits = msgspec.json.decode(argument, type=_SearchLimits)
    with sigint_noted() as interrupted:

        def progress(interleavings: int, redundant: int) -> None:
            channel.send(Frame.PROGRESS, msgspec.json.encode((interleavings, redundant)))
            if interrupted():
                raise KeyboardInterrupt

        return msgspec.json.encode(_exhaust(limits, progress))


def _exhaust(limits: _SearchLimits, progress: Progress) -> ExhaustiveResult:
    scope, plan = limits.scope, limits.plan
    bounds, lock = scope.bounds(), searched_facts(plan.lock)

    def run_one(path: Path) -> tuple[Section, Trial]:
        section = execute(plan, bounds, path)
        return section, judge(plan, lock, section.recorder.history, scope.look_for)

    count = _Count(scope)
    began = time.monotonic()
    with virtual(), contextlib.suppress(KeyboardInterrupt):
        for run in explore(run_one):
            count.add(run)
            progress(count.interleavings, count.redundant)
            late = 0 < limits.budget_s <= time.monotonic() - began
            enough = limits.first and (count.violation or (limits.stop_at_limits and count.known_limits))
            if late or enough or 0 < limits.most <= count.interleavings:
                break
    return ExhaustiveResult(
        scope=scope,
        bounds=scope.words(),
        interleavings=count.interleavings,
        redundant=count.redundant,
        blocked=count.blocked,
        deepest=count.deepest,
        choices=count.choices,
        violated=count.violated,
        violation=count.violation,
        known_limits=tuple(count.known_limits.values()),
        truncated=count.more,
        seconds=round(time.monotonic() - began, 3),
    )


class _Count:
    def __init__(self, scope: Scope) -> None:
        self._look_for = scope.look_for
        self.interleavings = self.redundant = self.blocked = self.deepest = self.violated = 0
        self.violation: FirstViolation | None = None
        self.known_limits: dict[str, FirstViolation] = {}
        self.choices, self.more = 0, True

    def add(self, run: Execution[tuple[Section, Trial]]) -> None:
        self.choices, self.more = run.choices, run.more
        if run.outcome is None:
            self.redundant += 1
            return
        section, trial = run.outcome
        self.interleavings += 1
        self.blocked += not section.finished
        self.deepest = max(self.deepest, len(run.steps))
        kinds = trial.kinds(self._look_for)
        self.violated += bool(kinds)
        for limit in dict.fromkeys(kind.limit for kind in kinds):
            broken = tuple(kind.checker for kind in kinds if kind.limit == limit)
            why = trial.verdicts[broken[0]].explanation
            found = FirstViolation(number=self.interleavings, steps=run.steps, broken=broken, why=why, limit=limit)
            if limit:
                self.known_limits.setdefault(limit, found)
            else:
                self.violation = self.violation or found
