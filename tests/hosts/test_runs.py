"""Runs on machines, from the plan to the verdict; and what they would record if a fault did nothing."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.checkers.machine_clocks import machines_of
from harness.clusters.ssh.cluster import SshCluster
from harness.plan import FaultSpec, Plan
from harness.run.check.checking import check
from harness.run.runs import run

from .bench import Bench, on_bench
from .machines import AHEAD_S, Machines

pytestmark = [pytest.mark.docker]
SECOND = 1_000_000_000


def test_a_paused_client_is_found_by_the_clocks_of_three_machines(hosts: Machines, tmp_path: Path) -> None:
    """c1's machine and c2's have monotonic clocks of their own. All share the wall clock of this machine, which says
    what their entries' times should be."""
    plan = Plan(
        lock="redis-token", cluster="ssh", hosts=("h1", "h2", "h3"), ssh_config=str(hosts.config), clients=3, ttl=1.0,
        hold=0.3, time_limit=8.0, faults=(FaultSpec("client-pause", on="acquire", nth=4, for_=2.5),),
    )  # fmt: skip
    result = run(plan, store=tmp_path)
    assert result.valid is False
    assert result.verdicts["mutual-exclusion"].valid is False
    clients = {op.node for op in result.history if op.process >= 0}
    assert clients == {"c0", "c1", "c2"}
    machines = {client: machine for machine in machines_of(result.history) for client in machine.clients}
    start = result.history[0]
    for op in result.history:
        if op.process >= 0:
            apart = (op.wall - start.wall) - (op.time - start.time)
            # both clocks are read one after the other, on a busy machine with a pause in between
            assert abs(apart) <= machines[op.node or ""].error_ns + SECOND // 4, op
    assert result.results.cluster.server.startswith("redis ")  # type: ignore[union-attr]
    assert "monotonic clocks were measured" in str(result.results.cluster.clock)
    assert result.folder is not None
    assert check(result.folder, "owner-mutex").verdict.valid is False
    assert (result.folder / "keys.jsonl").read_text().count('"owner"') > 1
    assert [hosts.remains(name) for name in ("h1", "h2", "h3")] == ["", "", ""]


def test_the_measured_offsets_are_those_of_the_time_namespaces(hosts: Machines) -> None:
    """All machines have one kernel, so the true offsets are known exactly."""

    def check_offsets(bench: Bench) -> None:
        time.sleep(2)
        for name, clock in bench.cluster._machine_clocks.items():
            error_ns = clock.stated().error_ns
            assert abs(clock.offset_ns - AHEAD_S.get(name, 0) * SECOND) <= error_ns, name
            assert error_ns < SECOND // 4
            print(f"{name}: {error_ns} ns")

    on_bench(hosts, "redis-token", check_offsets, (), hosts=("h1", "h2", "h3"), clients=1)


class _InertCluster(SshCluster):
    """Faults that do nothing on the machines."""

    def _apply(self, scripts: Mapping[str, str]) -> None:
        """No rule is set."""

    def _signal(self, host: str, op: str) -> None:
        """No process is stopped or killed."""

    def move(self, host: str, offset_ns: int, rate: float, since_ns: int) -> None:
        """No clock is moved."""


def test_faults_that_do_nothing_are_recorded_as_without_effect(
    hosts: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.clusters.ssh.cluster.SshCluster", _InertCluster)
    seen: dict[str, Any] = {}

    def check_faults(bench: Bench) -> None:
        bench.patience_s = 0.5  # for the heal of a kill that was none
        for name in ("partition-node", "server-pause", "kill", "clock-jump"):
            with bench.fault(name, target="n1") as record:
                seen[name] = record

    on_bench(hosts, "redlock", check_faults, ("partition-node",), hosts=("h1", "h2", "h3"), clients=2)
    assert {name: record.seen for name, record in seen.items()} == dict.fromkeys(seen, False)
    assert len(seen) == 4
    assert all(record.error.startswith("no effect seen") for record in seen.values())
