"""Parse command lines of ``harness`` as the program would, without running them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

import typer

from harness.cli.main import COMMANDS, app

SUBCOMMANDS: Final = ("scenario", "cluster", "env")
"""Commands with commands of their own."""
WORD_END: Final = re.compile(r"[|;&<>)]|\s#\s|\s{3,}|\s->\s|\.\.\.")
"""Where a command line ends in a text: an operator of the shell, a remark, or an ellipsis."""


@cache
def root() -> Any:
    return typer.main.get_command(app)


def problems(line: str) -> list[str]:
    """Return what the program does not know in a command line that begins with ``harness``."""
    try:
        words = shlex.split(WORD_END.split(line, maxsplit=1)[0])[1:]
    except ValueError:
        return [f"{line}: cannot be split into words"]
    if not words or words[0].startswith("-"):
        return []
    name, *rest = words
    if name not in COMMANDS:
        return [f"{line}: there is no command {name!r}"]
    command = root().get_command(None, name)
    if name in SUBCOMMANDS and rest and not rest[0].startswith("-"):
        below = {one: command.commands[one] for one in command.commands}
        for choice in rest[0].split("|"):
            if choice not in below:
                return [f"{line}: {name} has no command {choice!r}"]
        command = below[rest[0].split("|")[0]]
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    known |= {"-h", "--help"}
    given = [word.partition("=")[0] for word in _until_double_dash(rest) if re.match(r"--?[a-z]", word)]
    return [f"{line}: {name} has no option {option}" for option in given if option not in known]


def _until_double_dash(words: list[str]) -> list[str]:
    return words[: words.index("--")] if "--" in words else words


def in_shell(script: str) -> Iterator[str]:
    """Yield the command lines of ``harness`` in a shell script."""
    for line in script.replace("\\\n", " ").splitlines():
        for part in re.split(r"&&|\|\||;|\$\(", line):
            found = re.match(r"\s*(?:\S*/)?(harness .*)", part)
            if found:
                yield found[1]


def in_markdown(text: str) -> Iterator[str]:
    """Yield the command lines of ``harness`` in the code of a page, in blocks and in the text."""
    blocks = re.compile(r"^```(?:sh|console|text|toml|yaml)?\n(.*?)^```$", re.DOTALL | re.MULTILINE)
    for block in blocks.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            found = re.match(r"(?:\$ )?(?:\S*/)?(harness [a-z].*)", line)
            if found and not found[1].startswith("harness:"):
                yield found[1]
    for code in re.findall(r"(?<!`)`(harness [a-z][^`]*)`(?!`)", blocks.sub("", text)):
        yield re.sub(r"\s+", " ", code)
