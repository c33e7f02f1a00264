"""Annotations of failures in GitHub Actions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.cli.annotations import annotate, lock_place

from .commands import harness

LINE = re.compile(r"^::(error|warning) (.*?)::(.*)$", re.MULTILINE)
PAUSE = ["--nemesis", "client-pause", "--time-limit", "8s"]


@pytest.fixture(autouse=True)
def in_an_action(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))


@pytest.mark.slow
def test_a_violation_is_shown_at_the_class_of_the_lock(capsys: pytest.CaptureFixture[str]) -> None:
    assert harness("run", "mylock_cli:MyLock", *PAUSE, "-q") == 1
    ((level, properties, sentence),) = LINE.findall(capsys.readouterr().err)
    line = Path("mylock_cli.py").read_text().splitlines().index("class MyLock:") + 1
    assert (level, properties) == ("error", f"file=mylock_cli.py,line={line},title=mylock_cli%3AMyLock")
    assert sentence.startswith("Two clients held k0 at the same time")
    report = Path(sentence.rpartition("Report: ")[2])
    assert report.is_file()


def test_a_lock_of_the_catalogue_has_no_line_in_the_repository(capsys: pytest.CaptureFixture[str]) -> None:
    assert harness("run", "redis-token", *PAUSE, "--json") == 1
    said = capsys.readouterr()
    ((_, properties, _),) = LINE.findall(said.err)
    assert properties == "title=redis-token"
    assert "::error" not in said.out


def test_a_valid_run_and_a_run_elsewhere_have_no_annotation(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    annotate(True, "redis-token", "kept")
    monkeypatch.delenv("GITHUB_ACTIONS")
    annotate(False, "redis-token", "violated")
    said = capsys.readouterr()
    assert said.out + said.err == ""


def test_an_unknown_verdict_is_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    annotate(None, "redis-token", "no contention")
    assert capsys.readouterr().err == "::warning title=redis-token::no contention\n"


def test_data_cannot_end_or_forge_a_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    strange = tmp_path / "a,b:c%0Ad.py"
    annotate(False, "x,line=1::\n::error::y", "100 %0A\r\n::error::z", Path("r"), (strange, 3))
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said == (
        "::error file=a%2Cb%3Ac%250Ad.py,line=3,title=x%2Cline=1%3A%3A%0A%3A%3Aerror%3A%3Ay"
        "::100 %250A%0D%0A::error::z Report: r\n"
    )


def test_a_file_outside_of_the_repository_is_not_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path / "elsewhere"))
    annotate(False, "x", "y", None, (tmp_path / "mylock_cli.py", 1))
    assert capsys.readouterr().err == "::error title=x::y\n"


def test_the_file_of_a_scenario_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    from harness.scenarios import catalogue

    text = catalogue.find("rl-restart").path.read_text()
    Path("own.toml").write_text(text.replace("safe = false", "safe = true"))
    assert harness("scenario", "run", "own.toml", "--trust", "-q") in (1, 2)
    found = LINE.findall(capsys.readouterr().err)
    assert [properties.partition(",")[0] for _, properties, _ in found] == ["file=own.toml"]


@pytest.mark.parametrize(("lock", "line"), [("mylock_cli:MyLock", 4), ("mylock_cli:Nothing", 1), ("broken:X", 1)])
def test_the_line_of_a_class_is_found_without_an_import(lock: str, line: int) -> None:
    Path("broken.py").write_text("raise SystemExit\nclass X(:\n")
    place = lock_place(lock)
    assert place is not None
    assert place[1] == line


def test_a_module_that_is_nowhere_has_no_place() -> None:
    assert lock_place("nowhere.at.all:X") is None
    assert lock_place("redlock") is None
