"""What a run prints when it is over."""

from __future__ import annotations

import sys

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


def _numbers(result: Result) -> str:
    stats = result.document["stats"]
    return (
        f"{stats['acquires_ok']} acquires, {stats['operations']} operations, {len(result.document['faults'])} faults in "
        f"{stats['seconds']:.1f} s ({result.document['real_seconds']:.2f} s real) · seed {result.plan.seed}"
    )


def print_tally(results: list[Result], *, json: bool) -> None:
    """The verdicts of many runs, and where the bad ones are kept."""
    if json:
        rows = [
            {"seed": r.plan.seed, "valid": r.valid, "folder": str(r.folder) if r.folder else None, **_brief(r)}
            for r in results
        ]
        sys.stdout.write(msgspec.json.encode({"schema": 1, "runs": rows}).decode() + "\n")
        return
    console = Console(highlight=False)
    table = Table(box=None, pad_edge=False)
    for column in ("verdict", "runs", "first seed", "kept in"):
        table.add_column(column)
    for valid, (word, colour) in WORDS.items():
        these = [result for result in results if result.valid is valid]
        if these:
            first = these[0]
            kept = str(first.folder) if first.folder else "not kept: replay with the seed"
            table.add_row(f"[{colour}]{word}[/]", str(len(these)), str(first.plan.seed), kept)
    console.print(table)


def _brief(result: Result) -> dict[str, object]:
    return {"summary": result.document["summary"], **result.document["stats"]}
