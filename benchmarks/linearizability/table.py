"""Write the measurements as a table (Markdown, CSV), and judge them against the goals."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import Final

from benchmarks.linearizability.cases import LONGEST, PLANTED, QUICK_LOCK, QUICK_REGISTER, USUAL, Case
from benchmarks.linearizability.measure import NOT_RUN, Measured

MB: Final = 1e6
HEADS: Final = (
    "model", "calls", "clients", "crashed", "unknown", "history", "read s", "verdict s", "check s", "total s", "wall s",
    "peak MB", "verdict", "Porcupine s", "its wall s", "its peak MB", "its verdict", "times as long",
)  # fmt: skip
WORDS: Final = {True: "wrong", False: "right"}


@dataclass(frozen=True, slots=True)
class Row:
    """``theirs`` is None where there is no Porcupine, or where it cannot read the file."""

    case: Case
    ours: Measured
    theirs: Measured | None = None

    @property
    def ratio(self) -> float | None:
        """How many times as long Porcupine takes for the verdict; at least, if it was given up. None if either was not
        run."""
        if self.theirs is None or not (self.theirs.decide > 0 and self.ours.decide > 0):
            return None
        return self.theirs.decide / self.ours.decide

    @property
    def contradictions(self) -> list[str]:
        """Verdicts that are not what the history was made for."""
        expected = "Illegal" if self.case.shape.wrong else "Ok"
        programs = {"ours": self.ours, "Porcupine": self.theirs}
        return [
            f"{self.case.name}: {name} says {program.verdict}, expected {expected}"
            for name, program in programs.items()
            if program is not None and program.decided and program.verdict != expected
        ]


def cells(row: Row) -> list[str]:
    """A row of the table, in the order of :data:`HEADS`."""
    shape, ours, theirs = row.case.shape, row.ours, row.theirs
    calls = f"{ours.calls:,}" if ours.calls else "-"
    history = WORDS[shape.wrong] + (", .edn" if row.case.suffix == ".edn" else "")
    here = [
        _seconds(ours.read),
        _seconds(ours.decide),
        _seconds(ours.seconds),
        _seconds(ours.total),
        _seconds(ours.wall),
    ]
    here += [_megabytes(ours.peak), ours.verdict]
    there = ["", "", "", "", ""]
    if theirs is not None:
        given_up = "> " if theirs.verdict == "Unknown" else ""
        ratio = "" if row.ratio is None else f"{given_up}{row.ratio:,.{0 if row.ratio >= 10 else 1}f}"
        there = [given_up + _seconds(theirs.seconds), _seconds(theirs.wall), _megabytes(theirs.peak), theirs.verdict]
        there.append(ratio)
    return [
        row.case.model,
        calls,
        str(shape.clients),
        str(shape.crashed),
        _count(shape.unknown),
        history,
        *here,
        *there,
    ]


def _count(number: int | None) -> str:
    return "" if number is None else str(number)


def _seconds(seconds: float) -> str:
    return "" if seconds != seconds else f"{seconds:.2f}" if seconds >= 1 else f"{seconds:.5f}"  # noqa: PLR0124 - NaN


def _megabytes(size: int) -> str:
    return f"{size / MB:,.0f}" if size else ""


def markdown(rows: Sequence[Row]) -> str:
    """The table for people."""
    lines = [HEADS, tuple("---" if n in (0, 5, 12, 16) else "--:" for n in range(len(HEADS))), *map(cells, rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def as_csv(rows: Sequence[Row]) -> str:
    """The table for programs: the same columns, numbers in full."""
    file = StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(HEADS)
    for row in rows:
        shape, ours, theirs = row.case.shape, row.ours, row.theirs or Measured(NOT_RUN)
        history = WORDS[shape.wrong] + row.case.suffix
        what = [row.case.model, ours.calls, shape.clients, shape.crashed, shape.unknown, history]
        here = [ours.read, ours.decide, ours.seconds, ours.total, ours.wall, ours.peak / MB, ours.verdict]
        there = [theirs.seconds, theirs.wall, theirs.peak / MB, theirs.verdict, row.ratio]
        writer.writerow([*what, *here, *there])
    return file.getvalue()


@dataclass(frozen=True, slots=True)
class Goal:
    """The worst of some rows. ``met`` is None where none of them was measured."""

    what: str
    found: str
    met: bool | None

    def __str__(self) -> str:
        mark = {True: "met", False: "MISSED", None: "not measured"}[self.met]
        return f"{self.what:<88} {self.found:>16}  {mark}"


def goals(rows: Sequence[Row]) -> list[Goal]:
    """Goals of the project, in seconds of one core."""
    going_on = [row for row in rows if row.case.shape.going_on]
    locks = [row for row in rows if row.case.shape.workload == "lock" and not row.case.shape.going_on]
    hundred = [row for row in locks if row.case.shape.operations == QUICK_LOCK[-1] and row.case.suffix == ".jsonl"]
    longest = [row for row in locks if row.case.shape.operations == LONGEST]
    edn = [row for row in rows if row.case.suffix == ".edn"]
    usual = [row for row in hundred if row.case.shape.clients == USUAL]
    planted = [row for row in locks if row.case.shape.crashed == PLANTED and row.case.shape.wrong]
    cas = [
        row
        for row in rows
        if row.case.model == "cas-register" and row.case.shape.operations in QUICK_REGISTER and row.ratio is not None
    ]
    return [
        _least("100,000 lock calls, .jsonl, reading and checking", hundred, lambda row: row.ours.total, 0.2),
        _least("10 million lock calls, .jsonl, reading and checking", longest, lambda row: row.ours.total, 30.0),
        _least("100,000 calls, .edn, reading and checking", edn, lambda row: row.ours.total, 1.0),
        _least("double hold among 1,000 calls, 15 crashed clients", planted, lambda row: row.ours.seconds, 0.1),
        _least("clients that go on after unknown outcomes: the verdict", going_on, lambda row: row.ours.decide, 10),
        _most("100,000 lock calls, 20 clients: Porcupine's verdict takes, times ours", usual, 1000.0),
        _least("100 to 1,000 calls of a cas-register: our verdict, times Porcupine's", cas, _times, 3.0, unit=""),
    ]


def _times(row: Row) -> float:
    return 1 / (row.ratio or float("inf"))


def _least(what: str, rows: Sequence[Row], of: Callable[[Row], float], limit: float, unit: str = " s") -> Goal:
    whole = f"{what} (at most {limit:g}{unit})"
    if not rows:
        return Goal(whole, "", None)
    worst = max(rows, key=of)
    return Goal(whole, f"{of(worst):.4g}{unit}", of(worst) <= limit and all(row.ours.decided for row in rows))


def _most(what: str, rows: Sequence[Row], limit: float) -> Goal:
    whole = f"{what} (at least {limit:,g})"
    ratios = [row.ratio for row in rows if row.ratio is not None]
    return Goal(whole, f"{min(ratios):,.0f}", min(ratios) >= limit) if ratios else Goal(whole, "", None)
