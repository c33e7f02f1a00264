"""Errors that end a command with one message and a documented exit status, and no traceback."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

VALID, VIOLATION, USAGE, UNKNOWN, MISSING = 0, 1, 2, 3, 4
"""Exit statuses: valid · violation found · usage error · unknown · the environment lacks something."""
INTERRUPTED = 130
"""What shells call the end by Ctrl-C."""

MANY = 40
"""Names that an error lists at most."""


class HarnessError(Exception):
    """Something the user can mend; the message says what, where and what was expected."""

    exit_status = USAGE


class UsageError(HarnessError):
    """A wrong argument or file."""


class EnvironmentLacking(HarnessError):
    """The machine misses something; the message names the command that installs it."""

    exit_status = MISSING


def unknown_name(what: str, got: str, names: Iterable[str]) -> UsageError:
    """The error for a name that nobody has, with the nearest that somebody has."""
    known = sorted(names)
    near = get_close_matches(got, known, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(known[:MANY])}"
    if not near and len(known) > MANY:
        hint += f" and {len(known) - MANY} more"
    return UsageError(f"unknown {what} {got!r}: {hint}")
