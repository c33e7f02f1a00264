"""What commands have in common: how an option is understood, and how they print."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import tomllib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from rich.console import Console
from rich.live import Live

from .client_program import find_lock
from .display import Display
from .errors import UsageError
from .plan import seconds
from .progress import Progress

REFRESHES: Final = 8
"""Of what is shown of work in progress, a second."""


def kind_with(lock: str, topology: str) -> str:
    """The kind of cluster with this topology among those that a lock runs on; "" if none is asked for."""
    if not topology:
        return ""
    kinds = find_lock(lock).info.kinds
    found = next((kind for kind in kinds if kind.endswith(f"-{topology}")), None)
    if found is None:
        raise UsageError(f"{lock} runs on {' or '.join(kinds)}, not on {topology!r} ones")
    return found


def lock_options(texts: Sequence[str] | None) -> dict[str, Any]:
    """``name=value`` texts as a lock's options; UsageError for any other."""
    return named_options("lock-option", texts)


def named_options(option: str, texts: Sequence[str] | None) -> dict[str, Any]:
    """``name=value`` texts, as ``--option`` was given them; UsageError for any other."""
    return dict(_option(option, text) for text in texts or ())


def _option(option: str, text: str) -> tuple[str, Any]:
    """Name and value of ``NAME=VALUE``; what is no TOML value is text."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"{option}: expected NAME=VALUE, got {text!r}")
    try:
        return name, tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return name, value


def duration(option: str, text: str) -> float:
    """The seconds of ``"150ms"``, as ``--option`` was given them; UsageError for any other text."""
    try:
        return seconds(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from error


def positive(option: str, text: str) -> float:
    """A :func:`duration` of more than nothing."""
    found = duration(option, text)
    if found <= 0:
        raise UsageError(f"{option} must be more than 0 seconds, got {found:g}")
    return found


def counted(number: int, what: str) -> str:
    """``1 fault``, ``2,000 faults``."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def printed(write: Callable[[], None]) -> None:
    """Print, though nobody may listen any more (``| head``): the exit status is the verdict all the same."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal that has not all letters shows the others
    try:
        write()
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit):  # Rich turns the one into the other
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextlib.contextmanager
def progress_bar(console: Console, title: str) -> Iterator[Progress]:
    """Two lines on ``console`` that are gone afterwards; call what it gives. There are none on what is no terminal
    (whatever its colours) or cannot move its cursor, and none where it is to be quiet."""
    display = Display(title)
    if console.quiet or console.is_dumb_terminal or not console.file.isatty():
        yield display.tell
        return
    with Live(display, console=console, transient=True, refresh_per_second=REFRESHES):
        yield display.tell
