"""Defaults of commands from ``[tool.harness]`` in the project's ``pyproject.toml``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from typer.core import TyperCommand, TyperGroup, TyperOption

from harness.errors import UsageError, unknown_name
from harness.plan.project import TABLE, project_defaults

COMMON: Final = frozenset({"accept", "cluster", "out", "require", "seed", "time_limit", "workers"})
"""Options that stand in the table itself, for every command that has them. Those of one command stand in a table of its
own: ``[tool.harness.hunt]``."""


def set_defaults(command: TyperCommand | TyperGroup, name: str, commands: tuple[str, ...]) -> None:
    """Make the project's values the defaults of the command called ``name``, which is one of ``commands``.

    Raises UsageError for a key that is neither an option nor a command.
    """
    path, table = project_defaults()
    if not table:
        return
    common = {key: value for key, value in table.items() if key in COMMON}
    for key in table:
        if key not in (*COMMON, *commands):
            raise _misplaced(path, TABLE, key, [*COMMON, *commands])
    own = table.get(name, {})
    if not isinstance(own, dict):
        raise UsageError(f"{path}: {TABLE}.{name}: expected a table, got {own!r}")
    if isinstance(command, TyperGroup):
        return
    options = {str(it.name): it for it in command.params if isinstance(it, TyperOption)}
    for key in own:
        if key not in options:
            raise _misplaced(path, f"{TABLE}.{name}", key, list(options))
    chosen = {**{key: value for key, value in common.items() if key in options}, **own}
    command.context_settings["default_map"] = {key: _given(value, options[key]) for key, value in chosen.items()}


def _misplaced(path: Path, table: str, key: str, known: list[str]) -> UsageError:
    return UsageError(f"{path}: {unknown_name(f'key in {table}', key, known)}")


def _given(value: Any, option: TyperOption) -> Any:
    """Return a value of TOML as the command line would have it: names of one option are joined with commas."""
    if isinstance(value, list) and not option.multiple:
        return ",".join(map(str, value))
    if isinstance(value, bool | list):
        return value
    return str(value)
