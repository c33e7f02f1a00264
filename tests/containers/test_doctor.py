"""Output and exit status of ``harness doctor``."""

from __future__ import annotations

import io
import json
from importlib import metadata
from pathlib import Path

import pytest
from rich.console import Console

from harness.cli import doctor
from harness.cli.doctor_trial import KIND
from harness.cli.main import main
from harness.clusters.docker.containers.engine import connect, find_clusters
from harness.clusters.docker.images import base_image, golang
from harness.clusters.docker.images.images import Images, quiet
from harness.errors import MISSING, USAGE, VALID
from tests.containers.fakes import images_of
from tests.containers.routeless import without_a_route


def run_doctor(monkeypatch: pytest.MonkeyPatch, address: str) -> tuple[int, str]:
    monkeypatch.setenv("DOCKER_HOST", address)
    console = Console(file=io.StringIO(), width=80)
    status = doctor.doctor(console)
    assert isinstance(console.file, io.StringIO)
    return status, " ".join(console.file.getvalue().split())  # wrapped where the paths of this machine have it


def test_doctor_without_an_engine_names_the_command_that_installs_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    status, text = run_doctor(monkeypatch, f"unix://{tmp_path}/nobody.sock")
    assert status == MISSING
    assert "Docker engine: apt-get install docker.io" in text
    assert "No such file or directory" in text
    assert "not possible until" in text


def test_json_has_the_versions_and_each_finding(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    with pytest.raises(SystemExit) as ended:
        main(["doctor", "--json"])
    document = json.loads(capsys.readouterr().out)
    assert (ended.value.code, document["ready"]) == (MISSING, False)
    assert document["harness"] == metadata.version("lock-harness")
    engine = next(finding for finding in document["findings"] if finding["name"] == "Docker engine")
    assert (engine["state"], "apt-get install" in engine["install"]) == ("missing", True)


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "nonsense", "ssh://nobody@127.0.0.1"])
def test_doctor_survives_any_docker_host(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    assert run_doctor(monkeypatch, address)[0] == MISSING


@pytest.mark.parametrize(
    ("here", "pull", "make", "state", "install"),
    [
        (base_image.OWN, False, False, "ok", ""),
        (None, True, False, "ok", ""),
        (None, False, True, "ok", ""),
        (None, False, False, "missing", "debootstrap"),
    ],
)
def test_doctor_on_the_base(
    monkeypatch: pytest.MonkeyPatch, here: str | None, pull: bool, make: bool, state: str, install: str
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    found = doctor._base(here, pull, make)
    assert (found.state, install in found.install) == (state, True)


def test_doctor_says_which_go_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    made = images_of()
    monkeypatch.setattr(doctor, "_go_version", lambda: None)
    assert doctor._toxiproxy(made, made.toxiproxy_recipe()).install == golang.GO.install
    monkeypatch.setattr(doctor, "_go_version", lambda: (1, 2))
    assert "this is 1.2" in doctor._toxiproxy(made, made.toxiproxy_recipe()).seen
    monkeypatch.setattr(doctor, "_go_version", lambda: (9, 0))
    assert doctor._toxiproxy(made, made.toxiproxy_recipe()).state == "ok"


@pytest.mark.docker
def test_doctor_reports_nothing_missing_with_an_engine() -> None:
    text = io.StringIO()
    assert doctor.doctor(Console(file=text, width=200)) == VALID, text.getvalue()


@pytest.mark.docker
@pytest.mark.parametrize(
    ("way", "status", "told"),
    [
        ("auto", VALID, "reached through the engine, since this machine does not reach the addresses of containers"),
        ("engine", VALID, "reached through the engine, since HARNESS_CONTROL demands it"),
        ("direct", MISSING, "HARNESS_CONTROL=direct, but this machine does not reach the addresses of containers"),
        ("phone", USAGE, "HARNESS_CONTROL: got 'phone', expected auto, direct or engine"),
    ],
)
def test_doctor_says_how_containers_are_reached_without_a_route_to_them(way: str, status: int, told: str) -> None:
    Images(connect(), quiet).client()  # without an image there is nothing to try
    done = without_a_route("doctor", HARNESS_CONTROL=way)
    assert (done.returncode, told in " ".join(f"{done.stdout}{done.stderr}".split())) == (status, True), done
    assert not [cluster for cluster in find_clusters(connect()) if cluster.kind == KIND and not cluster.alive]


@pytest.mark.docker
def test_doctor_says_how_containers_are_reached_with_a_route_to_them() -> None:
    Images(connect(), quiet).client()
    text = io.StringIO()
    assert doctor.doctor(Console(file=text, width=400)) == VALID
    assert "programs in containers are reached by their addresses" in text.getvalue()
