"""Small scope, wholly: a lock in every interleaving of messages and faults within stated bounds.

    from harness.hunting.exhaustive import Scope, exhaust
    print(exhaust(Scope(lock="redis-token", clients=2, faults=1)).sentence())

What an execution consists of is told in :mod:`harness.hunting.steered`, which orders of its steps count as one in
:mod:`harness.hunting.interleavings`, and what can strike in :mod:`harness.hunting.strikes`.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

import checkers.catalogue
from checkers.base import run_all

from ..clusters import sim_kinds
from ..clusters.sim import SimCluster
from ..completion import complete
from ..errors import HarnessError, UsageError
from ..fault_specs import fault_class
from ..history.lock_keys import KeyState
from ..plan import Discipline, Fencing, Plan
from ..runs import open_cluster
from ..sim.patches import virtual
from .interleavings import Explored, Given, Path, Step, explore
from .steered import KEY, Bounds, Section
from .strikes import family
from .trials import Trial

Progress = Callable[[int, int], None]
"""Told, after each execution, how many interleavings there were, and how many executions were cut as redundant."""
LOOK_FOR: Final = ("mutual-exclusion", "resource")
NO_END: Final = 3600.0
"""Seconds of a plan that steps end and not the time."""


class Scope(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The lock, its surroundings, and the bounds. Each of the ``clients`` goes through one section: acquire, read,
    write, release, or without ``access`` to the resource: acquire, release (fewer interleavings; but then only a client
    that is paused holds the lock for longer than a moment). At most ``faults`` of the ``families`` strike.

    Durations in seconds: ``ttl`` is the lease; an acquire tries for ``wait`` (0: once); messages may be under way for
    as long as ``late`` when time passes; an execution takes ``horizon`` of virtual time at most (0: as long as its
    faults may take, and a ttl). ``look_for`` are the checkers that count, none named: mutual exclusion and the
    resource, and only the latter where it checks fences.
    """

    lock: str
    clients: int = 2
    access: bool = True
    faults: int = 1
    families: tuple[str, ...] = ("client-pause",)
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
    look_for: tuple[str, ...] = ()
    seed: int = 0

    def plan(self) -> Plan:
        """What all executions have in common, completed; UsageError for what cannot be run."""
        if self.faults < 0:
            raise UsageError(f"faults must not be negative, got {self.faults}")
        for name in ("wait", "late", "horizon"):
            if not 0 <= getattr(self, name) <= NO_END:
                raise UsageError(f"{name} must be from 0 to {NO_END:g} seconds, got {getattr(self, name)}")
        for name in self.look_for:
            _checker(name)
        plan = complete(
            Plan(
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
                seed=self.seed,
                time_limit=NO_END,
            ).check()
        )
        for name in self.families if self.faults else ():
            family(name)
            missing = sorted(fault_class(name).needs - sim_kinds.abilities(plan.kind))
            if missing:
                raise UsageError(f"fault {name!r} needs {', '.join(missing)}, which {plan.kind} cannot do")
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
        """All that is bounded, and how: what the count is a count of."""
        of = f"{self.clients} clients" if self.clients != 1 else "one client"
        tries = f"an acquire tries for {self.wait:g} s" if self.wait else "one try for each acquire"
        under_way = f"messages take up to {self.late:g} s" if self.late else "no message is under way when time passes"
        ttl = f"ttl {self.ttl:g} s"
        section = "acquire, read, write, release" if self.access else "acquire, release"
        return f"{of}, one section each ({section}), {self.fault_words()}, {ttl}, {tries}, {under_way}"

    def fault_words(self) -> str:
        if not self.bounds().families:
            return "no fault"
        kinds = " or ".join(family(name).words for name in self.families)
        return f"at most {'one fault' if self.faults == 1 else f'{self.faults} faults'} ({kinds})"


class Violated(msgspec.Struct, frozen=True, kw_only=True):
    """An interleaving that breaks the lock. ``number`` counts from 1; :func:`again` repeats it from its ``steps``.
    ``broken`` are the checkers that say so, the gravest first, and ``why`` is what that one says."""

    number: int
    steps: tuple[Step, ...]
    broken: tuple[str, ...]
    why: str


class Exhausted(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a search. ``interleavings`` were executed to their ends, one of each class if ``reduced``, and
    ``redundant`` executions were cut because they could only have repeated one. ``truncated``: there is more that was
    not tried (it was to stop at a violation, after so many, or then).

    ``deepest`` is the greatest number of steps, ``choices`` the number of moments at which there was more than one
    step to choose from. ``blocked`` executions came to a standstill before every client was done. ``violated`` counts
    those that break the lock, and ``violation`` is the first of them. ``bounds`` says in words what was searched.
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
    violation: Violated | None
    truncated: bool
    seconds: float

    def sentence(self) -> str:
        """What was found, for a terminal."""
        count = f"{self.interleavings:,}"
        if self.violation is not None:
            found = f"violated in interleaving {self.violation.number:,}"
            found += "" if self.truncated else f" (the first of {self.violated:,} among all {count})"
        elif self.truncated:
            found = f"none in the first {count} interleavings, and there are more"
        else:
            found = f"none in all {count} interleavings"
        if self.blocked:
            found += f" ({self.blocked:,} of them came to a standstill before every client was done)"
        return f"{found}: {self.bounds}"


def exhaust(
    scope: Scope,
    *,
    first: bool = True,
    most: int = 0,
    budget_s: float = 0.0,
    reduce: bool = True,
    progress: Progress | None = None,
) -> Exhausted:
    """Execute all interleavings: up to the ``first`` that breaks the lock, ``most`` at most, for no longer than the
    budget (0: however many, for however long), or until somebody interrupts. Without ``reduce`` those that differ in
    nothing that anybody could see are executed, too. Raises UsageError for a scope that makes no sense, HarnessError
    for an execution that cannot be judged."""
    plan, bounds = scope.plan(), scope.bounds()

    def play(path: Path) -> tuple[Section, Trial]:
        section = execute(plan, bounds, path)
        return section, judged(plan, section, scope.look_for)

    count = _Count(scope)
    began = time.monotonic()
    with virtual(), contextlib.suppress(KeyboardInterrupt):
        for run in explore(play, reduce=reduce):
            count.add(run)
            if progress is not None:
                progress(count.interleavings, count.redundant)
            late = 0 < budget_s <= time.monotonic() - began
            if late or (first and count.violation) or 0 < most <= count.interleavings:
                break
    return Exhausted(
        scope=scope,
        bounds=scope.words(),
        reduced=reduce,
        interleavings=count.interleavings,
        redundant=count.redundant,
        blocked=count.blocked,
        deepest=count.deepest,
        choices=count.choices,
        violated=count.violated,
        violation=count.violation,
        truncated=count.more,
        seconds=round(time.monotonic() - began, 3),
    )


class _Count:
    def __init__(self, scope: Scope) -> None:
        self._look_for = scope.look_for
        self.interleavings = self.redundant = self.blocked = self.deepest = self.violated = 0
        self.violation: Violated | None = None
        self.choices, self.more = 0, True

    def add(self, run: Explored[tuple[Section, Trial]]) -> None:
        self.choices, self.more = run.choices, run.more
        if run.outcome is None:
            self.redundant += 1
            return
        section, trial = run.outcome
        self.interleavings += 1
        self.blocked += not section.finished
        self.deepest = max(self.deepest, len(run.steps))
        broken = trial.broken(self._look_for)
        self.violated += bool(broken)
        if broken and self.violation is None:
            why = trial.verdicts[broken[0]].explanation
            self.violation = Violated(number=self.interleavings, steps=run.steps, broken=broken, why=why)


def execute(plan: Plan, bounds: Bounds, path: Path, tell: Callable[[KeyState], None] | None = None) -> Section:
    """One execution of a completed plan, along a path; ``tell`` is told what servers have under the lock's key. Raises
    KeyboardInterrupt if it is interrupted."""
    cluster = open_cluster(plan)
    assert isinstance(cluster, SimCluster), "only a simulation can be steered"
    if tell is not None:
        cluster.watch_keys([KEY], tell)
    section = Section(plan, cluster, bounds, path)
    section.run()
    if section.recorder.history.nemesis("stop")[0].value["reason"] == "interrupted":
        raise KeyboardInterrupt
    return section


def judged(plan: Plan, section: Section, look_for: tuple[str, ...] = (), keys: Sequence[KeyState] = ()) -> Trial:
    """What the checkers say of an execution; HarnessError if a fault was not seen to strike, or to end."""
    history = section.recorder.history
    names = ("faults", *(look_for or LOOK_FOR))
    trial = Trial(plan, history, list(keys), run_all(history, [_checker(name) for name in names]))
    seen = trial.verdicts["faults"]
    if seen.valid is not True:
        raise HarnessError(f"an execution of {plan.lock} cannot be judged: {seen.explanation}")
    return trial


def again(scope: Scope, steps: Sequence[Step]) -> Trial:
    """The execution that took these steps, once more: the same history, byte for byte, and what servers had under the
    lock's key meanwhile. Raises :class:`harness.hunting.interleavings.Unsteady` if they cannot be taken."""
    plan, keys = scope.plan(), list[KeyState]()
    section = execute(plan, scope.bounds(), Given(steps), keys.append)
    return judged(plan, section, scope.look_for, keys)


def _checker(name: str) -> Any:
    try:
        return checkers.catalogue.find(name)
    except checkers.catalogue.UnknownChecker as error:
        raise UsageError(f"look_for: {error}") from error
