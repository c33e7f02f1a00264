"""Exhaustive search: check a lock in every interleaving of messages and faults within given bounds.

    from harness.search.exhaustive import Scope, exhaust
    print(exhaust(Scope(lock="redis-token", clients=2, faults=1)).sentence())

:mod:`harness.search.steered` defines the steps of an execution, :mod:`harness.search.interleavings` which orders of
steps count as one, and :mod:`harness.search.strikes` which faults can strike.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace as with_

from harness.checkers import catalogue as checker_catalogue
from harness.clusters.abilities import lacking
from harness.clusters.sim.cluster import SimCluster
from harness.documents import ExhaustiveDocument, convert
from harness.documents.exhaustive import SCHEMA
from harness.documents.lock import LockFacts
from harness.errors import HarnessError, UsageError
from harness.faults.catalogue import fault_class
from harness.faults.pause import ClientPause
from harness.history import History, Op
from harness.history.lock_keys import KeyState
from harness.plan import Discipline, FaultSpec, Fencing, Plan
from harness.run import workers
from harness.run.completion import complete
from harness.run.interpreter import interpreter_of
from harness.run.lock_facts import find_facts, preloaded, searched_facts
from harness.run.opening import open_simulated
from harness.run.signals import sigint_noted
from harness.sim.patches import virtual
from harness.worker.channel import Channel, Frame

from .interleavings import Execution, ExecutionStep, FixedSteps, Path, explore
from .steered import KEY, Bounds, Section
from .strikes import step_of
from .trials import Trial, judged

Progress = Callable[[int, int], None]
"""Called after each execution with: interleavings so far, executions cut as redundant so far."""
LOOK_FOR: Final = ("mutual-exclusion", "resource")
NO_END: Final = 3600.0
"""Time limit (s) of a plan that ends by its steps, not by time."""


class Scope(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The lock, its cluster, and the bounds of the search.

    Each client executes one critical section: acquire, read, write, release. Without ``access`` to the resource it is
    acquire, release: fewer interleavings, but only a paused client then holds the lock for longer than a moment. At
    most ``faults`` faults of the ``families`` strike.

    Durations in seconds: ``ttl`` is the lease; an acquire tries for ``wait`` (0: once); a message may be under way for
    ``late`` while time passes; an execution takes at most ``horizon`` of virtual time (0: the longest that its faults
    may take, and a ttl). ``look_for`` names the checkers that count. Empty: mutual exclusion and the resource, or only
    the resource if it checks fencing tokens. ``requires``, ``python`` and ``lease`` are as in a plan.
    """

    lock: str
    clients: int = 2
    access: bool = True
    faults: int = 1
    families: tuple[str, ...] = (ClientPause.name,)
    ttl: float = 2.0
    wait: float = 0.0
    late: float = 0.0
    horizon: float = 0.0
    kind: str = ""
    nodes: int = 0
    discipline: Discipline = "trusting"
    fencing: Fencing = "off"
    lock_options: dict[str, Any] = {}
    server_options: dict[str, Any] = {}
    requires: tuple[str, ...] = ()
    python: str = ""
    lease: str = ""
    look_for: tuple[str, ...] = ()
    seed: int = 0

    def plan(self) -> Plan:
        """Return the completed plan that all executions share; UsageError if it cannot be run."""
        if self.faults < 0:
            raise UsageError(f"faults must not be negative, got {self.faults}")
        for name in ("wait", "late", "horizon"):
            if not 0 <= getattr(self, name) <= NO_END:
                raise UsageError(f"{name} must be from 0 to {NO_END:g} seconds, got {getattr(self, name)}")
        for name in self.look_for:
            _checker(name)
        asked = Plan(
            lock=self.lock,
            kind=self.kind,
            nodes=self.nodes,
            clients=self.clients,
            ttl=self.ttl,
            sections=1,
            discipline=self.discipline,
            fencing=self.fencing,
            lock_options=self.lock_options,
            server_options=self.server_options,
            requires=self.requires,
            python=self.python,
            lease=self.lease,
            seed=self.seed,
            time_limit=NO_END,
        ).check()
        lock = find_facts(self.lock, interpreter_of(asked, search=True))
        plan = complete(asked, lock)
        for name in self.families if self.faults else ():
            step_of(name)
            missing = lacking(fault_class(name).needs, SimCluster.part_types(plan.kind))
            if missing:
                raise UsageError(f"fault {name!r} needs {', '.join(missing)}, which {plan.kind} cannot do")
            if fault_class(name).coroutines is not None:
                complete(with_(asked, faults=(FaultSpec(name, at=0.0),)), lock)
        return plan

    def bounds(self) -> Bounds:
        return Bounds(
            access=self.access,
            faults=self.faults,
            families=self.families if self.faults else (),
            wait=self.wait,
            late=self.late,
            horizon=self.horizon,
        )

    def words(self) -> str:
        """Return the bounds in words, so that a count of interleavings has a meaning."""
        of = f"{self.clients} clients" if self.clients != 1 else "one client"
        tries = f"an acquire retries for {self.wait:g} s" if self.wait else "one try for each acquire"
        under_way = (
            f"messages take up to {self.late:g} s" if self.late else "time advances only when no message is in transit"
        )
        ttl = f"ttl {self.ttl:g} s"
        section = "acquire, read, write, release" if self.access else "acquire, release"
        return f"{of}, one critical section each ({section}), {self.fault_words()}, {ttl}, {tries}, {under_way}"

    def fault_words(self) -> str:
        if not self.bounds().families:
            return "no fault"
        kinds = " or ".join(step_of(name).words for name in self.families)
        return f"at most {'one fault' if self.faults == 1 else f'{self.faults} faults'} ({kinds})"


class FirstViolation(msgspec.Struct, frozen=True, kw_only=True):
    """An interleaving that violates a property of the lock. ``number`` counts from 1; :func:`repeat` executes its
    ``steps`` again. ``broken`` names the checkers that found a violation, the gravest first; ``why`` is the first one's
    explanation. ``limit`` is the documented limit of the lock that explains the violation, empty if none does."""

    number: int
    steps: tuple[ExecutionStep, ...]
    broken: tuple[str, ...]
    why: str
    limit: str = ""


class ExhaustiveResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of an exhaustive search.

    ``interleavings`` counts complete executions, one of each class if ``reduced``; ``redundant`` counts executions cut
    because they could only repeat one. ``truncated``: the search stopped before it had tried everything.

    ``deepest`` is the greatest number of steps, ``choices`` the number of moments with more than one possible step.
    ``blocked`` counts executions that stopped before every client was done. ``violated`` counts executions with a
    violation. ``known_limits`` has the first one of each documented limit of the lock, and ``violation`` the first one
    that none explains. ``bounds`` says in words what was searched.
    """

    scope: Scope
    bounds: str
    reduced: bool
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
        return convert({"schema": SCHEMA, **msgspec.to_builtins(self)}, ExhaustiveDocument, "the search")

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
    reduce: bool


def exhaust(
    scope: Scope,
    *,
    first: bool = True,
    stop_at_limits: bool = False,
    most: int = 0,
    budget_s: float = 0.0,
    reduce: bool = True,
    progress: Progress | None = None,
) -> ExhaustiveResult:
    """Execute all interleavings within the scope, in a worker process.

    The search ends at the ``first`` violation, after ``most`` interleavings, after ``budget_s`` seconds (0: no limit),
    or when interrupted. A violation that a documented limit of the lock explains does not end it, unless
    ``stop_at_limits``. Without ``reduce``, it also executes equivalent interleavings. Raises UsageError for an
    impossible scope, HarnessError for an execution that cannot be judged or a worker that ended early.
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
        reduce=reduce,
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
        for run in explore(run_one, reduce=limits.reduce):
            count.add(run)
            progress(count.interleavings, count.redundant)
            late = 0 < limits.budget_s <= time.monotonic() - began
            enough = limits.first and (count.violation or (limits.stop_at_limits and count.known_limits))
            if late or enough or 0 < limits.most <= count.interleavings:
                break
    return ExhaustiveResult(
        scope=scope,
        bounds=scope.words(),
        reduced=limits.reduce,
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


def execute(plan: Plan, bounds: Bounds, path: Path, on_change: Callable[[KeyState], None] | None = None) -> Section:
    """Execute a completed plan along a path. ``on_change`` is called with each change of the lock's key on a server.

    Raises KeyboardInterrupt if the execution is interrupted.
    """
    cluster = open_simulated(plan)
    if on_change is not None:
        cluster.watch_keys([KEY], on_change)
    section = Section(plan, searched_facts(plan.lock), cluster, bounds, path)
    section.run()
    if section.recorder.history.nemesis("stop")[0].value["reason"] == "interrupted":
        raise KeyboardInterrupt
    return section


def judge(
    plan: Plan, lock: LockFacts, history: History, look_for: tuple[str, ...] = (), keys: Sequence[KeyState] = ()
) -> Trial:
    """Run the checkers on an execution; HarnessError if a fault, or its heal, was not confirmed."""
    names = ("faults", *(look_for or LOOK_FOR))
    trial = judged(plan, lock, history, list(keys), [_checker(name) for name in names])
    seen = trial.verdicts["faults"]
    if seen.valid is not True:
        raise HarnessError(f"an execution of {plan.lock} cannot be judged: {seen.explanation}")
    return trial


class _Repetition(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments of a repetition in a worker; see :func:`repeat`."""

    scope: Scope
    plan: Plan
    steps: tuple[ExecutionStep, ...]


class _Repeated(msgspec.Struct, frozen=True, kw_only=True):
    history: tuple[Op, ...]
    keys: tuple[KeyState, ...]


def repeat(scope: Scope, steps: Sequence[ExecutionStep]) -> Trial:
    """Repeat, in a worker process, the execution that took these steps: the same history, byte for byte, with the
    states of the lock's key.

    Raises :class:`harness.search.interleavings.NotReproducible` if the steps cannot be taken, HarnessError for a worker
    that ended early.
    """
    plan = scope.plan()
    interpreter = interpreter_of(plan, search=True)
    result = workers.call(
        f"{__name__}:repeat_in_worker",
        msgspec.json.encode(_Repetition(scope=scope, plan=plan, steps=tuple(steps))),
        lambda _kind, _body: None,
        interpreter=interpreter,
        preload=(__name__, *preloaded(scope.lock)),
    )
    found = msgspec.json.decode(result, type=_Repeated)
    return judge(plan, find_facts(plan.lock, interpreter), History(found.history), scope.look_for, found.keys)


def repeat_in_worker(argument: bytes, channel: Channel) -> bytes:
    """Repeat an execution and return its entries and the states of the lock's key."""
    del channel
    request = msgspec.json.decode(argument, type=_Repetition)
    keys: list[KeyState] = []
    section = execute(request.plan, request.scope.bounds(), FixedSteps(request.steps), keys.append)
    history = tuple(section.recorder.history)
    return msgspec.json.encode(_Repeated(history=history, keys=tuple(keys)))


def _checker(name: str) -> Any:
    try:
        return checker_catalogue.find(name)
    except checker_catalogue.UnknownChecker as error:
        raise UsageError(f"look_for: {error}") from error
