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
def test_a_key_is_the_long_name_of_its_option(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    project.write_text('[tool.harness.run]\nwith = ["no such requirement"]\n')
    assert status_of("run", "redis-token") == 2
    assert "no such requirement" in capsys.readouterr().err.splitlines()[-1]


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
        ("[tool.harness.run]\nclients = 'many'\n", "invalid value for '--clients': "),
        ("[tool.harness.run]\nstop_on_violation = 'yes'\n", "stop_on_violation is true or false, got 'yes'"),
        ("[tool.harness.run.seed]\n", "tool.harness: seed: expected a value of --seed, got a table"),
        ("[tool.harness.run]\nout = 5\n", "tool.harness: out: expected a path in quotes, got 5"),
        ("[tool]\nharness = 3\n", "tool.harness: expected a table, got 3"),
        ("tool = 3 # harness\n", "tool: expected a table, got 3"),
        (f"[tool.harness]\nseed = {'1' * 5000}\n", "Exceeds the limit"),
        ("[ tool . harness ]\nrun = 3\n", "tool.harness.run: expected a table, got 3"),
        ("[tool]\nharness.sed = 3\n", "unknown key in tool.harness 'sed': did you mean seed"),
        ("[tool.harness]\nnoption = 3\n", "check, cluster, compare,"),
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


def test_a_group_of_commands_takes_defaults_for_all_and_for_one(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project.write_text(
        '[tool.harness]\nout = "kept"\n'
        '[tool.harness.scenario]\ncluster = "sim"\n[tool.harness.scenario.list]\njson = true\n'
    )
    assert status_of("scenario", "run", "rl-client-clock", "-v") == 0
    said = capsys.readouterr().err.splitlines()
    assert f"out = kept ({project})" in said
    assert f"cluster = sim ({project})" in said
    assert "seed = 3 (command line)" not in said
    assert status_of("scenario", "list", "rl-client-clock") == 0
    assert json.loads(capsys.readouterr().out)[0]["name"] == "rl-client-clock"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[tool.harness.scenario]\nclustr = 'sim'\n", "unknown key in tool.harness.scenario 'clustr': did you mean"),
        ("[tool.harness.scenario.run]\nsed = 1\n", "key in tool.harness.scenario.run 'sed': did you mean seed"),
        ("[tool.harness.scenario]\nrun = 3\n", "tool.harness.scenario.run: expected a table, got 3"),
    ],
)
def test_a_wrong_key_of_a_group_is_refused(
    project: Path, text: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    project.write_text(text)
    assert status_of("scenario", "list") == 2
    said = capsys.readouterr().err
    assert said.startswith(f"harness: {project}: ")
    assert message in said
    assert said.count("\n") == 1


def test_the_values_that_a_command_takes_from_the_project_are_named(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project.write_text('[tool.harness]\naccept = ["known-limits"]\nseed = 7\n[tool.harness.run]\ntime_limit = "5s"\n')
    status_of("run", "redis-token", "--seed", "1")
    said = capsys.readouterr().err.splitlines()
    assert f"defaults from {project}: accept = known-limits, time_limit = 5s" in said
    status_of("run", "redis-token", "--seed", "1", "-q")
    assert capsys.readouterr().err == ""
    status_of("list", "kinds")
    assert capsys.readouterr().err == "", "a command without these options takes none"


def test_a_flag_of_the_project_can_be_taken_back(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    project.write_text("[tool.harness.list]\nquiet = true\n")
    assert status_of("list", "kinds") == 0
    quiet = capsys.readouterr().out
    assert status_of("list", "kinds", "--no-quiet") == 0
    assert len(capsys.readouterr().out) > len(quiet)


def test_help_shows_the_defaults_of_the_project(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    project.write_text("[tool.harness.run]\nclients = 3\n")
    assert status_of("run", "-h") == 0
    assert "compete for the lock. [default: 3]" in " ".join(capsys.readouterr().out.split())


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
