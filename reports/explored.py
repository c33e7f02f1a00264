"""Exploration of a nightly run as view data: the failures, and a heat map of locks and families of faults."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from harness.documents.exploration import Exploration, ExploredFailure, ExploredPair
from harness.wording import counted

LEVELS: Final = 4
"""Number of shades of an explored cell: each stands for about four times as many schedules as the one before."""
STATES: Final = ("new", "gone", "error", "known")


@dataclass(frozen=True, slots=True)
class CellView:
    """A lock under a family of faults: ``level`` is 0 without a judged schedule, up to :data:`LEVELS`, -1 if the family
    cannot strike the lock. ``sign`` is what the cell shows, ``text`` what it means."""

    level: int
    sign: str
    text: str
    failing: bool = False


@dataclass(frozen=True, slots=True)
class FailureView:
    """A failure that exploration found, in this night or an earlier one."""

    name: str
    state: str
    summary: str
    mechanism: str
    why: str
    lines: tuple[str, ...]
    folder: str

    @property
    def judgement(self) -> str:
        return "invalid" if self.state == "new" else "unknown"


@dataclass(frozen=True, slots=True)
class ExplorationView:
    """An exploration; ``rows`` are locks with a cell for each of ``faults``."""

    share: str
    pairs: int
    visits: int
    schedules: int
    seconds: float
    seed: str
    interrupted: bool
    failures: tuple[FailureView, ...]
    faults: tuple[str, ...]
    rows: tuple[tuple[str, tuple[CellView, ...]], ...]

    @property
    def new(self) -> int:
        """Return the number of failures that no earlier night had found."""
        return sum(one.state == "new" for one in self.failures)


def read(exploration: Exploration) -> ExplorationView:
    """Return the view of an exploration."""
    faults = tuple(sorted({pair.fault for pair in exploration.pairs}))
    by_pair = {(pair.lock, pair.fault): pair for pair in exploration.pairs}
    locks = dict.fromkeys(pair.lock for pair in exploration.pairs)
    failures = sorted(exploration.failures, key=lambda one: (STATES.index(one.state), one.name))
    return ExplorationView(
        share=f"{exploration.share:.0%}",
        pairs=len(exploration.pairs),
        visits=len(exploration.visits),
        schedules=sum(one.schedules for one in exploration.visits),
        seconds=exploration.seconds,
        seed=str(exploration.seed),
        interrupted=exploration.interrupted,
        failures=tuple(map(_failure, failures)),
        faults=faults,
        rows=tuple((lock, tuple(_cell(by_pair.get((lock, fault)), lock, fault) for fault in faults)) for lock in locks),
    )


def _failure(failure: ExploredFailure) -> FailureView:
    return FailureView(
        name=failure.name,
        state=failure.state,
        summary=failure.summary,
        mechanism=failure.reason,
        why="" if failure.state == "new" else failure.why,
        lines=failure.lines,
        folder=failure.folder or "",
    )


def _cell(pair: ExploredPair | None, lock: str, fault: str) -> CellView:
    where = f"{lock} under {fault}"
    if pair is None:
        return CellView(-1, "", f"{where}: this fault cannot strike it")
    if pair.failures:
        return CellView(LEVELS, str(pair.failures), f"{where}: {counted(pair.failures, 'failure')}", failing=True)
    if pair.bound is None:
        return CellView(0, "", f"{where}: not explored")
    judged = counted(pair.judged, "schedule")
    text = f"{where}: no failure in {judged}; with 95 % confidence fewer than {pair.bound:.1%} of them fail"
    return CellView(min(LEVELS, 1 + int(math.log(pair.judged, 4) / 2 + 0.5)), "", text)
