"""Hunts: search the simulator's schedules for one in which a lock fails, then shrink it and explain it step by step.

    from harness import hunt
    print(hunt("redlock", faults=("clock-jump",), budget_s=30))

A hunt executes rounds (:mod:`harness.search.rounds`), one after the other or in parallel, until one finds a failure or
the budget is used up. It reports each known limit of the lock once, and goes on. A round depends only on its number and
the request, so the same number of rounds finds the same failures on any machine.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace as with_

from harness.clusters.kinds import KINDS
from harness.documents import HuntDocument, plain
from harness.documents.hunt import SCHEMA, HuntCoverage
from harness.documents.hunt import HuntRequestDocument as StoredRequest
from harness.errors import UNKNOWN, VALID, VIOLATION, HarnessError, UsageError
from harness.plan import dump
from harness.run.pool import AbandonedJob, open_pool, results
from harness.run.pool.in_process import InProcess
from harness.run.processes.signals import interrupts_handled, sigterm_interrupts
from harness.run.progress import Progress
from harness.run.store import new_hunt, writable, write_results
from harness.run.verdicts.judging import versions

from .coverage import Coverage, merged, summary, unreached
from .findings import FoundFailure, known_failures, make_finding, remember
from .in_workers import installed_versions, kinds_of, search, shrink
from .request import HuntRequest, names, spec_of
from .rounds import Round, RoundResult, ShrunkFailure
from .summary import result_lines
from .trials import FailureKind
from .vocabulary import Vocabulary, learn_vocabulary

DOCUMENT: Final = "hunt.json"
NOT_REPEATED: Final = (
    "{checker} found a violation that did not happen again in a fresh process, so it is not reported; "
    "does the lock or its library keep state between runs?"
)
BUDGET: Final = 60.0
"""Default duration of the search, seconds."""


class LockFails(AssertionError):
    """Raised by :meth:`HuntResult.check` if the hunt found a failure that counts; the message tells its story."""


@dataclass(frozen=True, slots=True)
class HuntResult:
    """Result of a hunt. ``results`` is the content of ``hunt.json`` in ``folder`` (None if nothing is stored)."""

    request: HuntRequest
    findings: tuple[FoundFailure, ...]
    results: HuntDocument
    folder: Path | None

    @property
    def document(self) -> dict[str, Any]:
        """Return ``results`` as plain data."""
        return plain(self.results)

    @property
    def exit_status(self) -> int:
        """Return the exit status.

        1: a failure was found, be it a known limit of the lock unless those are accepted · 0: no such failure was
        found · 3: the search was interrupted, or no schedule could be judged.
        """
        if self.results.failed:
            return VIOLATION
        return UNKNOWN if self.results.interrupted or not self.results.judged else VALID

    def __str__(self) -> str:
        return "\n".join(result_lines(self.results))

    def check(self) -> HuntResult:
        """Return this result; raise :class:`LockFails` with the story if a finding counts."""
        if self.results.failed:
            raise LockFails(str(self))
        return self


@dataclass(slots=True)
class _Tally:
    """Sums over the rounds so far.

    ``failures`` have the number of their round; 0 if known from an earlier hunt. ``reached`` are the kinds of the known
    limits among them.
    """

    began: float
    budget: float
    rounds: int | None
    progress: Progress
    schedules: int = 0
    judged: int = 0
    done: int = 0
    best: float = 0.0
    seen: list[Coverage] = field(default_factory=list)
    states: set[str] = field(default_factory=set)
    failures: list[tuple[int, ShrunkFailure]] = field(default_factory=list)
    reached: set[FailureKind] = field(default_factory=set)
    errors: Counter[str] = field(default_factory=Counter)
    given_up: list[str] = field(default_factory=list)
    vocabulary: Vocabulary | None = None
    interrupted: bool = False

    def interruptible(self, *, between_schedules: bool) -> contextlib.AbstractContextManager[None]:
        """If schedules are executed in this process, delay the first interrupt until the end of one.

        Raised within a simulation, KeyboardInterrupt could be caught by the lock's code, or be lost in a destructor.
        """
        if not between_schedules:
            return contextlib.nullcontext()

        def handler(*_: Any) -> None:
            if self.interrupted:
                raise KeyboardInterrupt
            self.interrupted = True

        return interrupts_handled(handler)

    def heed(self) -> None:
        """Raise the delayed interrupt, if there is one."""
        if self.interrupted:
            raise KeyboardInterrupt

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    def over(self) -> bool:
        return self.rounds is None and self.seconds >= self.budget

    def add(self, searched: RoundResult) -> None:
        self.done += 1
        self.schedules += searched.schedules
        self.judged += searched.judged
        self.best = max(self.best, searched.best)
        self.seen.append(searched.coverage)
        self.states |= searched.coverage.states
        self.errors.update(searched.errors)
        self.failures += [(searched.number, failure) for failure in searched.failures]
        self.tell(0, len(self.states), self.best)

    def add_limit(self, number: int, limit: ShrunkFailure, request: HuntRequest) -> None:
        """Add a known limit that round ``number`` reached, shrunk, unless one of the same kind was added before."""
        if limit.kind in self.reached:
            return
        self.reached.add(limit.kind)
        self.failures.append((number, limit))  # even if shrinking is interrupted
        shrunk = shrink(limit, request)
        if shrunk is None:
            self.failures.pop()
            self.given_up.append(f"round {number}: {NOT_REPEATED.format(checker=limit.kind.checker)}")
            return
        self.failures[-1] = number, shrunk
        self.reached.update(shrunk.kinds)

    def tell(self, tried: int, states: int, best: float) -> None:
        """Report progress. ``tried`` counts the schedules of the unfinished round."""
        self.heed()
        schedules = self.schedules + tried
        share = self.done / self.rounds if self.rounds else self.seconds / self.budget
        rate = schedules / max(self.seconds, 1e-3)
        text = (
            f"running: round {self.done + 1} · {schedules:,} schedules · {rate:.0f} a second · "
            f"{max(states, len(self.states)):,} states · closest {max(best, self.best):.2f} of 2"
        )
        self.progress(min(1.0, share), text)


def hunt(
    lock: str | type | HuntRequest,
    *,
    faults: str | Sequence[str] = (),
    budget_s: float = BUDGET,
    rounds: int | None = None,
    seed: int = 0,
    workers: int | None = 1,
    scheduler: str | None = None,
    keep_going: bool = False,
    stop_at_first: bool = False,
    fresh: bool = False,
    trust: bool = False,
    store: Path | None = None,
    command: str = "",
    progress: Progress | None = None,
) -> HuntResult:
    """Search the schedules of a lock for one in which it fails.

    ``lock`` is a name, ``package.module:Class``, the class itself, or a :class:`HuntRequest`, which has its own faults
    and seed.

    The search takes ``budget_s`` seconds and at least one round, or ``rounds`` rounds. It stops at the first round with
    a failure unless ``keep_going``. Known limits of the lock do not stop it unless ``stop_at_first``. Rounds are
    executed one by one (``workers`` 1), by that many workers of this machine (None: one for each processor), or by the
    workers of a Dask ``scheduler`` (``tcp://...``). Failures are kept in ``store``; the failures of earlier hunts are
    tried first unless ``fresh``. Raises UsageError for what cannot be hunted, and unless ``trust`` for a stored failure
    with code that the request does not name.
    """
    if isinstance(lock, HuntRequest):
        request = lock
    else:
        request = HuntRequest(lock=spec_of(lock), faults=names(faults), seed=seed)
    if keep_going and (stop_at_first or request.stop_at_first):
        raise UsageError("keep_going and stop_at_first exclude each other")
    request = with_(
        request, thorough=request.thorough or keep_going, stop_at_first=request.stop_at_first or stop_at_first
    ).completed()
    _check(budget_s, rounds, workers)
    if store is not None:
        writable(store)
    started = datetime.now(UTC)
    tally = _Tally(time.monotonic(), budget_s, rounds, progress or (lambda _fraction, _text: None))
    tally.progress(0.0, "starting: what the lock's clients do when nothing goes wrong")
    interrupted = False
    try:
        with sigterm_interrupts():
            _search(request, tally, workers, scheduler, None if fresh else store, keep_going=keep_going, trust=trust)
    except KeyboardInterrupt:
        interrupted = True
    seconds = tally.seconds
    with tally.interruptible(between_schedules=True):  # findings are written even after an interrupt
        reported = _reported(tally, keep_going=keep_going, stop_at_first=request.stops_at_limits)
        findings = tuple(_findings(reported, tally, command or f"harness hunt {request.lock}", store))
    folder = None if store is None else new_hunt(store, request.lock, started)
    document = with_(
        _document(request, tally, findings, seconds),
        interrupted=interrupted,
        command=command,
        started_at=f"{started:%Y-%m-%dT%H:%M:%SZ}",
        folder=None if folder is None else str(folder),
    )
    if folder is not None:
        _keep(document, folder)
    return HuntResult(request, findings, document, folder)


def _keep(document: HuntDocument, folder: Path) -> None:
    from harness.reports import hunt_report

    write_results(folder, document, DOCUMENT)
    hunt_report.write(folder)


def _check(budget_s: float, rounds: int | None, workers: int | None) -> None:
    if not isinstance(budget_s, int | float):  # a test may say "5s", as the command line does
        raise UsageError(f"budget must be a number of seconds, got {budget_s!r}")
    if not budget_s > 0:
        raise UsageError(f"budget must be more than 0 seconds, got {budget_s:g}")
    if rounds is not None and rounds < 1:
        raise UsageError(f"rounds must be at least 1, got {rounds}")
    if workers is not None and workers < 1:
        raise UsageError(f"workers must be at least 1, got {workers}")


def _search(
    request: HuntRequest,
    tally: _Tally,
    workers: int | None,
    scheduler: str | None,
    store: Path | None,
    *,
    keep_going: bool,
    trust: bool,
) -> None:
    with tally.interruptible(between_schedules=True):
        if store is not None:
            for failure in _still_failing(request, store, trust=trust):
                tally.failures.append((0, failure))
                tally.reached.update(kind for kind in failure.kinds if kind.limit)
            if _over(request, tally, keep_going=keep_going):
                return
        tally.vocabulary = vocabulary = learn_vocabulary(request)
    tally.heed()
    numbers = itertools.count(1) if tally.rounds is None else iter(range(1, tally.rounds + 1))
    jobs = (
        Round(request=request, number=number, vocabulary=vocabulary)
        for number in itertools.takewhile(lambda number: number == 1 or not tally.over(), numbers)
    )
    with open_pool(workers, scheduler) as pool:
        here = isinstance(pool, InProcess)
        work: Callable[[Round], RoundResult] = partial(search, progress=tally.tell) if here else search
        with tally.interruptible(between_schedules=here), contextlib.closing(results(jobs, work, pool)) as searches:
            for job, searched in searches:
                if isinstance(searched, AbandonedJob):
                    tally.given_up.append(f"round {job.number}: {searched.why}")
                    continue
                tally.add(searched)
                for limit in searched.limits:
                    tally.add_limit(searched.number, limit, request)
                if _over(request, tally, keep_going=keep_going):
                    return


def _over(request: HuntRequest, tally: _Tally, *, keep_going: bool) -> bool:
    """Return whether the search may stop: it has found a failure that counts."""
    return not keep_going and any(request.stops_at_limits or not failure.known for _, failure in tally.failures)


def _still_failing(request: HuntRequest, store: Path, *, trust: bool) -> Iterator[ShrunkFailure]:
    """Yield the failures of earlier hunts that still happen."""
    for plan in known_failures(request, store, trust=trust):
        with contextlib.suppress(HarnessError):
            kinds = kinds_of(plan, request.look_for)
            if kinds:
                kind = next((kind for kind in kinds if not kind.limit), kinds[0])
                yield ShrunkFailure(plan=plan, kind=kind, kinds=kinds, schedule=0, shrinks=0)


def _reported(tally: _Tally, *, keep_going: bool, stop_at_first: bool) -> list[tuple[int, ShrunkFailure]]:
    """Return the first failure, or with ``keep_going`` the smallest of each kind, in the order in which the kinds were
    found; then the first of each known limit, unless ``stop_at_first``."""
    new: dict[Any, tuple[int, ShrunkFailure]] = {}
    limits: dict[FailureKind, tuple[int, ShrunkFailure]] = {}
    for number, failure in tally.failures:
        if failure.known:
            limits.setdefault(failure.kind, (number, failure))
            continue
        faults = tuple(sorted({spec.fault for spec in failure.plan.faults}))
        kind = (failure.kind, faults, failure.plan.workload)
        if kind not in new or _size(failure) < _size(new[kind][1]):
            new[kind] = number, failure
    first = list(new.values()) if keep_going else list(new.values())[:1]
    found = [*first, *limits.values()]
    return found[:1] if stop_at_first else found


def _findings(
    reported: Sequence[tuple[int, ShrunkFailure]], tally: _Tally, command: str, store: Path | None
) -> Iterator[FoundFailure]:
    """Yield the reported failures that happen again in fresh workers, with their stories."""
    for number, failure in reported:
        tally.progress(1.0, "writing: the story, and whether each of its steps is needed")
        found = make_finding(failure, command=command, round_=number, store=store)
        if found is None:
            tally.given_up.append(f"round {number}: {NOT_REPEATED.format(checker=failure.kind.checker)}")
            continue
        if store is not None:
            remember(found, store)
        yield found


def _size(failure: ShrunkFailure) -> tuple[int, int, int, str]:
    plan = failure.plan
    text = dump(plan)
    return len(plan.faults), plan.clients, len(text), text


def _document(request: HuntRequest, tally: _Tally, findings: Sequence[FoundFailure], seconds: float) -> HuntDocument:
    coverage = merged(tally.seen)
    return HuntDocument(
        schema=SCHEMA,
        lock=request.lock,
        asked=msgspec.convert(request, StoredRequest, from_attributes=True),
        found=bool(findings),
        findings=tuple(found.documented() for found in findings),
        rounds=tally.done,
        schedules=tally.schedules,
        judged=tally.judged + (1 if any(number == 0 for number, _ in tally.failures) else 0),
        seconds=round(seconds, 3),
        best=tally.best,
        coverage=HuntCoverage(**summary(coverage)),
        moments=tuple(sorted(coverage.moments)),
        pairs=tuple(sorted(coverage.pairs)),
        never=tuple(unreached(request, tally.vocabulary, coverage)) if tally.vocabulary and tally.done else (),
        errors=dict(tally.errors.most_common()),
        given_up=tuple(tally.given_up),
        versions={**versions(KINDS.find(request.kind).packages), **installed_versions(request)},
    )
