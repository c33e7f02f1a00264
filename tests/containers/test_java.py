"""Build of the Java locks' program, with a fake Maven that only prints its arguments."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.clusters.docker.images import java
from harness.errors import EnvironmentLacking
from tests.containers.fakes import fake_tool


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "java"
    (folder / "run").mkdir(parents=True)
    (folder / "run" / "options").write_text("-jar\n")
    (folder / "target").mkdir()
    (folder / "target" / "left-over.jar").write_text("of another day")
    (folder / "pom.xml").write_text("<project/>")
    return folder


def test_all_jars_and_what_goes_beside_them_are_there(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = sorted(project.rglob("*"))
    fake_tool(
        "mvn", tmp_path, monkeypatch, "mkdir target && cp pom.xml target/locks.jar && touch target/lib.jar target/notes"
    )
    java.package(project, tmp_path / "program")
    assert sorted(path.name for path in (tmp_path / "program").iterdir()) == ["lib.jar", "locks.jar", "options"]
    assert (tmp_path / "program" / "locks.jar").read_text() == "<project/>"
    assert sorted(project.rglob("*")) == before, "the sources' folder is not Maven's to write into"


def test_errors_of_maven_are_quoted(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_tool("mvn", tmp_path, monkeypatch, "echo no such symbol; exit 1")
    with pytest.raises(EnvironmentLacking, match=r"could not build the project java; it says:\nno such symbol"):
        java.package(project, tmp_path / "program")
    assert not (tmp_path / "program").exists()


def test_a_build_without_a_jar_is_an_error(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_tool("mvn", tmp_path, monkeypatch, "exit 0")
    with pytest.raises(EnvironmentLacking, match="no jar in target/"):
        java.package(project, tmp_path / "program")


def test_without_maven_the_error_names_the_install_command(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentLacking, match=r"build the project java.*apt-get install maven"):
        java.package(project, tmp_path / "program")
