"""Lines on stderr: those that ``--verbose`` adds, and the one that names the project's defaults."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, Final

from harness.errors import UsageError
from harness.plan.project import project_defaults

ORIGINS: Final = {
    "COMMANDLINE": "command line",
    "DEFAULT_MAP": "",
    "ENVIRONMENT": "environment",
    "PROMPT": "command line",
    "DEFAULT": "default",
}
"""Names of click's sources of a value; the project's file stands for itself. Typer may vendor click, so the names are
compared, not the values."""


class Verbosity:
    """Setting of the command that this process executes; ``wanted`` is True if it is verbose."""

    wanted = False


def set_verbose(wanted: bool) -> None:
    """Say whether the command is verbose."""
    Verbosity.wanted = wanted


def verbose() -> bool:
    """Return whether the command is verbose."""
    return Verbosity.wanted


def source_of(ctx: Any, name: str) -> str:
    """Return the name of click's source of an option's value, such as ``DEFAULT_MAP``; "" if there is none."""
    source = ctx.get_parameter_source(name)
    return "" if source is None else str(source.name)


def report_options(ctx: Any) -> None:
    """Print the project's defaults that a command uses; if it is verbose, all options and their origins.

    Raises UsageError if the command is to be both verbose and quiet.
    """
    quiet = bool(ctx.params.get("quiet"))
    if verbose() and quiet:
        raise UsageError("--verbose and --quiet contradict each other: give one of them")
    if verbose():
        for line in _all_options(ctx):
            print(line, file=sys.stderr)
    elif not quiet and not ctx.params.get("json"):
        taken = [name for name in ctx.params if source_of(ctx, name) == "DEFAULT_MAP"]
        if taken:
            values = ", ".join(f"{name.rstrip('_')} = {_text(ctx.default_map[name])}" for name in taken)
            print(f"defaults from {project_defaults()[0]}: {values}", file=sys.stderr)


def _all_options(ctx: Any) -> Iterator[str]:
    """Yield a line for each option and argument with a value, such as ``clients = 5 (default)``."""
    for name, value in ctx.params.items():
        source = source_of(ctx, name)
        if value is None:
            continue
        shown = ctx.default_map[name] if source == "DEFAULT_MAP" else value
        origin = str(project_defaults()[0]) if source == "DEFAULT_MAP" else ORIGINS.get(source, source)
        yield f"{name.rstrip('_')} = {_text(shown)} ({origin})"


def _text(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    return {True: "on", False: "off"}.get(value, str(value)) if isinstance(value, bool) else str(value) or "none"
