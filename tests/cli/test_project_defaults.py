"""Defaults of commands and tests from ``[tool.harness]`` in a project's ``pyproject.toml``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.cli.main import main
from harness.errors import UsageError
from harness.plan.project import project_defaults
from harness.pytest.options import plan_by

ACCEPTING = '[tool.harness]\naccept = ["known-limits"]\nrequire = ["mutual-exclusion", "resource"]\n'


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the ``pyproject.toml`` of a project whose folder ``below`` is the working directory."""
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    return tmp_path / "pyproject.toml"


def status_of(*arguments: str) -> object:
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    return ended.value.code


def run(capsys: pytest.CaptureFixture[str], *more: str) -> dict[str, object]:
    status_of("run", "redis-token", "--nemesis", "client-pause", "--json", *more)
    document: dict[str, object] = json.loads(capsys.readouterr().out)["runs"][0]["results"]
    return document


def test_a_command_takes_its_defaults_from_the_project(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    project.write_text(f'{ACCEPTING}out = "kept"\n[tool.harness.run]\ntime_limit = "8s"\nclients = 3\n')
    document = run(capsys)
    assert (document["verdict"], document["valid"]) == ("valid except for known limits", True)
    assert document["plan"]["time_limit"] == 8.0  # type: ignore[index]
    assert document["plan"]["clients"] == 3  # type: ignore[index]
    required = {name for name, it in document["checkers"].items() if it["required"]}  # type: ignore[attr-defined]
    assert required == {"mutual-exclusion", "resource", "faults", "exposure"}
    assert (project.parent / "below" / "kept" / "redis-token").is_dir()


@pytest.mark.slow
def test_an_argument_wins_over_the_project(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    project.write_text(f'{ACCEPTING}[tool.harness.run]\ntime_limit = "20s"\n')
    document = run(capsys, "--time-limit", "8s", "--accept", "")
    assert (document["verdict"], document["plan"]["time_limit"]) == ("violation found", 8.0)  # type: ignore[index]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[tool.harness]\nacept = "x"\n', "unknown key in tool.harness 'acept': did you mean accept"),
        (
            "[tool.harness.run]\ntimelimit = 3\n",
            "unknown key in tool.harness.run 'timelimit': did you mean time_limit?",
        ),
        ("[tool.harness]\nrun = 3\n", "tool.harness.run: expected a table, got 3"),
        ("[tool.harness\n", "pyproject.toml: Expected"),
        ("[tool]\nharness = 3\n# tool.harness\n", "tool.harness: expected a table, got 3"),
    ],
)
def test_a_wrong_table_is_one_message_that_names_the_file(
    project: Path, text: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    project.write_text(text)
    assert status_of("run", "redis-token") == 2
    told = capsys.readouterr().err
    assert str(project) in told
    assert message in told
    assert told.count("\n") == 1


def test_a_project_without_the_table_changes_nothing(project: Path) -> None:
    assert project_defaults()[1] == {}
    project.write_text("[project]\nname = 'x'\n")
    assert project_defaults() == (project, {})


def test_a_test_takes_what_decides_the_verdict_from_the_project(project: Path) -> None:
    project.write_text(ACCEPTING)
    plan = plan_by("redis-token", {}, None)
    assert (plan.accept, plan.require) == (("known-limits",), ("mutual-exclusion", "resource"))
    assert plan_by("redis-token", {"accept": []}, None).accept == ()


def test_a_wrong_word_in_accept_is_refused(project: Path) -> None:
    project.write_text('[tool.harness]\naccept = ["known-limit"]\n')
    with pytest.raises(UsageError, match="did you mean known-limits"):
        plan_by("redis-token", {}, None)
