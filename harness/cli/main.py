"""The command line: one module for each command, which is loaded when the command is used."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from contextlib import AbstractContextManager
from importlib import import_module
from typing import Annotated, Any, Final, NoReturn, Protocol, cast

import typer
from typer.core import TyperCommand, TyperGroup

from harness.errors import (
    INTERRUPTED,
    MISSING,
    UNKNOWN,
    USAGE,
    VALID,
    VIOLATION,
    EnvironmentLacking,
    HarnessError,
    missing_extra,
    unknown_name,
)
from harness.files import cannot_write
from harness.plan.project import project_defaults

from .project import set_defaults
from .stdout import allow_any_text, print_error, stdout_errors
from .verbosity import source_of

COMMANDS: Final = {
    "run": "Run a lock under faults, check the history and write a report.",
    "hunt": "Search the simulator's schedules for one in which a lock fails.",
    "replay": "Repeat a stored run, a plan or a counterexample.",
    "scenario": "Documented failures of locks, each with its cure.",
    "nightly": "Run every scenario and compare with what is expected.",
    "trends": "Show what changed since the previous nightly run.",
    "sweep": "Measure how often a lock fails, by lease, hold and pause.",
    "bisect": "Find the library release that introduced or fixed a failure.",
    "compare": "Compare locks under faults: which lock, and what does it cost?",
    "publish": "Write pages about all locks from stored results.",
    "fidelity": "Compare the simulated servers with real ones.",
    "serve": "Show the stored runs in a browser.",
    "check": "Check whether a history is linearizable.",
    "export": "Write a history as EDN, for Jepsen and Knossos.",
    "trace": "Write the messages of a run, decoded, one a line.",
    "report": "Write the report of a stored run again.",
    "conformance": "Check whether a lock program keeps to the client protocol.",
    "list": "List locks, nemeses, workloads, checkers, models or kinds.",
    "show": "Show what a lock promises and how it is known to fail.",
    "doctor": "Check what this machine has for runs on containers.",
    "cluster": "Start clusters by hand, list them, remove them.",
    "docs": "Show the documentation in a browser.",
    "env": "List and remove the environments in which locks run.",
}
"""Each command with its line in ``harness --help``. Its module in this package has the command's name, and an ``app``.

Loading all commands takes more than a second, loading none a tenth, so the list of commands is written down here.
"""
COMPLETING: Final = "_HARNESS_COMPLETE"
"""Environment variable by which a shell asks for completions."""
COMPLETION_OPTIONS: Final = frozenset({"--install-completion", "--show-completion"})
"""Options that Typer adds for completion."""
NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})
"""Errors of a file system that can take no more; they may come from any file, such as a temporary one."""
WRONG_USAGE: Final[type[Exception]] = typer.BadParameter.__mro__[1]
"""Base class of Typer's usage errors. Typer does not export it, and may vendor click."""


class UsageMessage(Protocol):
    """A usage error of Typer's."""

    def format_message(self) -> str: ...


class HelpFormatter(Protocol):
    """Typer's writer of help texts."""

    def section(self, name: str) -> AbstractContextManager[None]: ...

    def write_dl(self, rows: list[tuple[str, str]]) -> None: ...


class LazyCommands(TyperGroup):
    """The group of all commands, which imports a command's module when that command is used."""

    def list_commands(self, ctx: object) -> list[str]:
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: object, cmd_name: str) -> TyperCommand | TyperGroup | None:
        del ctx
        if cmd_name not in COMMANDS:
            return None
        command = typer.main.get_command(import_module(f"{__package__}.{cmd_name}").app)
        assert isinstance(command, TyperCommand | TyperGroup)
        command.name = cmd_name
        if COMPLETING not in os.environ:  # a mistake in the project's file must not end in the line that is typed
            set_defaults(command, cmd_name, tuple(COMMANDS))
        return command

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Refuse an unknown command with the nearest name: Typer knows only the names of commands that are loaded."""
        if args and not args[0].startswith("-") and args[0] not in COMMANDS and not ctx.resilient_parsing:
            raise unknown_name("command", args[0], COMMANDS)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: object, formatter: HelpFormatter) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


app = typer.Typer(
    cls=LazyCommands, help="Tells you whether your distributed lock is safe.", no_args_is_help=True,
    pretty_exceptions_enable=False, rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)  # fmt: skip


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version  # late: loads the email package

        typer.echo(f"harness {version('lock-harness')}")
        raise typer.Exit


@app.callback()
def harness(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


def main(arguments: list[str] | None = None) -> None:
    """Run the ``harness`` command and exit with the documented status."""
    try:
        if sys.stdout is None:
            raise EnvironmentLacking("standard output is closed")
        allow_any_text()
        with stdout_errors():
            status = app(arguments, prog_name="harness", standalone_mode=False)
        sys.exit(status or VALID)
    except SystemExit as exit_:
        if exit_.code == VIOLATION and COMPLETION_OPTIONS.intersection(arguments or sys.argv[1:]):
            sys.exit(MISSING)  # Typer does not know the shell; its status 1 is not a verdict
        raise
    except WRONG_USAGE as error:
        print_error(_one_line_message(cast(UsageMessage, error)) + _project_note(error))
        sys.exit(USAGE)
    except typer.Abort:  # older Typer versions raise this for Ctrl-C
        sys.exit(INTERRUPTED)
    except HarnessError as error:
        print_error("; ".join([f"harness: {error}", *getattr(error, "__notes__", ())]))
        sys.exit(error.exit_status)
    except ImportError as error:
        lacking = missing_extra(error)
        if lacking is None:
            _report_crash()
        print_error(f"harness: {lacking}")
        sys.exit(MISSING)
    except OSError as error:
        if error.errno not in NO_SPACE:
            _report_crash()
        print_error(f"harness: {cannot_write(error.filename or 'a file', error)}")
        sys.exit(MISSING)
    except Exception:  # noqa: BLE001 - a crash of ours must not look like a verdict
        _report_crash()


def _report_crash() -> NoReturn:
    print_error(f"{traceback.format_exc()}harness: an error of the harness itself, not a verdict; please report it")
    sys.exit(UNKNOWN)


def _project_note(error: Exception) -> str:
    """Return where the project set the value that is wrong; "" if the command line gave it."""
    context, parameter = getattr(error, "ctx", None), getattr(error, "param", None)
    if context is None or parameter is None or source_of(context, parameter.name) != "DEFAULT_MAP":
        return ""
    return f" (set in {project_defaults()[0]})"


def _one_line_message(error: UsageMessage) -> str:
    """Return what is wrong with the arguments, without the command's usage; without arguments, the help."""
    message = error.format_message()
    if type(error).__name__ == "NoArgsIsHelpError":
        return message
    return f"harness: {message[:1].lower()}{' '.join(message[1:].split()).rstrip('.')}"
