"""The table ``[tool.harness]`` of a project's ``pyproject.toml``: defaults for commands and tests."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Final

from harness.errors import UsageError
from harness.files import read_regular

from .hooks import Hook
from .toml import decode_hooks

NAME: Final = "pyproject.toml"
LARGEST: Final = 4 * 1024 * 1024
"""Bytes of the largest file that is read."""
TABLE: Final = "tool.harness"
HOOKS: Final = "hooks"
"""The table in it with the user's commands for faults of servers, which is no option of a command."""


def project_defaults(folder: Path | None = None) -> tuple[Path, dict[str, Any]]:
    """Return the nearest ``pyproject.toml`` in ``folder`` (by default the working directory) or above it, and its table
    ``[tool.harness]``; the table is empty if there is none. Raises UsageError for a file that is not TOML."""
    folder = (folder or Path.cwd()).absolute()
    path = next((place / NAME for place in (folder, *folder.parents) if (place / NAME).is_file()), folder / NAME)
    if not path.is_file():
        return path, {}
    text = read_regular(path, LARGEST).decode(errors="replace")
    if "harness" not in text:  # most projects have no such table; TOML has many ways to write one
        return path, {}
    try:
        tools = tomllib.loads(text).get("tool", {})
    except (ValueError, RecursionError) as error:  # ValueError also for an integer with too many digits
        raise UsageError(f"{path}: {error}") from error
    if not isinstance(tools, dict):
        raise UsageError(f"{path}: tool: expected a table, got {tools!r}")
    table = tools.get("harness", {})
    if not isinstance(table, dict):
        raise UsageError(f"{path}: {TABLE}: expected a table, got {table!r}")
    return path, table


def project_hooks() -> dict[str, Hook]:
    """Return the hooks of the project in the working directory, by fault. Raises UsageError that names the file."""
    path, table = project_defaults()
    try:
        return decode_hooks(table.get(HOOKS, {}), f"{TABLE}.{HOOKS}")
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error
