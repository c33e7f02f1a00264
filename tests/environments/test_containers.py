"""Client containers have the releases that a user requires, or the run is refused before it starts."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from harness import run
from harness.clusters.docker.images import wheelhouse
from harness.environments import resolution, uv
from harness.environments.interpreters import container_requirements
from harness.environments.resolution import resolved
from harness.errors import UsageError
from harness.plan import Plan
from harness.run.processes.client_contents import client_contents, client_versions
from harness.run.processes.interpreter import interpreter_of


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(resolution, "cache_dir", lambda: tmp_path)
    return tmp_path


def test_without_requirements_containers_have_the_releases_of_this_machine() -> None:
    assert container_requirements("redis-token") == ()
    assert client_contents(Plan(lock="redis-token")) == ((), None)
    assert client_versions(Plan(lock="redis-token"), ("redis",)) == {}


def test_a_users_requirement_takes_the_place_of_the_catalogues() -> None:
    assert container_requirements("python-redis-lock", ("redis==3.5.3",)) == (
        "redis==3.5.3",
        "python-redis-lock==4.0.1",
    )


def test_a_requirement_in_the_file_of_a_users_class_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    stated = '# /// script\n# dependencies = ["redis==3.5.3"]\n# ///\n'
    Path("old_release.py").write_text(f"{stated}import redis\n\n\nclass Lock: ...\n")
    assert container_requirements("old_release:Lock") == ("redis==3.5.3",)


@pytest.mark.parametrize("python", ["3.13", ">=3.12", "/usr/bin/python3"])
def test_a_python_that_containers_lack_is_refused(python: str) -> None:
    with pytest.raises(UsageError, match=r"client containers have Python 3\.11"):
        interpreter_of(Plan(lock="redis-token", cluster="docker", python=python))


@pytest.mark.parametrize("python", ["", "3.11", ">=3.11"])
def test_the_python_of_containers_is_accepted(python: str) -> None:
    assert container_requirements("redis-token", (), python) == ()


def test_a_resolution_is_kept(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, ...]] = []

    def run_uv(*arguments: str) -> str:
        calls.append(arguments)
        Path(arguments[arguments.index("-o") + 1]).write_text("redis==5.2.1\n# a comment\nmsgspec==0.20.0\n")
        return ""

    monkeypatch.setattr(uv, "run", run_uv)
    assert resolved(["redis==5.2.1"], []) == ("msgspec==0.20.0", "redis==5.2.1")
    assert resolved(["redis==5.2.1"], []) == ("msgspec==0.20.0", "redis==5.2.1")
    assert len(calls) == 1


def test_a_usual_library_that_contradicts_a_requirement_is_left_out(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted: list[list[str]] = []

    def run_uv(*arguments: str) -> str:
        wanted.append(Path(arguments[-1]).read_text().split("\n"))
        if "kazoo" in wanted[-1]:
            raise UsageError("contradiction")
        return ""

    monkeypatch.setattr(uv, "run", run_uv)
    resolved(["redis==5.2.1"], ["redlock-py"])
    assert wanted[-1] == ["redis==5.2.1", "redlock-py", "msgspec"]


def test_pinned_requirements_of_an_image_are_complete() -> None:
    assert wheelhouse.pins(["redis==5.2.1", "msgspec==0.20.0"]) == ("msgspec==0.20.0", "redis==5.2.1")


@pytest.mark.slow
def test_the_releases_of_this_machine_are_preferred(cache: Path) -> None:
    here = set(wheelhouse.pins())
    found = set(resolved(["redis==5.2.1"], []))
    assert "redis==5.2.1" in found
    assert {one for one in here if one.startswith(("kazoo", "msgspec", "redlock-py"))} <= found


@pytest.mark.docker
def test_a_client_in_a_container_has_the_required_release(tmp_path: Path) -> None:
    plan = Plan(lock="redis-token", cluster="docker", requires=("redis==5.2.1",), clients=2, time_limit=3.0)
    found = run(plan, store=tmp_path)
    assert found.results.versions["redis"] == "5.2.1"
    image = found.document["cluster"]["client_image"]
    command = ["docker", "run", "--rm", image, "python3", "-c", "import redis; print(redis.__version__)"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "5.2.1\n"
