"""Shell completion: what a shell gets for a line that is typed, and that the script for each shell can be printed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .commands import harness


def completed(line: str, folder: Path) -> list[str]:
    """Return what bash offers at the end of a line, from the command in a process of its own."""
    words = line.split(" ")
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "_HARNESS_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
    }
    result = subprocess.run(
        [sys.executable, "-m", "harness"], env=environment, cwd=folder, capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout.split()


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("harness co", ["compare", "conformance"]),
        ("harness run redis-token-", ["redis-token-getdel"]),
        ("harness run redlock --nemesis clock-skew,clock-s", ["clock-skew,clock-strobe"]),
        ("harness scenario run rl-restart.", ["rl-restart.safe"]),
        ("harness scenario r", ["run"]),
        ("harness check x --model lease-", ["lease-mutex"]),
        ("harness list ki", ["kinds"]),
        ("harness run redlock --cluster d", ["docker"]),
        ("harness run no-such-lock", []),
    ],
)
def test_names_are_completed(line: str, offered: list[str], tmp_path: Path) -> None:
    assert completed(line, tmp_path) == offered


def test_a_mistake_in_the_projects_file_does_not_disturb_completion(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.harness]\nnonsense = 1\n")
    assert completed("harness run redis-token-", tmp_path) == ["redis-token-getdel"]


@pytest.mark.parametrize(("shell", "status"), [("bash", 0), ("zsh", 0), ("fish", 0), ("csh", 4)])
def test_the_script_of_the_shell_is_printed(
    shell: str, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("typer.completion._get_shell_name", lambda: shell)
    assert harness("--show-completion") == status
    assert ("_HARNESS_COMPLETE" in capsys.readouterr().out) is (status == 0)


def test_a_name_that_was_given_is_not_offered_again() -> None:
    from harness.cli.completion import complete_nemeses

    assert "clock-skew,clock-skew" not in complete_nemeses("clock-skew,")
    assert "clock-skew,client-pause" in complete_nemeses("clock-skew,")
