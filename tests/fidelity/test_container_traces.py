"""Traffic of servers in containers under faults: recorded in a run, stored with it, and possible on the simulator."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.clusters.wire import unpack
from harness.plan import FaultSpec, Plan
from harness.run.runs import run
from harness.studies.traces import check_run

pytestmark = pytest.mark.docker

FAULTS: dict[str, tuple[FaultSpec, str]] = {
    "client-pause": (FaultSpec("client-pause", on="acquire", nth=2, for_=3.0), ""),
    "clock-jump": (FaultSpec("clock-jump", on="acquire", nth=2, params={"by": 1.5}), "clock"),
    "kill": (FaultSpec("kill", at=1.5, for_=1.0, params={"target": "all"}), "kill"),
    "server-pause": (FaultSpec("server-pause", at=1.5, for_=1.0, params={"target": "all"}), "pause"),
}


@pytest.mark.parametrize("fault", list(FAULTS))
def test_traffic_under_a_fault_is_recorded_and_possible(tmp_path: Path, fault: str) -> None:
    spec, noted = FAULTS[fault]
    plan = Plan(lock="redis-token", cluster="docker", clients=3, time_limit=6.0, faults=(spec,))
    result = run(plan, store=tmp_path, record_wire=True)
    assert result.folder is not None
    found = check_run(result.folder)
    (server,) = found.servers
    assert (server.state, server.why, found.status) == ("possible", "", 0)
    assert server.requests > 100
    path = result.folder / "wire" / "n1.jsonl.gz"
    assert noted in {"", *(event.what for event in unpack(path.read_bytes(), path.name).events)}


ENSEMBLE: dict[str, tuple[str, FaultSpec]] = {
    "kill": ("etcd-mutex", FaultSpec("kill", at=1.0, for_=2.0)),
    "leader-loss": ("kazoo-lock", FaultSpec("leader-loss", at=1.0, for_=2.0)),
    "client-pause": ("zookeeper-ephemeral", FaultSpec("client-pause", on="acquire", nth=2, for_=4.0)),
}


@pytest.mark.parametrize("fault", list(ENSEMBLE))
def test_traffic_of_an_ensemble_is_possible(tmp_path: Path, fault: str) -> None:
    lock, spec = ENSEMBLE[fault]
    result = run(
        Plan(lock=lock, cluster="docker", clients=3, time_limit=8.0, faults=(spec,)), store=tmp_path, record_wire=True
    )
    assert result.folder is not None
    (ensemble,) = check_run(result.folder).servers
    assert (ensemble.host, ensemble.state, ensemble.why) == ("n1, n2, n3", "possible", "")
    assert ensemble.requests > 100


@pytest.mark.parametrize("lock", ["mysql-get-lock", "postgres-advisory", "consul-session"])
def test_traffic_of_sessions_that_end_with_a_kill_is_possible(tmp_path: Path, lock: str) -> None:
    spec = FaultSpec("kill", at=1.5, for_=1.0, params={"target": "all"})
    plan = Plan(lock=lock, cluster="docker", clients=3, time_limit=5.0, faults=(spec,))
    result = run(plan, store=tmp_path, record_wire=True)
    assert result.folder is not None
    (server,) = check_run(result.folder).servers
    assert (server.state, server.why) == ("possible", "")
    assert server.requests > 20


def test_run_records_nothing_unless_it_is_asked_to(tmp_path: Path) -> None:
    result = run(Plan(lock="redis-token", cluster="docker", clients=2, time_limit=2.0), store=tmp_path)
    assert result.folder is not None
    assert not (result.folder / "wire").exists()
