"""Progress of a long start as lines on stderr, for output that is not a terminal."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import Final, Self

from harness.run.progress import PHASES

EVERY_S: Final = 30.0
"""Seconds between two lines."""
START: Final = PHASES[0]


class StartLines:
    """Prints a line every :data:`EVERY_S` seconds as long as something starts: what it does, and since when.

    Whether there is news does not matter, since a compiler may be silent for minutes. To be used with ``with``.
    """

    def __init__(self, title: str, every_s: float = EVERY_S) -> None:
        self._title = title
        self._every_s = every_s
        self._text = ""
        self._began = time.monotonic()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._print_lines, name="start lines", daemon=True)

    def tell(self, fraction: float, text: str) -> None:
        """Take in progress, see :data:`harness.run.progress.Progress`."""
        del fraction
        self._text = text

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _print_lines(self) -> None:
        while not self._over.wait(self._every_s):
            phase, _, doing = self._text.partition(": ")
            if phase == START:
                elapsed_s = time.monotonic() - self._began
                print(f"{self._title}: starting for {elapsed_s:.0f} s: {doing[:200]}", file=sys.stderr, flush=True)
