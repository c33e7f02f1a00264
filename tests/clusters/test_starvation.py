"""CPU starvation: parameters that no kernel grants, the heal, and what it does to a lock on containers."""

from __future__ import annotations

import subprocess
import sys
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.clusters.abilities import PROCESSORS
from harness.clusters.docker.cluster import DockerCluster
from harness.clusters.docker.helper.cgroups import BUSY
from harness.clusters.docker.processors import Processors
from harness.clusters.real_cluster import RealCluster
from harness.errors import UsageError
from harness.faults.catalogue import build_fault, default_specs
from harness.plan import FaultSpec, Plan
from harness.run.runs import run
from tests.clusters.bench import AnyCluster, Bench, fault, scene, until_healed


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"share": 0.0}, r"share"),
        ({"share": 1.0}, r"share"),
        ({"period": 2.0}, r"period"),
        ({"share": 0.005, "period": 0.1}, r"share: got 0.005, expected 0.01 or more: a period of 0.1 s has a quota"),
    ],
)
def test_a_quota_that_no_kernel_grants_is_refused(params: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=f"fault 'cpu-starvation', params: .*{message}"):
        build_fault(FaultSpec("cpu-starvation", at=0.0, params=params))


def test_a_busy_process_ends_with_the_helper() -> None:
    helper = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    load = subprocess.Popen(["sh", "-c", BUSY, "load", str(helper.pid)])
    try:
        assert load.poll() is None
        helper.kill()
        helper.wait()
        assert load.wait(60) == 0
    finally:
        load.kill()
        load.wait()


class _Starved(DockerCluster):
    """Notes the steps of its end."""

    def __init__(self) -> None:
        RealCluster.__init__(self)
        self.done: list[str] = []
        self._report = lambda line: None
        self._processors = cast(Processors, SimpleNamespace(release=lambda: self.done.append("release")))

    def _end_run(self) -> None:
        self.done.append("last entries")


def test_starved_clients_run_again_before_their_last_entries_are_awaited() -> None:
    """A run that ends at a violation heals no fault. Otherwise it would be unknown, since a client answers late."""
    cluster = _Starved()
    cluster.stop_all()
    assert cluster.done == ["release", "last entries"]


def test_a_starved_server_answers_late_and_each_limit_needs_its_own_end(bench: Bench) -> None:
    def story(cluster: AnyCluster) -> list[bool]:
        first = fault("cpu-starvation", target="n1", share=0.01, period=0.2).inject(scene(cluster))
        second = fault("cpu-starvation", target="n1", share=0.5, period=0.1).inject(scene(cluster))
        starved = [first.observe().effective]
        second.heal()
        starved.append(first.observe().effective)
        first.heal()
        healed = until_healed(first.healed).effective and until_healed(second.healed).effective
        return [*starved, healed, first.observe().effective]

    assert bench.on("redis-independent", story) == [True, True, True, False]


def test_a_starvation_that_does_not_heal_is_reported(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def story(cluster: AnyCluster) -> tuple[bool, bool]:
        processors = PROCESSORS.of(cluster)
        undone: list[Any] = []
        limit = processors.limit_processor

        def stubborn(*arguments: Any) -> Any:
            undone.append(limit(*arguments))
            return lambda: None

        with monkeypatch.context() as patch:
            patch.setattr(processors, "limit_processor", stubborn)
            damage = fault("cpu-starvation", target="n1", share=0.02, period=0.1).inject(scene(cluster))
        assert damage.observe().effective
        damage.heal()
        time.sleep(0.2)
        before = damage.healed().effective
        undone[0]()
        return before, until_healed(damage.healed).effective

    assert bench.on("redis-independent", story) == (False, True)


@pytest.mark.docker
@pytest.mark.xdist_group("docker")
def test_a_starved_holder_works_beyond_its_lease() -> None:
    faults = tuple(default_specs("cpu-starvation", 2.0))
    result = run(Plan(lock="redis-token", cluster="docker", time_limit=26.0, faults=faults))
    assert result.verdicts["faults"].valid is True
    assert result.verdicts["mutual-exclusion"].valid is False
