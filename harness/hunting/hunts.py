"""Hunts: a search of the simulator's schedules for one in which a lock fails, made small enough to be told.

    from harness import hunt
    print(hunt("redlock", faults=("clock-jump",), budget_s=30))

A hunt is rounds (:mod:`harness.hunting.rounds`), one after the other or many at once, until one of them fails, or time
or their number is up. Rounds are seeds: the same number of them finds the same, wherever they are played.
"""

from __future__ import annotations

import contextlib
import itertools
import signal
import threading
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

from ..clusters.kinds import KINDS
from ..errors import UNKNOWN, VALID, VIOLATION, HarnessError, UsageError
from ..lanes import terminable
from ..plan import dump
from ..progress import Progress
from ..runs import versions
from ..store import new_hunt, writable, write_results
from .asked import Asked, names, spec_of
from .coverage import Coverage, merged, never, summary
from .executors import GivenUp, opened, shared
from .findings import Finding, finding, remember, remembered
from .rounds import Failure, Round, Searched, search
from .telling import told
from .trials import play
from .vocabulary import Vocabulary, learnt

SCHEMA: Final = 1
DOCUMENT: Final = "hunt.json"
BUDGET: Final = 60.0
"""Seconds of search, if nothing is said."""


class LockFails(AssertionError):
    """A hunt found a failure; the message is its story."""


@dataclass(frozen=True, slots=True)
class Hunted:
    """What a hunt came to. ``document`` is ``hunt.json`` of its folder, which is None if nothing is stored."""

    asked: Asked
    findings: tuple[Finding, ...]
    document: dict[str, Any]
    folder: Path | None

    @property
    def exit_status(self) -> int:
        """1: a failure was found · 0: none was · 3: the search was cut short, or no schedule could be judged."""
        if self.findings:
            return VIOLATION
        return UNKNOWN if self.document["interrupted"] or not self.document["judged"] else VALID

    def __str__(self) -> str:
        return "\n".join(told(self.document))

    def check(self) -> Hunted:
        """The same, or :class:`LockFails` with the story of what was found."""
        if self.findings:
            raise LockFails(str(self))
        return self


@dataclass(slots=True)
class _Tally:
    """What the rounds have come to so far. ``failures`` are by round; 0 is what was known before."""

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
    failures: list[tuple[int, Failure]] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)
    given_up: list[str] = field(default_factory=list)
    vocabulary: Vocabulary | None = None
    interrupted: bool = False

    @contextlib.contextmanager
    def interruptible(self, *, between_schedules: bool) -> Iterator[None]:
        """Where schedules are played in this process, the first interrupt waits for the end of one: raised within a
        simulation it could land in code of the lock that takes it for its own, or in a destructor, and be lost."""
        if not between_schedules or threading.current_thread() is not threading.main_thread():
            yield
            return

        def handler(*_: Any) -> None:
            if self.interrupted:
                raise KeyboardInterrupt
            self.interrupted = True

        before = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, old in before.items():
                signal.signal(number, old)

    def heed(self) -> None:
        """The interrupt that has waited until now."""
        if self.interrupted:
            raise KeyboardInterrupt

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    def over(self) -> bool:
        return self.rounds is None and self.seconds >= self.budget

    def add(self, searched: Searched) -> None:
        self.done += 1
        self.schedules += searched.schedules
        self.judged += searched.judged
        self.best = max(self.best, searched.best)
        self.seen.append(searched.coverage)
        self.states |= searched.coverage.states
        self.errors.update(searched.errors)
        self.failures += [(searched.number, failure) for failure in searched.failures]
        self.tell(0, len(self.states), self.best)

    def tell(self, tried: int, states: int, best: float) -> None:
        """``tried`` are those of a round under way."""
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
    lock: str | type | Asked,
    *,
    faults: str | Sequence[str] = (),
    budget_s: float = BUDGET,
    rounds: int | None = None,
    seed: int = 0,
    workers: int = 1,
    scheduler: str | None = None,
    keep_going: bool = False,
    fresh: bool = False,
    store: Path | None = None,
    command: str = "",
    progress: Progress | None = None,
) -> Hunted:
    """Hunt a lock: a name, ``package.module:Class``, the class itself, or an :class:`Asked` with all there is to ask
    for (then ``faults`` and ``seed`` are its own).

    Searches for ``budget_s`` seconds, or so many ``rounds``, and stops at the first round with a failure unless it is
    to ``keep_going``. ``workers`` processes of this machine, or those of a Dask ``scheduler`` (``tcp://...``), play
    rounds. With a ``store`` failures are kept there, and those of earlier hunts are tried first unless it begins
    ``fresh``. Raises UsageError for what cannot be hunted.
    """
    asked = lock if isinstance(lock, Asked) else Asked(lock=spec_of(lock), faults=names(faults), seed=seed)
    asked = with_(asked, thorough=asked.thorough or keep_going).completed()
    _check(budget_s, rounds, workers)
    if store is not None:
        writable(store)
    started = datetime.now(UTC)
    tally = _Tally(time.monotonic(), budget_s, rounds, progress or (lambda _fraction, _text: None))
    tally.progress(0.0, "starting: what the lock's clients do when nothing goes wrong")
    interrupted = False
    try:
        with terminable():
            _search(asked, tally, workers, scheduler, None if fresh else store, keep_going=keep_going)
    except KeyboardInterrupt:
        interrupted = True
    seconds = tally.seconds
    with tally.interruptible(between_schedules=True):  # what was found is written all the same
        findings = tuple(_findings(tally, command or f"harness hunt {asked.lock}", store, keep_going=keep_going))
    document = {
        **_document(asked, tally, findings, seconds),
        "interrupted": interrupted,
        "command": command,
        "started_at": f"{started:%Y-%m-%dT%H:%M:%SZ}",
    }
    folder = None if store is None else new_hunt(store, asked.lock, started)
    document["folder"] = None if folder is None else str(folder)
    if folder is not None:
        _keep(document, folder)
    return Hunted(asked, findings, document, folder)


def _keep(document: dict[str, Any], folder: Path) -> None:
    from reports import hunt_report

    write_results(folder, document, DOCUMENT)
    hunt_report.write(folder)


def _check(budget_s: float, rounds: int | None, workers: int) -> None:
    if not budget_s > 0:
        raise UsageError(f"budget must be more than 0 seconds, got {budget_s:g}")
    if rounds is not None and rounds < 1:
        raise UsageError(f"rounds must be at least 1, got {rounds}")
    if workers < 1:
        raise UsageError(f"workers must be at least 1, got {workers}")


def _search(
    asked: Asked, tally: _Tally, workers: int, scheduler: str | None, store: Path | None, *, keep_going: bool
) -> None:
    with tally.interruptible(between_schedules=True):
        if store is not None:
            tally.failures += [(0, failure) for failure in _known(asked, store)]
            if tally.failures and not keep_going:
                return
        tally.vocabulary = vocabulary = learnt(asked)
    tally.heed()
    numbers = itertools.count(1) if tally.rounds is None else iter(range(1, tally.rounds + 1))
    jobs = (
        Round(asked=asked, number=number, vocabulary=vocabulary)
        for number in itertools.takewhile(lambda _: not tally.over(), numbers)
    )
    with opened(workers, scheduler) as pool, tally.interruptible(between_schedules=pool is None):
        work: Callable[[Round], Searched] = search if pool is not None else partial(search, told=tally.tell)
        with contextlib.closing(shared(jobs, work, pool)) as results:
            for job, searched in results:
                if isinstance(searched, GivenUp):
                    tally.given_up.append(f"round {job.number}: {searched.why}")
                    continue
                tally.add(searched)
                if tally.failures and not keep_going:
                    return


def _known(asked: Asked, store: Path) -> Iterator[Failure]:
    """What has failed before and still does."""
    for plan in remembered(asked, store):
        with contextlib.suppress(HarnessError):
            broken = play(plan).broken(asked.look_for)
            if broken:
                yield Failure(plan=plan, checker=broken[0], broken=broken, schedule=0, shrinks=0)


def _findings(tally: _Tally, command: str, store: Path | None, *, keep_going: bool) -> Iterator[Finding]:
    """One of each kind, the smallest, in the order in which the kinds were found first."""
    kinds: dict[Any, tuple[int, Failure]] = {}
    for number, failure in tally.failures:
        faults = tuple(sorted({spec.fault for spec in failure.plan.faults}))
        kind = (failure.checker, faults, failure.plan.workload)
        if kind not in kinds or _size(failure) < _size(kinds[kind][1]):
            kinds[kind] = number, failure
    for number, failure in kinds.values() if keep_going else itertools.islice(kinds.values(), 1):
        tally.progress(1.0, "writing: the story, and whether each of its steps is needed")
        found = finding(failure, command=command, round_=number, store=store)
        if store is not None:
            remember(found, store)
        yield found


def _size(failure: Failure) -> tuple[int, int, int, str]:
    plan = failure.plan
    text = dump(plan)
    return len(plan.faults), plan.clients, len(text), text


def _document(asked: Asked, tally: _Tally, findings: Sequence[Finding], seconds: float) -> dict[str, Any]:
    coverage = merged(tally.seen)
    return {
        "schema": SCHEMA,
        "lock": asked.lock,
        "asked": msgspec.to_builtins(asked),
        "found": bool(findings),
        "findings": [found.to_json() for found in findings],
        "rounds": tally.done,
        "schedules": tally.schedules,
        "judged": tally.judged + (1 if any(number == 0 for number, _ in tally.failures) else 0),
        "seconds": round(seconds, 3),
        "best": tally.best,
        "coverage": summary(coverage),
        "moments": sorted(coverage.moments),
        "pairs": sorted(coverage.pairs),
        "never": never(asked, tally.vocabulary, coverage) if tally.vocabulary and tally.done else [],
        "errors": dict(tally.errors.most_common()),
        "given_up": tally.given_up,
        "versions": versions(KINDS[asked.kind].family),
    }
