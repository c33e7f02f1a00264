"""Parse command lines of ``harness`` as the program would, without running them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from functools import cache, partial
from typing import Any, Final

import typer

from harness.cli.main import COMMANDS, WRONG_USAGE, app
from harness.cli.verbosity import set_verbose
from harness.errors import HarnessError
from harness.lock_impls import catalogue
from harness.studies.compare.plans import family

SUBCOMMANDS: Final = ("scenario", "cluster", "env")
"""Commands with commands of their own."""
WORD_END: Final = re.compile(r"[|;&<>)]|\s#\s|\s{3,}|\s->\s|\.\.\.")
"""Where a command line ends in a text: an operator of the shell, a remark, or an ellipsis."""
NOT_A_NAME: Final = re.compile(r"[A-Z][A-Z_]*|\d*|.*[/:*?\[\]{}$].*|.*\.toml")
"""A placeholder such as ``LOCK``, a number, a file, a pattern, a variable, or a class such as ``mylock:MyLock``."""
PLACEHOLDER: Final = re.compile(r"(?<![\w$])[A-Z][A-Z_]+(?!\w)|\.\.\.")
"""A word such as ``LOCK`` that the reader replaces, and an ellipsis. ``$PASSWORD`` is neither."""
REMARK: Final = re.compile(r"\s#\s|\s{3,}")
"""The beginning of a remark behind a command."""
BLOCK: Final = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
WITH_COMMANDS: Final = ("", "sh", "console", "text", "toml", "yaml")
"""Languages of blocks that may have commands."""
LOCKS: Final = "--locks"
"""The option that also accepts families of locks, which the shell does not complete."""


@cache
def root() -> Any:
    """Return the group of all commands, which builds each of them once: the pages have some hundred lines."""
    group: Any = typer.main.get_command(app)
    build = cache(partial(group.get_command, None))
    group.get_command = lambda _context, name: build(name)
    return group


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
    command = top = root().get_command(None, name)
    if name in SUBCOMMANDS and rest and not rest[0].startswith("-"):
        below = {one: command.commands[one] for one in command.commands}
        for choice in rest[0].split("|"):
            if choice not in below:
                return [f"{line}: {name} has no command {choice!r}"]
        command = below[rest[0].split("|")[0]]
    words = _until_double_dash(words)
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    known |= {"-h", "--help"}
    given = [word.partition("=")[0] for word in words[1:] if re.match(r"--?[a-z]", word)]
    wrong = [f"{line}: {name} has no option {option}" for option in given if option not in known]
    values = _values(command, words[2:] if command is not top else words[1:])
    return wrong + [f"{line}: {where}: unknown name {value!r}" for where, value in _unknown_names(command, values)]


def _values(command: Any, words: list[str]) -> Iterator[tuple[Any, str]]:
    """Yield each parameter that the words give a value to, with the value, as click assigns them."""
    options = {option: parameter for parameter in command.params for option in parameter.opts}
    arguments = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
    left = iter(words)
    for word in left:
        option, equals, value = word.partition("=")
        if word.startswith("-"):
            parameter = options.get(option)
            if parameter is not None and not (parameter.is_flag or parameter.count):
                yield parameter, value if equals else next(left, "")
        elif arguments:
            yield arguments[0], word
            if arguments[0].nargs != -1:
                arguments.pop(0)


def _unknown_names(command: Any, values: Iterable[tuple[Any, str]]) -> Iterator[tuple[str, str]]:
    """Yield the names that the shell would not complete, where it completes names, each with its parameter."""
    for parameter, value in values:
        names = _names(command, parameter)
        for one in value.split(","):
            if names and one not in names and not NOT_A_NAME.fullmatch(one):
                yield parameter.opts[0], one


@cache
def _names(command: Any, parameter: Any) -> frozenset[str]:
    completed = parameter.shell_complete(command.context_class(command), "")
    names = {item.value for item in completed if item.type == "plain"}
    if LOCKS in parameter.opts:
        names |= {family(info) for info in catalogue.infos()}
    return frozenset(names)


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
    for language, block in BLOCK.findall(text):
        for line in block.replace("\\\n", " ").splitlines() if language in WITH_COMMANDS else ():
            found = re.match(r"(?:\$ )?(?:\S*/)?(harness [a-z].*)", line)
            if found and not found[1].startswith("harness:"):
                yield found[1]
    for code in re.findall(r"(?<!`)`(harness [a-z][^`]*)`(?!`)", BLOCK.sub("", text)):
        yield re.sub(r"\s+", " ", code)


def complete(line: str) -> str:
    """Return the command of a line as a reader types it: without a remark, and with what is optional.

    It is empty if the line is no whole command: if it has a placeholder such as ``LOCK`` or ``...``, or if the program
    refuses it because an argument or a value is missing."""
    line = REMARK.split(line, maxsplit=1)[0]
    if PLACEHOLDER.search(line):
        return ""
    command = re.sub(r"[\[\]]", "", line).strip()
    try:
        _parse(root(), shlex.split(command)[1:])
    except (HarnessError, WRONG_USAGE):
        return ""
    finally:
        set_verbose(False)
    return command


def _parse(command: Any, words: list[str], parent: Any = None) -> None:
    """Let the program read the words, without doing anything. Raises what it raises if they are wrong."""
    context = command.make_context(command.name, list(words), parent=parent)
    if hasattr(command, "resolve_command"):
        _, below, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        _parse(below, rest, context)
