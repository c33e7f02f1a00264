"""Images that a study builds before its first run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from harness.errors import EnvironmentLacking
from harness.faults.catalogue import default_specs
from harness.plan import Plan
from harness.run import opening
from harness.run.containers.container_images import build_images
from harness.studies.compare import Watch, compare
from harness.studies.compare.plans import ComparisonRequest

REDIS = Plan(lock="redis-token", kind="redis-single", cluster="docker", time_limit=60.0)
ETCD = Plan(lock="etcd-mutex", kind="etcd", cluster="docker", time_limit=60.0)


class FakeCluster:
    """Builds the images of a plan; fails if its servers are called ``missing``."""

    def __init__(self, plan: Plan, report: Callable[[str], None], built: list[Plan]) -> None:
        self._plan, self._report, self._built = plan, report, built

    def build_images(self) -> None:
        self._built.append(self._plan)
        self._report("redis image: Step 1/5")
        if self._plan.image == "missing":
            raise EnvironmentLacking("the image missing is not present")


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[Plan]:
    found: list[Plan] = []
    monkeypatch.setattr(opening, "open_containers", lambda plan, report: FakeCluster(plan, report, found))
    return found


def test_images_are_built_once_for_plans_that_need_the_same(built: list[Plan]) -> None:
    lines: list[str] = []
    build_images([REDIS, replace(REDIS, seed=1), replace(REDIS, cluster="sim"), ETCD], lines.append)
    assert [(plan.lock, plan.seed) for plan in built] == [("redis-token", 0), ("etcd-mutex", 0)]
    assert lines == ["redis image: Step 1/5"] * 2


def test_another_release_image_or_part_is_built_too(built: list[Plan]) -> None:
    others: tuple[dict[str, Any], ...] = (
        {"image": "redis:7.4"},
        {"server_options": {"release": "valkey-9.1.2"}},
        {"faults": tuple(default_specs("latency", 2.0))},
        {"lock": "redis-py-lock"},
    )
    build_images([REDIS, *(replace(REDIS, **other) for other in others)], lambda line: None)
    assert len(built) == 1 + len(others)


def test_what_cannot_be_built_is_said_and_left_to_its_run(built: list[Plan]) -> None:
    lines: list[str] = []
    build_images([replace(REDIS, image="missing"), ETCD], lines.append)
    assert lines[1] == "redis-token: the image missing is not present"
    assert built[-1].lock == "etcd-mutex"


def test_a_comparison_tells_its_builds_before_the_first_job(
    built: list[Plan], tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Told(Watch):
        def __init__(self) -> None:
            self.lines: list[str] = []

        def building(self, line: str) -> None:
            self.lines.append(line)

        def begun(self, job: Any) -> None:
            raise KeyboardInterrupt  # no run is made here

    watch = Told()
    request = ComparisonRequest(locks=("redis-token",), nemeses=("none",), cluster="docker", runs=1)
    document, _ = compare(request, store=tmp_path, workers=1, watch=watch)
    assert document.interrupted
    assert watch.lines == ["redis image: Step 1/5"] * len(built)
    assert built
