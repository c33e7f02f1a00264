"""Every documented failure has its files, and a reader learns from them what he wants to know."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.nightly import CLUSTERS, refusal
from scenarios import catalogue

ROWS = (Path(__file__).parent / "rows.txt").read_text().split()
"""The ids of the project's table of anomalies."""
NAMES = catalogue.names()


ELSEWHERE = {
    "sim": {
        # Locks in other languages, Hazelcast, and what a simulated server has not.
        "etcd-pause.go", "hz-lock", "nrl-expired.node", "nrl-tie.split", "rds-counts-twice", "rds-one-replica",
        "redis-aof-1s", "rpy-cancel-acquire", "rpy-token-tasks",
    },
    "docker": {
        # There is no Chubby but ours.
        "chubby-jeopardy", "chubby-jeopardy.blind", "chubby-late", "chubby-late.lock-delay",
        "ttl-check-then-pause.chubby", "ttl-pause-write.chubby",
        # They strike between two commands, and nobody reads along between real clients and servers.
        "get-del-gap", "get-del-gap.memcached", "get-del-gap.sherlock", "getset-loser-extends", "getset-unlock-late",
        "setnx-del-takeover", "setnx-expire-gap", "shedlock-skew.stale-now",
    },
}  # fmt: skip
"""By cluster: the stories that it cannot tell. Another one would not be missed by anybody else."""


@pytest.mark.parametrize("cluster", ELSEWHERE)
def test_no_cluster_refuses_a_story_unnoticed(cluster: str) -> None:
    refused = {name.removesuffix(".safe") for name in NAMES if refusal(catalogue.find(name).plan, cluster)}
    assert refused == ELSEWHERE[cluster]


@pytest.mark.parametrize("row", ROWS)
def test_every_documented_failure_has_its_file_and_its_cure(row: str) -> None:
    own = [catalogue.find(name) for name in NAMES if name.partition(".")[0] == row]
    assert [scenario for scenario in own if scenario.plan.expect and not scenario.plan.expect.safe]
    assert [scenario for scenario in own if scenario.plan.expect and scenario.plan.expect.safe]


@pytest.mark.parametrize("name", NAMES)
def test_a_file_tells_its_story(name: str) -> None:
    """And names what is expected, in time; its other half is there; some cluster can run it."""
    plan = catalogue.find(name).plan
    assert plan.expect is not None
    assert name.endswith(".safe") == plan.expect.safe
    assert (name.removesuffix(".safe") if plan.expect.safe else f"{name}.safe") in NAMES
    assert len(plan.about) > 40
    assert len(plan.title) < 140
    assert not re.search(r"\d [A-Z] ", plan.title), "a sentence, and no list of steps"
    assert plan.expect.safe or plan.expect.within
    assert any(not refusal(plan, cluster) for cluster in CLUSTERS["both"])
