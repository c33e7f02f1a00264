"""Nightly runs on several images of servers: which scenario runs where, what is refused, and the matrix."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from harness.cli import nightly as command
from harness.documents import plain
from harness.errors import EnvironmentLacking, UsageError
from harness.reports import nightly_report
from harness.scenarios import catalogue
from harness.studies.nightly import nightly
from harness.studies.nightly_cases import Case, cases
from harness.studies.scenario_command import scenario_command
from harness.studies.server_images import service_of
from tests.reports import nights

STORIES = ("ttl-pause-write", "ttl-pause-write.safe", "etcd-lease-clock-back")


@pytest.mark.parametrize(
    ("image", "service"),
    [
        ("default", ""),
        ("redis-6.2.14", "redis"),
        ("valkey-9.1.2", "redis"),
        ("redis:7.4", "redis"),
        ("valkey/valkey:8", "redis"),
        ("quay.io/coreos/etcd:v3.5.17", "etcd"),
        ("localhost:5000/own/zookeeper@sha256:0123", "zookeeper"),
        ("mariadb:11", "mysql"),
        ("bitnami/etcd-debian:3.6", "etcd"),
        ("nats", "nats"),
        ("postgres-16.15", "postgres"),
        ("postgres:16-alpine", "postgres"),
        ("bitnami/postgresql:17", "postgres"),
    ],
)
def test_the_name_of_an_image_says_its_service(image: str, service: str) -> None:
    assert service_of(image) == service


def test_an_image_whose_name_says_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match=r"'registry:5000/ours:1' does not say which service .* etcd, .*valkey"):
        service_of("registry:5000/ours:1")


def chosen(*images: str) -> list[Case]:
    return cases("full", "docker", [catalogue.find(name) for name in STORIES], images=images)


def test_each_scenario_runs_on_the_images_of_its_service() -> None:
    found = [(case.scenario, case.image) for case in chosen("default", "valkey-9.1.2", "etcd-3.6.16", "redis:7.4")]
    redis = ("default", "valkey-9.1.2", "redis:7.4")
    assert found == [
        *((name, image) for name in STORIES[:2] for image in redis),
        *((STORIES[2], image) for image in ("default", "etcd-3.6.16")),
    ]


def test_scenarios_whose_servers_an_image_lacks_are_left_out() -> None:
    names = ("pg-adv-lost", "pg-adv-failover", "pg-pgbouncer-shared", "getlock-idle", "getlock-multi-primary")
    images = ("default", "postgres-16.15", "postgres:16", "mariadb-11.8")
    found = cases("full", "docker", [catalogue.find(name) for name in names], images=images)
    assert [(case.scenario, case.image) for case in found] == [
        *(("pg-adv-lost", image) for image in images[:3]),
        *(("pg-adv-failover", image) for image in ("default", "postgres:16")),  # pg_basebackup is in no release
        *(("getlock-idle", image) for image in ("default", "mariadb-11.8")),
    ]


def test_the_plan_names_the_servers() -> None:
    default, release, image = (case.plan for case in chosen("default", "etcd-3.6.16", "quay.io/coreos/etcd:v3.5"))
    assert (default.image, default.server_options) == ("", {})
    assert (release.image, release.server_options) == ("", {"release": "etcd-3.6.16"})
    assert (image.image, image.server_options) == ("quay.io/coreos/etcd:v3.5", {})


def test_the_command_of_a_scenario_names_only_what_differs() -> None:
    assert scenario_command("get-del-gap", "sim", image="default") == "harness scenario run get-del-gap --cluster sim"
    assert scenario_command("my story.toml", "docker", image="redis:7.4", seed=0, options=["--trust"]) == (
        "harness scenario run 'my story.toml' --cluster docker --image redis:7.4 --seed 0 --trust"
    )


def test_scenarios_of_other_services_are_left_out() -> None:
    assert {case.scenario for case in chosen("default", "etcd-3.6.16")} == {STORIES[2]}


@pytest.mark.parametrize(
    ("cluster", "images", "told"),
    [
        ("sim", ("default", "redis-6.2.14"), "--images compares real servers: add --cluster docker"),
        ("both", ("default", "redis-6.2.14"), "add --cluster docker"),
        ("docker", ("redis-6.2.14",), "at least two different ones"),
        ("docker", ("redis-6.2.14", "redis-6.2.14"), "at least two different ones"),
        ("docker", ("default", "ours:1"), "does not say which service"),
        ("docker", ("default", "redis-6.2.14", "mariadb:11"), "no scenario of the suite full runs on mariadb:11"),
    ],
)
def test_what_makes_no_matrix_is_refused_before_the_first_run(
    cluster: str, images: tuple[str, ...], told: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=re.escape(told)):
        nightly("full", cluster, store=tmp_path, scenarios=[catalogue.find(name) for name in STORIES], images=images)


def test_an_image_that_no_scenario_runs_on_is_named() -> None:
    with pytest.raises(UsageError, match=r"no scenario of the suite full runs on redis-6\.2\.14"):
        cases("full", "docker", [catalogue.find(STORIES[2])], images=("default", "redis-6.2.14"))


def test_images_and_exploration_are_refused_together(tmp_path: Path) -> None:
    found = CliRunner().invoke(
        command.app, ["--images", "default,redis:7.4", "--explore", "1m", "--out", str(tmp_path / "store")]
    )
    assert isinstance(found.exception, UsageError)
    assert "--images and --explore are different studies" in str(found.exception)


def matrix(**changed: object) -> nights.Json:
    outcomes = [
        nights.outcome("ttl-pause-write", "docker", image="default", server="redis 7.0.15"),
        nights.outcome("ttl-pause-write", "docker", image="valkey-9.1.2", server="valkey 9.1.2", state="missed"),
    ]
    return {**nights.night(21, outcomes, clusters=["docker"]), "images": ["default", "valkey-9.1.2"], **changed}


def test_the_page_has_a_column_for_each_image_and_says_what_ran(tmp_path: Path) -> None:
    page = nightly_report.write(nights.read(matrix()), tmp_path).read_text()
    assert '<th scope="col">default</th><th scope="col">valkey-9.1.2</th>' in page
    assert "<dt>valkey-9.1.2</dt><dd>valkey 9.1.2</dd>" in page
    assert "<dt>Clusters</dt>" not in page
    cells = re.findall(r'<td data-cluster="([^"]+)"><div class="lines">\s*<div class="said (\w+)">', page)
    assert cells == [("default", "valid"), ("valkey-9.1.2", "invalid")]


def test_a_matrix_has_no_place_in_the_history_of_nights() -> None:
    assert not nights.read(matrix()).comparable
    assert nights.read(matrix(images=[])).comparable


@pytest.mark.docker
@pytest.mark.timeout(600)
def test_one_scenario_on_two_servers_reports_both(tmp_path: Path) -> None:
    lines: list[str] = []
    found = nightly(
        "smoke",
        "docker",
        store=tmp_path,
        scenarios=[catalogue.find("ttl-pause-write")],
        images=("default", "valkey-9.1.2"),
        workers=1,
        progress=lambda _, text: lines.append(text),
    )
    assert [(one.image, one.state) for one in found.outcomes] == [
        ("default", "as-expected"),
        ("valkey-9.1.2", "as-expected"),
    ]
    assert [server for _, server in found.servers] == ["redis 7.0.15", "valkey 9.1.2"]
    assert [[trace.state for trace in one.traces] for one in found.outcomes] == [["possible"], []]
    assert found.status == 0
    assert plain(found)["images"] == ["default", "valkey-9.1.2"]
    assert msgspec.json.encode(found)


@pytest.mark.docker
def test_an_image_that_cannot_be_had_ends_it_before_the_first_run(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentLacking, match="nobody/redis:this is not present and cannot be pulled"):
        nightly(
            "smoke",
            "docker",
            store=tmp_path,
            scenarios=[catalogue.find("ttl-pause-write")],
            images=("default", "nobody/redis:this"),
        )
    assert not list(tmp_path.iterdir())
