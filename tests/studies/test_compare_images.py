"""Comparisons of servers: the same plans on several images and releases."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.documents.versions import VersionPlan
from harness.errors import UsageError
from harness.faults.catalogue import default_specs
from harness.plan import Plan
from harness.reports import versions_report
from harness.studies.compare_images import ImagesRequest, compare_images
from harness.studies.server_images import plan_on
from harness.studies.versions import exit_status

PAUSED = Plan(
    lock="redis-token",
    kind="redis-single",
    cluster="docker",
    time_limit=12.0,
    faults=tuple(default_specs("client-pause", 2.0)),
)


def request(plan: Plan, *images: str) -> ImagesRequest:
    return ImagesRequest((VersionPlan(name="pause", plan=plan, seeds=(0,)),), images)


def test_a_release_is_an_option_of_the_servers_and_anything_else_an_image() -> None:
    assert plan_on(PAUSED, "default") == PAUSED
    assert plan_on(PAUSED, "valkey-9.1.2").server_options == {"release": "valkey-9.1.2"}
    assert plan_on(PAUSED, "redis:7.4").image == "redis:7.4"


@pytest.mark.parametrize(
    ("plan", "images", "told"),
    [
        (PAUSED, ("default",), "at least two different ones"),
        (PAUSED, ("default", "default"), "at least two different ones"),
        (PAUSED, ("default", ""), "at least two different ones"),
        (Plan(lock="redis-token"), ("default", "redis:7.4"), "--cluster docker"),
        (Plan(lock="etcd-mutex", kind="etcd", cluster="docker"), ("default", "valkey-9.1.2"), "release"),
    ],
)
def test_what_cannot_be_compared_is_refused_before_the_first_run(
    plan: Plan, images: tuple[str, ...], told: str
) -> None:
    with pytest.raises(UsageError, match=re.escape(told)):
        request(plan, *images).check()


@pytest.mark.docker
@pytest.mark.timeout(400)
def test_the_servers_that_ran_are_recorded_and_an_absent_image_is_unknown(tmp_path: Path) -> None:
    document = compare_images(request(PAUSED, "default", "valkey-9.1.2", "nobody/has:this"), store=tmp_path)
    found = {one.version: one for one in document.cells}
    assert found["default"].server.startswith("redis ")
    assert found["valkey-9.1.2"].server == "valkey 9.1.2"
    assert (found["default"].state, found["valkey-9.1.2"].state) == ("violated", "violated")
    assert found["nobody/has:this"].state == "unknown"
    assert "nobody/has:this is not present" in found["nobody/has:this"].reason
    assert exit_status(document) == 1
    assert len(list((tmp_path / "redis-token").glob("2*/results.json"))) == 2
    page = versions_report.write(document, tmp_path)
    assert "valkey 9.1.2" in page.read_text()
