"""What a run prints when it is over."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
from rich.console import Console
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from checkers.base import Verdict

from .errors import VALID, VIOLATION
from .runs import Result
from .store import REPORT

WORDS: Final = {True: ("VALID", "green"), False: ("VIOLATION", "red"), None: ("UNKNOWN", "yellow")}
SIGNS: Final = {True: "✓", False: "✗", None: "?"}
LABELS: Final = {"violated": "bold red", "unknown": "bold yellow", "cut short": "bold yellow", "holds": "green"}
"""How the labels look that say what to make of a run; the others are dim."""
WIDEST: Final = 100
"""Columns of a panel: lines that are longer are hard to read."""
WIDE: Final = 160
"""Columns of a table where nobody looks at a terminal."""
Row = tuple[str, Sequence[str]]
"""A label, and the lines beside it."""


def print_document(document: Any) -> None:
    """The document of a command as one line of JSON, and nothing else."""
    sys.stdout.write(msgspec.json.encode(document).decode() + "\n")


def print_word(valid: bool | None) -> None:
    """The verdict, for those who want to know nothing else."""
    word, colour = WORDS[valid]
    Console(highlight=False, emoji=False).print(word, style=colour)


def print_status(status: int) -> None:
    """The same of a command that ends with this exit status."""
    print_word({VALID: True, VIOLATION: False}.get(status))


def print_result(result: Result, *, json: bool, quiet: bool) -> None:
    """The verdict of one run, as JSON, a word, or all that there is to be said in half a screen."""
    if json:
        print_document(result.document)
        return
    if quiet:
        print_word(result.valid)
        return
    console = Console(highlight=False, emoji=False)
    print_verdict(console, result.plan.lock, result.valid, result.document["summary"], list(_rows(result)))
    # Not in the panel: a path or a command that is broken over two lines cannot be copied.
    for label, text in _links(result):
        console.print(f"{label}: {text}", soft_wrap=True, markup=False)


def print_verdict(console: Console, title: str, valid: bool | None, story: str, rows: Sequence[Row]) -> None:
    """A panel; where nobody looks at it, plain lines, one for each thing that is said."""
    word, colour = WORDS[valid]
    if not console.is_terminal:
        told = [f"{label}: {line}" for label, lines in rows for line in lines]
        console.print("\n".join([f"{word}: {title}", story, *told]), soft_wrap=True, markup=False)
        return
    sign = "" if console.options.ascii_only else f"{SIGNS[valid]} "
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for label, lines in rows:
        table.add_row(Text(label, LABELS.get(label, "dim")), Text("\n".join(lines)))
    body = Table.grid()
    body.add_row(Text(story))
    body.add_row(Padding(table, (1, 0, 0, 0)))
    heading = Text(f"{sign}{word}: {title}", f"bold {colour}")
    console.print(Panel(body, title=heading, title_align="left", border_style=colour, width=min(console.width, WIDEST)))


def _rows(result: Result) -> Iterator[Row]:
    verdicts, document = result.verdicts, result.document
    summary = document["summary"]
    if result.interrupted:
        yield "cut short", [f"interrupted after {document['stats']['seconds']:.1f} of {result.plan.time_limit:g} s"]
    invalid = [_found(name, v, result.history.origin, summary) for name, v in verdicts.items() if v.valid is False]
    if invalid:
        yield "violated", invalid
    for label, names in _others(verdicts).items():
        yield label, [", ".join(names)]
    yield "faults", list(_faults(document["faults"])) or ["none were asked for"]
    yield "figures", [_figures(result)]


def _found(name: str, verdict: Verdict, origin: int, summary: str) -> str:
    """What a checker found, how often and when; in its own words unless the story has used them."""
    first = verdict.evidence[0]
    times = verdict.stats.get("violations", len(verdict.evidence))
    counted = "once" if times == 1 else f"{times} times"
    told = f"{name} {counted}, first at {(first.from_ns - origin) / 1e9:.3f} s"
    return told if first.sentence[1:] in summary else f"{told}: {first.sentence}"


def _others(verdicts: Mapping[str, Verdict]) -> dict[str, list[str]]:
    """The checkers that found nothing, by what that means."""
    found: dict[str, list[str]] = {}
    for name, verdict in verdicts.items():
        if verdict.valid is not False:
            found.setdefault(_meaning(verdict), []).append(name)
    return found


def _meaning(verdict: Verdict) -> str:
    if verdict.valid is None:
        return "unknown"
    return "not applicable" if verdict.explanation.startswith("not applicable") else "holds"


def _faults(faults: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Of each kind how often it struck, and whether that was seen."""
    struck: dict[str, Counter[bool]] = {}
    for fault in faults:
        struck.setdefault(fault["fault"], Counter())[fault["seen"]] += 1
    for name, seen in struck.items():
        times = f"{name} {seen.total()} times" if seen.total() > 1 else name
        unseen = f"{seen[False]} NOT seen to take effect"
        yield f"{times}, {unseen if seen[False] else 'seen to take effect'}"


def _figures(result: Result) -> str:
    stats = result.document["stats"]
    return (
        f"{stats['acquires_ok']} acquires, {stats['operations']} operations in {stats['seconds']:.1f} s "
        f"({result.document['real_seconds']:.2f} s real), seed {result.plan.seed}"
    )


def _links(result: Result) -> Iterator[tuple[str, str]]:
    if result.folder is not None:
        yield "repeat", result.document["replay"]
        yield "report", str(result.folder / REPORT)
    if left := result.document["cluster"].get("left_behind"):
        yield "not everything could be removed", left


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is kept in memory of one run among many."""

    seed: int
    valid: bool | None
    folder: Path | None
    summary: str
    stats: dict[str, Any]

    @classmethod
    def of(cls, result: Result) -> Outcome:
        document = result.document
        return cls(result.plan.seed, result.valid, result.folder, document["summary"], document["stats"])


def tally(outcomes: Iterable[Outcome]) -> str:
    """``35 valid, 2 violated``; nothing of none."""
    counts = Counter(outcome.valid for outcome in outcomes)
    words = {True: "valid", False: "violated", None: "unknown"}
    return ", ".join(f"{counts[valid]} {word}" for valid, word in words.items() if counts[valid])


def print_tally(outcomes: list[Outcome], asked: int, *, json: bool) -> None:
    """The verdicts of many runs of ``asked``, and where the bad ones are kept."""
    if json:
        rows = [{**asdict(outcome), "folder": str(outcome.folder or "")} for outcome in outcomes]
        print_document({"schema": 1, "asked": asked, "runs": rows})
        return
    console = Console(highlight=False, emoji=False)
    table = Table(box=None, pad_edge=False)
    for column in ("verdict", "runs", "first seed", "kept in"):
        table.add_column(column)
    for valid, (word, colour) in WORDS.items():
        these = [outcome for outcome in outcomes if outcome.valid is valid]
        if these:
            kept = str(these[0].folder) if these[0].folder else "not kept: run the seed again"
            table.add_row(f"[{colour}]{word}[/]", str(len(these)), str(these[0].seed), kept)
    console.print(table)
    if len(outcomes) < asked:
        console.print(f"interrupted after {len(outcomes)} of {asked} runs")
