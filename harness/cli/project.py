"""Defaults of commands from ``[tool.harness]`` in the project's ``pyproject.toml``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from typer.core import TyperCommand, TyperGroup, TyperOption

from harness.errors import UsageError, unknown_name
from harness.plan.project import HOOKS, TABLE, project_defaults

COMMON: Final = frozenset({"accept", "cluster", "out", "require", "seed", "time_limit", "workers"})
"""Options that stand in the table itself, for every command that has them. Those of one command stand in a table of its
own: ``[tool.harness.hunt]``."""
Table = Mapping[str, Any]


def set_defaults(command: TyperCommand | TyperGroup, name: str, commands: tuple[str, ...]) -> None:
    """Make the project's values the defaults of the command called ``name``, which is one of ``commands``.

    A table of a group of commands, such as ``[tool.harness.scenario]``, holds for all of its commands that have the
    option; ``[tool.harness.scenario.run]`` holds for one. Raises UsageError for a key that is neither an option nor a
    command, and for a value that no option can have.
    """
    path, table = project_defaults()
    if not table:
        return
    for key in table:
        if key not in (*COMMON, *commands, HOOKS):
            raise _misplaced(path, TABLE, key, [*COMMON, *commands, HOOKS])
    common = {key: value for key, value in table.items() if key in COMMON}
    own = _subtable(path, TABLE, table, name)
    if isinstance(command, TyperGroup):
        _set_defaults_of_group(command, path, f"{TABLE}.{name}", common, own)
    else:
        _refuse_unknown_keys(path, f"{TABLE}.{name}", own, list(_options(command)))
        _set_defaults_of_command(command, path, {**common, **own})


def _set_defaults_of_group(group: TyperGroup, path: Path, place: str, common: Table, own: Table) -> None:
    members: dict[str, Any] = dict(group.commands)
    known = [*members, *(option for member in members.values() for option in _options(member))]
    _refuse_unknown_keys(path, place, own, known)
    shared = {key: value for key, value in own.items() if key not in members}
    for name, member in members.items():
        only = _subtable(path, place, own, name)
        _refuse_unknown_keys(path, f"{place}.{name}", only, list(_options(member)))
        _set_defaults_of_command(member, path, {**common, **shared, **only})


def _set_defaults_of_command(command: TyperCommand, path: Path, values: Table) -> None:
    options = _options(command)
    defaults = {key: _given(path, key, value, options[key]) for key, value in values.items() if key in options}
    command.context_settings["default_map"] = {str(options[key].name): value for key, value in defaults.items()}
    for key, value in defaults.items():
        option = options[key]
        if value is True and not option.secondary_opts:  # otherwise no argument could win over the project
            option.secondary_opts.append(f"--no-{key.replace('_', '-')}")


def _options(command: TyperCommand) -> dict[str, TyperOption]:
    """Return the options by their long names, with ``_`` for ``-``. A parameter may have another name: ``with_``."""
    options = [option for option in command.params if isinstance(option, TyperOption)]
    return {max(option.opts, key=len).removeprefix("--").replace("-", "_"): option for option in options}


def _subtable(path: Path, place: str, table: Table, name: str) -> dict[str, Any]:
    found = table.get(name, {})
    if not isinstance(found, dict):
        raise UsageError(f"{path}: {place}.{name}: expected a table, got {found!r}")
    return found


def _refuse_unknown_keys(path: Path, place: str, table: Table, known: list[str]) -> None:
    for key in table:
        if key not in known:
            raise _misplaced(path, place, key, known)


def _misplaced(path: Path, table: str, key: str, known: list[str]) -> UsageError:
    return UsageError(f"{path}: {unknown_name(f'key in {table}', key, known)}")


def _given(path: Path, key: str, value: Any, option: TyperOption) -> Any:
    """Return a value of TOML as the command line would have it: names of one option are joined with commas."""
    if isinstance(value, dict):
        raise UsageError(f"{path}: {TABLE}: {key}: expected a value of --{key.replace('_', '-')}, got a table")
    if option.is_flag and not isinstance(value, bool):
        raise UsageError(f"{path}: {TABLE}: {key} is true or false, got {value!r}")
    if option.bare_type() == Path.__name__ and not isinstance(value, str):
        raise UsageError(f"{path}: {TABLE}: {key}: expected a path in quotes, got {value!r}")
    if isinstance(value, list):
        texts = [str(one) for one in value]
        return texts if option.multiple else ",".join(texts)
    if isinstance(value, bool) and option.is_flag:
        return value
    return [str(value)] if option.multiple else str(value)
