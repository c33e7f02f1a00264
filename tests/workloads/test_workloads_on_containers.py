"""Workloads of the whole API of a lock, on containers: their clients call the same methods there."""

from __future__ import annotations

import pytest

from harness.plan import Plan
from harness.run.runs import run

CASES = [
    ("extend", "redis-py-lock"),
    ("extend", "memcached-token"),
    ("reuse", "redis-py-asyncio-lock"),
    ("reuse", "zookeeper-ephemeral"),
]


@pytest.mark.docker
@pytest.mark.parametrize(("workload", "lock"), CASES)
def test_a_workload_runs_in_client_containers(workload: str, lock: str) -> None:
    result = run(Plan(lock=lock, workload=workload, cluster="docker", clients=3, time_limit=25.0))
    if workload == "extend":
        answers = {(call.done.value or {}).get("extended") for call in result.history.calls("extend") if call.done}
        assert True in answers
        assert result.verdicts["extend"].valid is not False, result.verdicts["extend"].explanation
    else:
        assert {call.outcome for call in result.history.calls("release")} >= {"ok", "fail"}
        assert result.verdicts["release"].valid is not False, result.verdicts["release"].explanation
