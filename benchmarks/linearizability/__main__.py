"""Ours beside Porcupine, on the same histories: ``python -m benchmarks.linearizability [--quick] [--out DIR]``.

Each history is made into a file, read and checked by either program in a process of its own on one core, and removed.
A table of all, then the goals; with ``--out`` also as Markdown and CSV, with a picture. Seconds are those of the
processor, unless they are said to be of the wall; ``verdict`` is the answer alone, which is what Porcupine gives,
``check`` and ``total`` (with reading) also explain what is wrong. The exit status is 1 if one of the programs said of
a history what it was not made for, and with ``--strict`` also if a goal is missed.

Porcupine needs Go, and its module from where Go gets modules; without them only ours is measured. It checks a key on
one core; what it does with two is measured on one history and told.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Final

from benchmarks.linearizability import cases, generate, plot, table
from benchmarks.linearizability.cases import Case
from benchmarks.linearizability.generate import Shape
from benchmarks.linearizability.measure import NOT_RUN, Measured, Ours, Porcupine
from benchmarks.linearizability.table import Row

SECONDS: Final = 60.0
QUICK_SECONDS: Final = 10.0
NAME: Final = "linearizability"
WARM: Final = 200


class Bench:
    """``porcupine`` is None where it cannot be had."""

    def __init__(self, folder: Path, seconds: float, porcupine: Porcupine | None) -> None:
        self.folder, self.seconds, self.porcupine = folder, seconds, porcupine
        self._ours = Ours(seconds, self._warm)
        self._last: dict[Case, Row] = {}

    def file(self, case: Case) -> Path:
        """The history of ``case``; made if it is not there."""
        path = self.folder / f"{case.shape.name}{case.suffix}"
        if not path.exists():
            generate.write(generate.make(case.shape), path, case.shape.going_on)
        return path

    def _warm(self, case: Case) -> Path:
        """A small one like it, with everything in it that it may have."""
        crashed = min(5, case.shape.crashed)
        unknown = None if case.shape.unknown is None else min(5, case.shape.unknown)
        small = replace(case.shape, operations=WARM, crashed=crashed, unknown=unknown, seed=1)
        return self.file(replace(case, shape=small))

    def run(self, case: Case) -> Row:
        """Measure one history, where that is worth it: a program that gave up on a shorter one of its series is not
        asked again, nor is one that would take too long even if its time grew by no more than the history's length."""
        last = self._last.get(case.series)
        path = self.file(case)
        worth = last is None or self._worth(case, last, last.ours)
        ours = self._ours.measure(path, case) if worth else Measured(NOT_RUN)
        theirs = None
        if self.porcupine is not None and case.shared:
            worth = last is None or last.theirs is None or self._worth(case, last, last.theirs)
            theirs = self.porcupine.measure(path, case.model) if worth else Measured(NOT_RUN)
        row = Row(case, ours, theirs)
        self._last[case.series] = row
        return row

    def _worth(self, case: Case, last: Row, then: Measured) -> bool:
        return then.decided and then.decide * case.shape.operations / last.case.shape.operations < self.seconds


def measured(bench: Bench, wanted: list[Case]) -> list[Row]:
    """Each case, with a line as soon as it is done; a history that no other case needs is removed. Ctrl-C ends it with
    what there is."""
    rows: list[Row] = []
    print(f"| {' | '.join(table.HEADS)} |", flush=True)
    for number, case in enumerate(wanted):
        try:
            row = bench.run(case)
        except KeyboardInterrupt:
            break
        rows.append(row)
        print(f"| {' | '.join(table.cells(row))} |", flush=True)
        if not any((later.shape, later.suffix) == (case.shape, case.suffix) for later in wanted[number + 1 :]):
            bench.file(case).unlink()
    return rows


def two_cores(bench: Bench) -> str:
    """Return a sentence about Porcupine with a second core."""
    case = Case(Shape("lock", 30_000, cases.USUAL, 10), "owner-mutex")
    path = bench.file(case)
    if bench.porcupine is None:
        return ""
    one, two = (bench.porcupine.measure(path, case.model, cores).wall for cores in (1, 2))
    return f"Porcupine on one core {one:.2f} s, on two {two:.2f} s on the wall (30,000 lock calls, 20 clients)"


def _is_wanted(case: Case, only: list[str], longest: int) -> bool:
    named = not only or any(part in case.name for part in only)
    return named and case.shape.operations <= longest


def main() -> int:
    """Print the table and the goals."""
    parser = argparse.ArgumentParser(description="How quick checks of linearizability are.")
    parser.add_argument("--quick", action="store_true", help="some of the histories, in less than a minute")
    parser.add_argument("--unknown", action="store_true", help="locks whose clients go on after unknown outcomes")
    parser.add_argument("--out", type=Path, help="a folder for the table (.md, .csv) and the picture (.svg, .png)")
    parser.add_argument(
        "--seconds",
        type=float,
        default=0.0,
        help=f"time for one check, else {SECONDS:g}, or {QUICK_SECONDS:g} if quick",
    )
    parser.add_argument("--strict", action="store_true", help="fail if a goal is missed")
    parser.add_argument(
        "--only", action="append", default=[], help="only cases whose name has this, or one of these, in it"
    )
    parser.add_argument("--longest", type=int, default=cases.LONGEST, help="no history of more calls")
    asked = parser.parse_args()
    some = cases.unknown() if asked.unknown else cases.quick() if asked.quick else cases.full()
    wanted = [case for case in some if _is_wanted(case, asked.only, asked.longest)]
    seconds = asked.seconds or (QUICK_SECONDS if asked.quick else SECONDS)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        porcupine = None
        try:
            porcupine = Porcupine(seconds, folder)
        except RuntimeError as error:
            print(f"Porcupine is left out: {error}", file=sys.stderr)
        bench = Bench(folder, seconds, porcupine)
        rows = measured(bench, wanted)
        notes = [two_cores(bench)] if porcupine is not None and not asked.quick else []
    if porcupine is not None:
        notes.append(f"{porcupine.version}; > : given up after {seconds:g} s")
    notes.append(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the end")
    reached = table.goals(rows)
    wrong = [line for row in rows for line in row.contradictions]
    said = "\n".join(["", *map(str, reached), "", *notes, *wrong])
    print(said)
    if asked.out is not None:
        asked.out.mkdir(parents=True, exist_ok=True)
        (asked.out / f"{NAME}.md").write_text(f"{table.markdown(rows)}\n```\n{said.strip()}\n```\n", encoding="utf-8")
        (asked.out / f"{NAME}.csv").write_text(table.as_csv(rows), encoding="utf-8")
        plot.draw(rows, asked.out, NAME)
    return int(bool(wrong) or (asked.strict and any(goal.met is False for goal in reached)))


if __name__ == "__main__":
    sys.exit(main())
