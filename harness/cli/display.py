"""Progress display: two lines at the bottom of a terminal, which disappear when the work is done."""

from __future__ import annotations

import time
from typing import Final

from rich.console import Console, ConsoleOptions, RenderResult
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from harness.run.progress import PHASES

from .time_left import TimeLeft, clock_text

ROOM: Final = 60
"""Columns of the narrowest terminal on which the title is shown beside the bar."""


class Display:
    """Progress display with title, phase, bar, elapsed time and time left, and below them the details.

    The details are truncated at the edge. The display always has two lines, so that nothing jumps."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._fraction = 0.0
        self._phase, self._more = PHASES[0], ""
        self._began = time.monotonic()
        self._left = TimeLeft()

    def tell(self, fraction: float, text: str) -> None:
        """Take in progress, see :data:`harness.run.progress.Progress`. The bar never moves back."""
        phase, _, more = text.partition(": ")
        if phase in PHASES:
            self._phase, self._more = phase, more
        else:
            self._more = text
        self._fraction = max(self._fraction, min(fraction, 1.0))
        self._left.tell(self._fraction)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        wide = options.max_width >= ROOM
        line = Table.grid(padding=(0, 2, 0, 0), expand=True)
        if wide:
            line.add_column(max_width=options.max_width // 3, no_wrap=True, overflow="ellipsis")
        line.add_column(width=max(map(len, PHASES)), no_wrap=True)
        line.add_column(ratio=1)
        line.add_column(no_wrap=True)
        cells = [Text(self._title, "bold")] if wide else []
        line.add_row(*cells, Text(self._phase, "cyan"), self._bar(), Text(self._clock(), "dim"))
        yield line
        yield Text(self._more.replace("\n", " ") or " ", "dim", no_wrap=True, overflow="ellipsis")

    def _bar(self) -> ProgressBar:
        """Return the bar, which pulses as long as the fraction is unknown."""
        return ProgressBar(total=1.0, completed=self._fraction, pulse=not self._fraction)

    def _clock(self) -> str:
        elapsed = clock_text(time.monotonic() - self._began)
        left = self._left.text()
        return f"{elapsed}, {left}" if left else elapsed
