"""Assembly of a Node lock program."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.clusters.docker.images import npm
from harness.clusters.docker.images.contexts import CONTEXTS
from harness.errors import EnvironmentLacking
from tests.containers.fakes import fake_tool

NODE = CONTEXTS / "node"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "node"
    folder.mkdir()
    for name in ("Dockerfile", "package.json", "package-lock.json", "program.js"):
        (folder / name).write_text(name)
    return folder


def test_the_program_and_its_libraries_are_put_together(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_tool("npm", tmp_path, monkeypatch, "mkdir node_modules; echo $* >node_modules/asked")
    before = sorted(source.iterdir())
    npm.install(source, tmp_path / "target")
    made = tmp_path / "target"
    assert sorted(path.name for path in made.iterdir()) == [
        "node_modules", "package-lock.json", "package.json", "program.js",
    ]  # fmt: skip
    assert (made / "node_modules" / "asked").read_text().startswith("ci --omit=dev --ignore-scripts")
    assert sorted(source.iterdir()) == before


def test_libraries_that_a_developer_has_in_the_folder_are_not_taken(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (source / "node_modules").mkdir()
    (source / "node_modules" / "old").touch()
    fake_tool("npm", tmp_path, monkeypatch, "mkdir node_modules; echo new >node_modules/new")
    npm.install(source, tmp_path / "target")
    assert [path.name for path in (tmp_path / "target" / "node_modules").iterdir()] == ["new"]


def test_errors_of_npm_are_quoted(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_tool("npm", tmp_path, monkeypatch, "echo no such version >&2; exit 1")
    with pytest.raises(EnvironmentLacking, match=r"could not install what node needs(?s:.*)no such version"):
        npm.install(source, tmp_path / "target")
    assert not (tmp_path / "target").exists()


def test_without_npm_the_error_names_the_install_command(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentLacking, match="apt-get install npm"):
        npm.install(source, tmp_path / "target")


def test_every_library_is_pinned_by_its_hash_and_names_no_registry() -> None:
    wanted = json.loads((NODE / "package.json").read_text())["dependencies"]
    locked = json.loads((NODE / "package-lock.json").read_text())["packages"]
    assert locked.pop("")["dependencies"] == wanted
    assert {name: locked[f"node_modules/{name}"]["version"] for name in wanted} == wanted
    assert all(package["integrity"] and "resolved" not in package for package in locked.values())
