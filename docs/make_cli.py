"""Write the reference of the command line from the program: ``python docs/make_cli.py``."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import typer

from harness.cli.main import COMMANDS, app

PAGE: Final = Path(__file__).parent / "reference" / "cli.md"
HEAD: Final = """# Command line

This page is made from the program by `python docs/make_cli.py`; a test compares them. `harness COMMAND --help` prints
the same.

Each command has `--help`. [Exit statuses](../verdicts.md) are the same for all commands: 0 valid, 1 a violation,
2 a wrong argument, 3 unknown, 4 the machine lacks something.
"""
NOTHING: Final = ("None", "''", "()", "[]", "False")
"""Defaults that mean: none."""


def page() -> str:
    """Return the whole page."""
    root: Any = typer.main.get_command(app)
    parts = [HEAD, "| command | |", "|---|---|"]
    parts += [f"| [`{name}`](#harness-{name}) | {_cell(text)} |" for name, text in COMMANDS.items()]
    for name in COMMANDS:
        parts += ["", *_command(f"harness {name}", root.get_command(None, name), 2)]
    return "\n".join(parts) + "\n"


def _command(name: str, command: Any, level: int) -> Iterator[str]:
    yield f"{'#' * level} {name}"
    yield ""
    yield _text(command.help or "")
    below = getattr(command, "commands", {})
    for part, sub in sorted(below.items()):
        yield ""
        yield from _command(f"{name} {part}", sub, level + 1)
    rows = [] if below else [_row(parameter) for parameter in command.params if not getattr(parameter, "hidden", False)]
    if rows:
        yield from ("", "| argument or option | default | meaning |", "|---|---|---|", *rows)


def _row(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        name = f"`{str(parameter.metavar or parameter.name).upper()}`"
        default = "required" if parameter.required else ""
    else:
        names = ", ".join(f"`{one}`" for one in (*parameter.opts, *parameter.secondary_opts))
        name = f"{names} `{parameter.metavar}`" if parameter.metavar else names
        default = _default(parameter)
    return f"| {_cell(name)} | {_cell(default)} | {_cell(_text(getattr(parameter, 'help', None) or ''))} |"


def _default(parameter: Any) -> str:
    value = parameter.default
    if parameter.required:
        return "required"
    if repr(value) in NOTHING or "UNSET" in repr(value) or callable(value):
        return ""
    return "on" if value is True else f"`{value}`"


def _text(text: str) -> str:
    return re.sub(r"(?<!\S)(--?[a-z][\w-]*)", r"`\1`", " ".join(text.split()))


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def main() -> int:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
