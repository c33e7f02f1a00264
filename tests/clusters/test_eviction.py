"""Memory pressure evicts a lock's key on Redis and is undone completely, on the simulator and on containers."""

from __future__ import annotations

import time
from functools import cache
from typing import Any

import pytest

from harness.clusters.abilities import MEMORY
from harness.faults.base import Observation
from harness.faults.catalogue import default_specs
from harness.plan import Plan
from harness.run.runs import run
from harness.run.verdicts.judging import Result
from tests.clusters.bench import AnyCluster, Bench, client_answers, make, on, scene
from tests.clusters.bench import fault as build

SETTINGS = ("n1 CONFIG GET maxmemory", "n1 CONFIG GET maxmemory-policy")
SEEDS = range(5)


def inject_eviction(cluster: AnyCluster, **params: Any) -> tuple[Observation, Observation]:
    damage = build("eviction", **params).inject(scene(cluster))
    seen = damage.observe()
    damage.heal()
    return seen, damage.healed()


def test_a_flood_evicts_expiring_keys_and_leaves_nothing_behind(bench: Bench) -> None:
    def main(cluster: AnyCluster) -> None:
        before = client_answers(cluster, "n1 FLUSHALL", "n1 SET lock x PX 60000", "n1 SET counter 7", *SETTINGS)[3:]
        damage = build("eviction").inject(scene(cluster))
        seen = damage.observe()
        assert seen.effective, seen
        assert seen.facts["flood"]["n1"]["keys_before"] == 2
        assert client_answers(cluster, "n1 EXISTS lock", "n1 GET counter", "n2 DBSIZE") == ["0", "7", "0"]
        assert client_answers(cluster, *SETTINGS) != before
        assert damage.healed().effective is False
        damage.heal()
        assert damage.healed().effective
        assert client_answers(cluster, *SETTINGS, "n1 INFO keyspace", "n1 DEL counter")[:2] == before

    bench.on("redis-independent", main)


def test_a_flood_without_effect_is_reported(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def main(cluster: AnyCluster) -> bool:
        client_answers(cluster, "n1 SET lock x PX 60000")
        with monkeypatch.context() as patch:
            patch.setattr(MEMORY.of(cluster), "flood", lambda host: {})
            patch.setattr(MEMORY.of(cluster), "drain", lambda host: None)
            return inject_eviction(cluster)[0].effective

    assert bench.on("redis-independent", main) is False


def test_a_flood_that_does_not_heal_is_reported(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def main(cluster: AnyCluster) -> list[bool]:
        client_answers(cluster, "n1 SET lock x PX 60000")
        with monkeypatch.context() as patch:
            patch.setattr(MEMORY.of(cluster), "drain", lambda host: None)
            found = [seen.effective for seen in inject_eviction(cluster)]
        MEMORY.of(cluster).drain("n1")
        return [*found, MEMORY.of(cluster).flooded("n1") is False]

    assert bench.on("redis-independent", main) == [True, False, True]


def test_without_a_key_that_expires_nothing_is_evicted_and_it_says_so() -> None:
    cluster = make("redis-single")

    def main() -> bool:
        client_answers(cluster, "n1 SET counter 7")
        return inject_eviction(cluster)[0].effective

    assert on(cluster, main) is False


def test_each_flood_needs_its_own_drain(bench: Bench) -> None:
    def main(cluster: AnyCluster) -> list[bool | None]:
        client_answers(cluster, "n1 SET lock x PX 60000")
        assert MEMORY.of(cluster).flood("n1")["others"] == 1
        client_answers(cluster, "n1 SET lock x PX 60000")
        assert MEMORY.of(cluster).flood("n1")["others"] == 1
        MEMORY.of(cluster).drain("n1")
        found = [MEMORY.of(cluster).flooded("n1")]
        MEMORY.of(cluster).drain("n1")
        return [*found, MEMORY.of(cluster).flooded("n1")]

    assert bench.on("redis-independent", main) == [True, False]


def test_a_flood_that_is_drained_before_it_starts_writes_nothing(bench: Bench) -> None:
    def main(cluster: AnyCluster) -> tuple[Any, ...]:
        MEMORY.of(cluster).drain("n1")
        return MEMORY.of(cluster).flood("n1")["others"], MEMORY.of(cluster).flooded("n1")

    assert bench.on("redis-independent", main) == (0, False)


def test_a_flood_of_a_dead_server_is_healed_after_its_restart() -> None:
    cluster = make("redis-single")

    def main() -> list[Any]:
        client_answers(cluster, "n1 SET lock x PX 60000")
        MEMORY.of(cluster).flood("n1")
        cluster.kill("n1")
        MEMORY.of(cluster).drain("n1")
        found = [MEMORY.of(cluster).flooded("n1")]
        cluster.start("n1", wiped=False)
        time.sleep(1)
        return [*found, MEMORY.of(cluster).flooded("n1"), client_answers(cluster, SETTINGS[0])]

    assert on(cluster, main) == [True, False, answer_of_fresh_cluster()]


def answer_of_fresh_cluster() -> list[str]:
    cluster = make("redis-single")
    answer: list[str] = on(cluster, lambda: client_answers(cluster, SETTINGS[0]))
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


@pytest.mark.slow
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
