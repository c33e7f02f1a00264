"""Print a verdict: as one word, as a panel on a terminal, or as plain lines if the output is a file or a pipe.

rich, which draws the panel, is imported for a terminal alone: its import takes a tenth of the time of a whole
``harness check``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from harness.errors import VALID, VIOLATION

if TYPE_CHECKING:
    from rich.console import Console

WORDS: Final = {True: ("VALID", "green"), False: ("VIOLATION", "red"), None: ("UNKNOWN", "yellow")}
SIGNS: Final = {True: "✓", False: "✗", None: "?"}
LABELS: Final = {
    "violated": "bold red", "broken": "bold red", "known limit": "red", "unknown": "bold yellow",
    "not tested": "bold yellow", "cut short": "bold yellow", "kept": "green",
}  # fmt: skip
"""Styles of the labels that sum up a run; the others are dim."""
WIDEST: Final = 100
"""Most columns of a panel, because longer lines are hard to read."""
STYLING: Final = ("FORCE_COLOR", "TTY_COMPATIBLE")
"""Environment variables by which rich may style output to a file."""
Row = tuple[str, Sequence[str]]
"""A label, and the lines beside it."""


def print_word(valid: bool | None) -> None:
    """Print a verdict as one word."""
    word, colour = WORDS[valid]
    if not may_be_styled():
        print(word)
        return
    from rich.console import Console

    Console(highlight=False, emoji=False).print(word, style=colour)


def print_status(status: int) -> None:
    """Print the verdict of an exit status as one word."""
    print_word({VALID: True, VIOLATION: False}.get(status))


def print_verdict(title: str, valid: bool | None, story: str, rows: Sequence[Row]) -> None:
    """Print a verdict as a panel; if the output is not a terminal, as plain lines."""
    if may_be_styled():
        from rich.console import Console

        console = Console(highlight=False, emoji=False)
        if console.is_terminal:
            print_panel(console, title, valid, story, rows)
            return
    print("\n".join(plain_lines(title, valid, story, rows)))


def may_be_styled() -> bool:
    """Return False if rich would surely print plain text to stdout; the answer needs no rich."""
    return sys.stdout.isatty() or any(os.environ.get(name) for name in STYLING)


def plain_lines(title: str, valid: bool | None, story: str, rows: Sequence[Row]) -> list[str]:
    """Return the lines of a verdict for output that is not a terminal."""
    return [f"{WORDS[valid][0]}: {title}", story, *(f"{label}: {line}" for label, lines in rows for line in lines)]


def print_panel(console: Console, title: str, valid: bool | None, story: str, rows: Sequence[Row]) -> None:
    """Print a verdict as a panel of half a screen."""
    from rich.padding import Padding
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    word, colour = WORDS[valid]
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
