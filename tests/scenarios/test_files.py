"""Every documented failure has a scenario and a cure, and their files contain all that a reader needs."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from harness.scenarios import catalogue
from harness.studies.nightly_cases import CLUSTERS, refusal

ROWS = (Path(__file__).parent / "rows.txt").read_text().split()
"""Ids of the rows in the project's table of anomalies."""
NAMES = catalogue.names()


REFUSED = {
    "sim": {
        # Locks in other languages, services without a simulated server, and features that the simulator does not have.
        "aps-clock", "aps-pause", "django-closed", "pg-adv-lost.psycopg",
        "clock-local-deadline.node", "consul-isolated.api", "etcd-11456.rpc", "etcd-pause.go", "fu-multi-primary",
        "getlock-multi-primary", "hz-lock", "k8s-clock-jump", "k8s-partition", "k8s-partition.release",
        "nats-expiry-unseen", "nats-power-loss", "natspy-dead-holder", "natspy-foreign-purge", "nrl-expired.node",
        "nrl-expired.release", "nrl-tie.split", "pg-adv-collision.tooz", "rds-counts-twice", "rds-fenced-get.java",
        "rds-multilock.java", "rds-one-replica", "rds-renew-stops.java", "redis-aof-1s", "redis-cluster-failover",
        "redis-cluster-failover.claim", "redis-cluster-minority", "redis-upgrade", "redsync-extend.go",
        "rl-pause-inflight.node", "rpy-cancel-acquire", "rpy-token-tasks", "sfy-initial-ttl", "sfy-stale-table",
        "sfy-whole-seconds", "sfy-whole-seconds.memcached", "shedlock-skew.java", "shedlock-skew.stale-now.java",
        "shedlock-unlock-foreign.java", "shedlock-unlock-foreign.redis", "spring-jdbc-skew", "spring-unlock.java",
        "spring-unlock.unlink.java",
    },
    "docker": {
        # Its times are a few milliseconds.
        "nrl-expired.redlock",
    },
}  # fmt: skip
"""Scenarios that a cluster refuses. Without this list nothing would notice if it refused another one."""


@cache
def refused(name: str, cluster: str) -> bool:
    return bool(refusal(catalogue.find(name).plan, cluster))


@pytest.mark.slow
@pytest.mark.parametrize("cluster", REFUSED)
def test_clusters_refuse_only_the_listed_scenarios(cluster: str) -> None:
    assert {name.removesuffix(".safe") for name in NAMES if refused(name, cluster)} == REFUSED[cluster]


@pytest.mark.slow
def test_some_cluster_can_run_each_scenario() -> None:
    assert [name for name in NAMES if all(refused(name, cluster) for cluster in CLUSTERS["both"])] == []


@pytest.mark.parametrize("row", ROWS)
def test_every_documented_failure_has_a_scenario_and_a_cure(row: str) -> None:
    own = [catalogue.find(name) for name in NAMES if name.partition(".")[0] == row]
    assert [scenario for scenario in own if scenario.plan.expect and not scenario.plan.expect.safe]
    assert [scenario for scenario in own if scenario.plan.expect and scenario.plan.expect.safe]


@pytest.mark.parametrize("name", NAMES)
def test_scenario_file_is_complete(name: str) -> None:
    """It has a title, a text and an expectation with a time, and its counterpart exists."""
    plan = catalogue.find(name).plan
    assert plan.expect is not None
    assert name.endswith(".safe") == plan.expect.safe
    assert (name.removesuffix(".safe") if plan.expect.safe else f"{name}.safe") in NAMES
    assert len(plan.about) > 40
    assert len(plan.title) < 140
    assert not re.search(r"\d [A-Z] ", plan.title), "a title is a sentence, not a list of steps"
    assert plan.expect.safe or plan.expect.within


def test_a_scenario_of_the_catalogue_is_read_once_and_a_users_file_each_time(tmp_path: Path) -> None:
    found = catalogue.find("ttl-overrun")
    assert catalogue.find("ttl-overrun") is found
    own = tmp_path / "own.toml"
    for seed in (1, 2):
        own.write_text(f'lock = "redis-token"\nseed = {seed}\n')
        assert catalogue.find(str(own)).plan.seed == seed
