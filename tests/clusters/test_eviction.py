"""Memory pressure evicts a lock's key, and nothing of it stays; on the simulator and on containers."""

from __future__ import annotations

import time
from functools import cache
from typing import Any

import pytest

from harness.clusters.base import Cluster
from harness.faults.base import Seen
from harness.nemesis import default_specs
from harness.plan import Plan
from harness.runs import Result, run
from tests.clusters.bench import Bench, ask, make, on, scene
from tests.clusters.bench import fault as build

SETTINGS = ("n1 CONFIG GET maxmemory", "n1 CONFIG GET maxmemory-policy")
SEEDS = range(5)


def flooded(cluster: Cluster, **params: Any) -> tuple[Seen, Seen]:
    damage = build("eviction", **params).inject(scene(cluster))
    seen = damage.observe()
    damage.heal()
    return seen, damage.healed()


def test_evicts_what_expires_and_leaves_nothing_behind(bench: Bench) -> None:
    def main(cluster: Cluster) -> None:
        before = ask(cluster, "n1 FLUSHALL", "n1 SET lock x PX 60000", "n1 SET counter 7", *SETTINGS)[3:]
        damage = build("eviction").inject(scene(cluster))
        seen = damage.observe()
        assert seen.effective, seen
        assert seen.facts["flood"]["n1"]["keys_before"] == 2
        assert ask(cluster, "n1 EXISTS lock", "n1 GET counter", "n2 DBSIZE") == ["0", "7", "0"]
        assert ask(cluster, *SETTINGS) != before
        assert damage.healed().effective is False
        damage.heal()
        assert damage.healed().effective
        assert ask(cluster, *SETTINGS, "n1 INFO keyspace", "n1 DEL counter")[:2] == before

    bench.on("redis-independent", main)


def test_a_flood_that_rises_nowhere_is_seen_to(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def main(cluster: Cluster) -> bool:
        ask(cluster, "n1 SET lock x PX 60000")
        with monkeypatch.context() as patch:
            patch.setattr(cluster, "flood", lambda host: {})
            patch.setattr(cluster, "drain", lambda host: None)
            return flooded(cluster)[0].effective

    assert bench.on("redis-independent", main) is False


def test_a_flood_that_does_not_go_is_seen_to(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def main(cluster: Cluster) -> list[bool]:
        ask(cluster, "n1 SET lock x PX 60000")
        with monkeypatch.context() as patch:
            patch.setattr(cluster, "drain", lambda host: None)
            found = [seen.effective for seen in flooded(cluster)]
        cluster.drain("n1")
        return [*found, cluster.flooded("n1") is False]

    assert bench.on("redis-independent", main) == [True, False, True]


def test_without_a_key_that_expires_nothing_is_evicted_and_it_says_so() -> None:
    cluster = make("redis-single")

    def main() -> bool:
        ask(cluster, "n1 SET counter 7")
        return flooded(cluster)[0].effective

    assert on(cluster, main) is False


def test_floods_of_one_server_count(bench: Bench) -> None:
    def main(cluster: Cluster) -> list[bool | None]:
        ask(cluster, "n1 SET lock x PX 60000")
        assert cluster.flood("n1")["others"] == 1
        ask(cluster, "n1 SET lock x PX 60000")
        assert cluster.flood("n1")["others"] == 1
        cluster.drain("n1")
        found = [cluster.flooded("n1")]
        cluster.drain("n1")
        return [*found, cluster.flooded("n1")]

    assert bench.on("redis-independent", main) == [True, False]


def test_drained_before_it_rises_it_does_not(bench: Bench) -> None:
    def main(cluster: Cluster) -> tuple[Any, ...]:
        cluster.drain("n1")
        return cluster.flood("n1")["others"], cluster.flooded("n1")

    assert bench.on("redis-independent", main) == (0, False)


def test_what_a_dead_server_does_not_undo_is_undone_when_it_is_back() -> None:
    cluster = make("redis-single")

    def main() -> list[Any]:
        ask(cluster, "n1 SET lock x PX 60000")
        cluster.flood("n1")
        cluster.kill("n1")
        cluster.drain("n1")
        found = [cluster.flooded("n1")]
        cluster.start("n1", wiped=False)
        time.sleep(1)
        return [*found, cluster.flooded("n1"), ask(cluster, SETTINGS[0])]

    assert on(cluster, main) == [True, False, ask_of_a_fresh_one()]


def ask_of_a_fresh_one() -> list[str]:
    cluster = make("redis-single")
    answer: list[str] = on(cluster, lambda: ask(cluster, SETTINGS[0]))
    return answer


@cache
def flooded_run(lock: str, seed: int, time_limit: float = 30.0) -> Result:
    return run(Plan(lock=lock, seed=seed, time_limit=time_limit, faults=tuple(default_specs("eviction", 2.0))))


@pytest.mark.slow
def test_a_lock_of_one_key_is_broken_in_most_seeds() -> None:
    broken = [seed for seed in SEEDS if flooded_run("redis-token", seed).verdicts["mutual-exclusion"].valid is False]
    assert len(broken) >= 0.9 * len(SEEDS)
    assert all(flooded_run("redis-token", seed).verdicts["faults"].valid for seed in SEEDS)


@pytest.mark.slow
def test_one_flooded_server_does_not_break_a_majority() -> None:
    assert [seed for seed in SEEDS if flooded_run("redlock", seed, 15.0).valid is not True] == []


def test_same_seed_same_history() -> None:
    first = flooded_run("redis-token", 3)
    flooded_run.cache_clear()
    again = flooded_run("redis-token", 3)
    assert [*first.history] == [*again.history]


@pytest.mark.docker
@pytest.mark.xdist_group("docker")
def test_a_real_lock_of_one_key_is_broken() -> None:
    plan = Plan(lock="redis-token", cluster="docker", time_limit=12.0, faults=tuple(default_specs("eviction", 2.0)))
    result = run(plan)
    assert result.verdicts["mutual-exclusion"].valid is False
    assert result.verdicts["faults"].valid is True
