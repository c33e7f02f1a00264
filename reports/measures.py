"""Measure a run from its history: latency of calls, availability of the lock, and times to recover from faults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from harness.checkers import availability
from harness.checkers.availability import Recovery, Served
from harness.checkers.view import CODES, INVOKE, NONE, View, view
from harness.history import SECOND, TYPES, History, OpType

from . import words

Floats = NDArray[np.float64]
QUANTILES: Final = (0.5, 0.95, 0.99)
OUTCOMES: Final[tuple[OpType, ...]] = ("ok", "fail", "info")
NAMES: Final = {0.5: "median", 0.95: "95 % within", 0.99: "99 % within"}


@dataclass(frozen=True, slots=True)
class Timed:
    """Calls of one outcome that returned: when (s since the start) and after how long (s)."""

    done: Floats
    took: Floats

    def __len__(self) -> int:
        return len(self.done)

    def quantile(self, share: float) -> int | None:
        """Return a quantile in ns; None without calls."""
        return round(float(np.quantile(self.took, share)) * SECOND) if len(self) else None


@dataclass(frozen=True, slots=True)
class TimedOperation:
    """All calls of one kind, by outcome; ``open`` counts those that never returned, which have no latency."""

    f: str
    ok: Timed
    fail: Timed
    info: Timed
    open: int

    def outcome(self, name: str) -> Timed:
        return {"ok": self.ok, "fail": self.fail, "info": self.info}[name]

    def __len__(self) -> int:
        """Return the number of calls with a latency."""
        return len(self.ok) + len(self.fail) + len(self.info)


@dataclass(frozen=True, slots=True)
class KeyFigure:
    """A number that characterises the run, for the head of its page; ``note`` says what it measures."""

    name: str
    value: str
    note: str


@dataclass(frozen=True, slots=True)
class Measures:
    """The measures of a run.

    ``seconds`` is the length of the run, ``ttl`` (s) the lease if it is stated. ``keys`` and ``recoveries`` are empty
    if they cannot be measured.
    """

    origin: int
    seconds: float
    ttl: float | None
    operations: tuple[TimedOperation, ...]
    keys: tuple[Served, ...]
    recoveries: tuple[Recovery, ...]

    @property
    def acquire(self) -> TimedOperation | None:
        return next((one for one in self.operations if one.f == "acquire"), None)


def measure(history: History) -> Measures:
    """Measure a run. Raises HistoryError for a history with a completion that has no invocation."""
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


def _operation(columns: View, f: str) -> TimedOperation | None:
    """Return the timed calls in the order of their completions; None if the run has no such call."""
    invocations = columns.rows(CODES[f], INVOKE)
    if not len(invocations):
        return None
    back = invocations[columns.done[invocations] != NONE]
    back = back[np.argsort(columns.done[back], kind="stable")]
    done = columns.done[back]
    when = (columns.time[done] - columns.origin) / SECOND
    took = (columns.time[done] - columns.time[back]) / SECOND
    kinds = (columns.type[done] == TYPES.index(outcome) for outcome in OUTCOMES)
    ok, fail, info = (Timed(when[kind], took[kind]) for kind in kinds)
    return TimedOperation(f, ok, fail, info, open=len(invocations) - len(back))


def figures(run: Measures, *, virtual: bool = False) -> list[KeyFigure]:
    """Return the few most important numbers that this run has. Names say whether their times are ``virtual``."""
    acquire = run.acquire
    if acquire is None:
        return []
    mark = " (virtual)" * virtual
    granted, seconds = len(acquire.ok), words.span(round(run.seconds * SECOND))
    second = "virtual second" if virtual else "second"
    found = [KeyFigure(f"Granted a {second}", f"{granted / run.seconds:,.3g}", f"{granted:,} in {seconds}")]
    if granted:
        middle = f"half of them within {words.span(acquire.ok.quantile(0.5))}"
        found.append(KeyFigure(f"Acquire, 99 % within{mark}", words.span(acquire.ok.quantile(0.99)), middle))
    if (share := availability.share(run.keys)) is not None:
        found.append(KeyFigure("Available", words.percent(share), "of the quarter seconds in which a client wanted it"))
    if (gap := availability.longest_gap(run.keys)) is not None:
        since = f"wanted but not granted, from {words.at(gap[0], run.origin)}"
        found.append(KeyFigure(f"Longest gap{mark}", words.span(gap[1] - gap[0]), since))
    return found
