"""Options that every command has, with the same meaning: -h, -q and -v; and the list of commands."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import typer
from typer.core import TyperCommand, TyperGroup

from harness.cli.main import COMMANDS, LazyCommands, app

from .commands import harness

ROOT = typer.main.get_command(app)


def leaves() -> Iterator[tuple[str, TyperCommand]]:
    assert isinstance(ROOT, LazyCommands)
    for name in COMMANDS:
        command = ROOT.get_command(None, name)
        if isinstance(command, TyperGroup):
            yield from ((f"{name} {member}", one) for member, one in command.commands.items())  # type: ignore[misc]
        else:
            assert command is not None
            yield name, command


@pytest.mark.parametrize(("name", "command"), list(leaves()))
def test_every_command_has_quiet_and_verbose(name: str, command: TyperCommand) -> None:
    texts = {spelling: option.help for option in command.params for spelling in option.opts}  # type: ignore[attr-defined]
    assert texts["-q"] == texts["--quiet"]
    assert texts["-q"].startswith("Print the result only")
    assert texts["-v"].startswith("Also print on stderr"), name


@pytest.mark.parametrize("name", ["", "run", "scenario run", "cluster up"])
def test_h_is_the_short_form_of_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert harness(*name.split(), "-h") == 0
    short = capsys.readouterr().out
    assert harness(*name.split(), "--help") == 0
    assert short == capsys.readouterr().out
    assert "-h, --help" in short


def test_each_command_is_one_line_of_the_help_on_80_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert harness("-h") == 0
    printed = capsys.readouterr().out.partition("Commands:\n")[2].splitlines()
    assert [line.split(maxsplit=1) for line in printed] == [[name, line] for name, line in COMMANDS.items()]


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        ("list workloads", "mutex"),
        ("show redlock", "E: saves double work"),
        ("scenario list rl-restart", "rl-restart"),
        ("scenario show rl-restart", "mutual-exclusion violated"),
        ("env list", ""),
    ],
)
def test_quiet_prints_the_result_and_nothing_else(
    arguments: str, printed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert harness(*arguments.split(), "-q") == 0
    said = capsys.readouterr()
    assert printed in said.out
    assert all(" " not in line or line == said.out.strip() for line in said.out.splitlines())
    assert said.err == ""


def test_verbose_names_the_origin_of_each_option_and_every_phase(capsys: pytest.CaptureFixture[str]) -> None:
    assert harness("run", "redis-token", "--time-limit", "5s", "-v", "--json") in (0, 3)
    said = capsys.readouterr()
    assert json.loads(said.out)["planned"] == 1
    lines = said.err.splitlines()
    assert "time_limit = 5.0 (command line)" in lines
    assert "clients = 5 (default)" in lines
    assert "lock = redis-token (command line)" in lines
    phases = [line.split(": ")[2] for line in lines if line.startswith("redis-token: 0:")]
    assert [phase for phase in ("running", "checking", "writing") if phase in phases] == [
        "running", "checking", "writing",
    ]  # fmt: skip


def test_a_command_that_is_not_verbose_prints_no_origins(capsys: pytest.CaptureFixture[str]) -> None:
    harness("list", "kinds", "-v")
    assert "what = kinds (command line)" in capsys.readouterr().err
    harness("list", "kinds")
    assert capsys.readouterr().err == ""


def test_verbose_and_quiet_contradict_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    assert harness("list", "kinds", "-q", "-v") == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert "--verbose and --quiet contradict each other" in said.err
