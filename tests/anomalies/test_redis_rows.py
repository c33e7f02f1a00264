"""Every documented failure of a Redis lock is found by the checker that is named for it, and its cure passes: on the
simulator, and a choice of them on containers (all that need no ``request:`` or ``reply:`` event do)."""

from __future__ import annotations

import msgspec
import pytest

from harness.plan import Plan
from harness.runs import Result, run
from tests.anomalies.rows import ROWS, Row

ON_DOCKER = ("ttl-pause-write", "redis-async-failover", "rl-restart", "getset-client-skew", "rl-clock-jump")
"""A pause of a client, a failover, a loss of data, a client's clock, servers' clocks."""
REAL = [row for row in ROWS if row.id in ON_DOCKER]


def on_docker(plan: Plan) -> Plan:
    return msgspec.structs.replace(plan, cluster="docker", time_limit=min(plan.time_limit, 30.0))


def explained(result: Result) -> str:
    return "\n".join(f"{name}: {verdict.valid} {verdict.explanation}" for name, verdict in result.verdicts.items())


def check_faults_seen(result: Result) -> None:
    assert result.verdicts["faults"].valid is True, explained(result)
    assert len(result.document["faults"]) >= len(result.plan.faults), "every fault of the story struck"


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_the_failure_is_found(row: Row, seed: int) -> None:
    result = run(msgspec.structs.replace(row.broken, seed=seed))
    check_faults_seen(result)
    for checker, valid in {row.checker: False, **row.also}.items():
        assert result.verdicts[checker].valid is valid, explained(result)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_the_cure_passes(row: Row, seed: int) -> None:
    result = run(msgspec.structs.replace(row.fixed, seed=seed))
    check_faults_seen(result)
    assert result.verdicts[row.checker].valid is True, explained(result)


def test_the_rows_for_docker_exist() -> None:
    assert sorted(row.id for row in REAL) == sorted(ON_DOCKER)


@pytest.mark.docker
@pytest.mark.parametrize("row", REAL, ids=lambda row: row.id)
def test_the_failure_is_found_on_containers(row: Row) -> None:
    result = run(on_docker(row.broken))
    check_faults_seen(result)
    for checker, valid in {row.checker: False, **row.also}.items():
        assert result.verdicts[checker].valid is valid, explained(result)


@pytest.mark.docker
@pytest.mark.parametrize("row", REAL, ids=lambda row: row.id)
def test_the_cure_passes_on_containers(row: Row) -> None:
    result = run(on_docker(row.fixed))
    check_faults_seen(result)
    assert result.verdicts[row.checker].valid is True, explained(result)
