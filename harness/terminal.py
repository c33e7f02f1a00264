"""What a run prints when it is over."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from .runs import Result
from .store import REPORT

WORDS = {True: ("VALID", "green"), False: ("VIOLATION", "red"), None: ("UNKNOWN", "yellow")}


def print_result(result: Result, *, json: bool, quiet: bool) -> None:
    """The verdict of one run, as JSON, a word, or a panel."""
    if json:
        sys.stdout.write(msgspec.json.encode(result.document).decode() + "\n")
        return
    console = Console(highlight=False)
    word, colour = WORDS[result.valid]
    if quiet:
        console.print(word)
        return
    body = Text(result.document["summary"])
    body.append(f"\n\n{_numbers(result)}", style="dim")
    console.print(Panel(body, title=f"{word}: {result.plan.lock}", title_align="left", border_style=colour))
    if result.folder is not None:
        console.print(f"report: {result.folder / REPORT}", soft_wrap=True)
    if left := result.document["cluster"].get("left_behind"):
        console.print(f"not everything could be removed: {left}", soft_wrap=True)


def _numbers(result: Result) -> str:
    stats = result.document["stats"]
    return (
        f"{stats['acquires_ok']} acquires, {stats['operations']} operations, "
        f"{len(result.document['faults'])} faults in "
        f"{stats['seconds']:.1f} s ({result.document['real_seconds']:.2f} s real) · seed {result.plan.seed}"
    )


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


def print_tally(outcomes: list[Outcome], asked: int, *, json: bool) -> None:
    """The verdicts of many runs of ``asked``, and where the bad ones are kept."""
    if json:
        rows = [{**asdict(outcome), "folder": str(outcome.folder or "")} for outcome in outcomes]
        sys.stdout.write(msgspec.json.encode({"schema": 1, "asked": asked, "runs": rows}).decode() + "\n")
        return
    console = Console(highlight=False)
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
