"""What a report measures in a run, from its history: how long calls took, when the lock was to be had, recoveries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from checkers import availability
from checkers.availability import Recovery, Served
from checkers.view import CODES, INVOKE, NONE, View, view
from harness.history import SECOND, TYPES, History, OpType
from reports import words

Floats = NDArray[np.float64]
QUANTILES: Final = (0.5, 0.95, 0.99)
OUTCOMES: Final[tuple[OpType, ...]] = ("ok", "fail", "info")
NAMES: Final = {0.5: "median", 0.95: "95 % within", 0.99: "99 % within"}


@dataclass(frozen=True, slots=True)
class Timed:
    """Calls of one outcome that came back: when (s since the start) and after how long (s)."""

    done: Floats
    took: Floats

    def __len__(self) -> int:
        return len(self.done)

    def quantile(self, share: float) -> int | None:
        """ns; None without calls."""
        return round(float(np.quantile(self.took, share)) * SECOND) if len(self) else None


@dataclass(frozen=True, slots=True)
class Operation:
    """All calls of one kind, by outcome; ``open`` counts those that never came back, which have no latency."""

    f: str
    ok: Timed
    fail: Timed
    info: Timed
    open: int

    def outcome(self, name: str) -> Timed:
        return {"ok": self.ok, "fail": self.fail, "info": self.info}[name]

    def __len__(self) -> int:
        """How many calls have a latency."""
        return len(self.ok) + len(self.fail) + len(self.info)


@dataclass(frozen=True, slots=True)
class Figure:
    """A number that sums up the run, for its head: ``note`` says what it is of."""

    name: str
    value: str
    note: str


@dataclass(frozen=True, slots=True)
class Measures:
    """``seconds``: how long the run was; ``ttl``, s, if it is stated; ``keys`` and ``recoveries`` are empty where
    there is nothing to say of them."""

    origin: int
    seconds: float
    ttl: float | None
    operations: tuple[Operation, ...]
    keys: tuple[Served, ...]
    recoveries: tuple[Recovery, ...]

    @property
    def acquire(self) -> Operation | None:
        return next((one for one in self.operations if one.f == "acquire"), None)


def measure(history: History) -> Measures:
    """All of it. Raises HistoryError for a history in which somebody got an answer without a call."""
    columns = view(history)
    stretches = availability.stretches_of(history)
    return Measures(
        origin=columns.origin,
        seconds=max(1e-3, (columns.end - columns.origin) / SECOND) if len(history) else 1.0,
        ttl=columns.settings.get("ttl"),
        operations=tuple(one for f in CODES if (one := _operation(columns, f)) is not None),
        keys=tuple(availability.served(stretches)) if stretches else (),
        recoveries=tuple(availability.recoveries(stretches)) if stretches else (),
    )


def _operation(columns: View, f: str) -> Operation | None:
    """None if the run has no such call. Calls are in the order of their completions."""
    asked = columns.rows(CODES[f], INVOKE)
    if not len(asked):
        return None
    back = asked[columns.done[asked] != NONE]
    back = back[np.argsort(columns.done[back], kind="stable")]
    done = columns.done[back]
    when = (columns.time[done] - columns.origin) / SECOND
    took = (columns.time[done] - columns.time[back]) / SECOND
    kinds = (columns.type[done] == TYPES.index(outcome) for outcome in OUTCOMES)
    ok, fail, info = (Timed(when[kind], took[kind]) for kind in kinds)
    return Operation(f, ok, fail, info, open=len(asked) - len(back))


def figures(run: Measures) -> list[Figure]:
    """The few numbers that matter; only those that this run has."""
    acquire = run.acquire
    if acquire is None:
        return []
    granted, seconds = len(acquire.ok), words.span(round(run.seconds * SECOND))
    found = [Figure("Granted a second", f"{granted / run.seconds:,.3g}", f"{granted:,} in {seconds}")]
    if granted:
        middle = f"half of them within {words.span(acquire.ok.quantile(0.5))}"
        found.append(Figure("Acquire, 99 % within", words.span(acquire.ok.quantile(0.99)), middle))
    if (share := availability.share(run.keys)) is not None:
        found.append(Figure("Available", words.percent(share), "of the quarter seconds in which somebody wanted it"))
    if (gap := availability.longest_gap(run.keys)) is not None:
        since = f"wanted, and nobody had it, from {words.at(gap[0], run.origin)}"
        found.append(Figure("Longest gap", words.span(gap[1] - gap[0]), since))
    return found
