"""Help texts, the version, and loading of the commands."""

from __future__ import annotations

import builtins
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from harness import cli
from harness.__main__ import main as harness_command
from harness.cli.main import COMMANDS, main

from .commands import harness


def test_version_option_prints_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert harness("--version") == 0
    assert capsys.readouterr().out == f"harness {version('lock-harness')}\n"


def test_an_interrupt_during_loading_exits_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(name: str, *arguments: Any) -> Any:
        if name == "harness.cli.main":
            raise KeyboardInterrupt
        return imported(name, *arguments)

    imported = builtins.__import__
    monkeypatch.setattr(builtins, "__import__", interrupted)
    with pytest.raises(SystemExit) as ended:
        harness_command()
    assert ended.value.code == 130


@pytest.mark.parametrize("arguments", [[], ["cluster"]])
def test_help_is_printed_without_arguments(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(arguments)
    assert "Commands:" in "".join(capsys.readouterr())


def test_the_list_of_commands_is_that_of_the_command_modules() -> None:
    """Their modules are loaded on use, so ``harness --help`` could list a command that does not exist, or lack one."""
    folder = Path(cli.__file__).parent
    modules = {path.stem for path in folder.glob("*.py") if re.search(r"^app = ", path.read_text(), re.MULTILINE)}
    assert modules - {"main"} == set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_each_listed_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert harness(name, "--help") == 0
    assert f"Usage: harness {name} " in capsys.readouterr().out
