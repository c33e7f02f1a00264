"""Whole runs: safe ones are valid, documented failures are found, and inconclusive ones are unknown."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec
import pytest

from harness.clusters.abilities import PROCESSES
from harness.clusters.kinds import kinds
from harness.clusters.sim.cluster import SimCluster
from harness.faults.base import Damage, InjectionContext, Observation
from harness.faults.catalogue import default_specs
from harness.faults.pause import ClientPause
from harness.lock_impls import catalogue
from harness.plan import FaultSpec, Plan
from harness.run.plans.completion import complete
from harness.run.runs import run
from harness.run.verdicts.judging import Result
from harness.worker.resource import Request, Resource, ResourceReply
from tests.runs.verdicts import explanations

ON_SIM = [info for info in catalogue.infos() if info.simulated and set(info.kinds) & set(kinds("sim"))]
REPLICATED = [
    (info.name, kind)
    for info in ON_SIM
    for kind in ("redis-sentinel", "mysql-replicated")
    if kind in info.kinds[1:]  # in addition to the default ones
]
slow = partial(pytest.param, marks=pytest.mark.slow)
LOCKS = [info.name if number % 3 == 0 else slow(info.name) for number, info in enumerate(ON_SIM)]
"""One in three by default: most locks also run without faults in other default tests."""
SEEDS = [0, *(slow(seed) for seed in range(1, 5))]


def attempt(lock: str, nemesis: str = "none", **more: Any) -> Result:
    plan = Plan(lock=lock, **{"time_limit": 15.0, **more})
    return run(msgspec.structs.replace(plan, faults=tuple(default_specs(nemesis, plan.ttl))))


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("lock", LOCKS)
def test_every_lock_is_valid_without_faults(lock: str, seed: int) -> None:
    result = attempt(lock, seed=seed, time_limit=6.0)
    assert result.valid is True, explanations(result)


@pytest.mark.slow
@pytest.mark.parametrize(("lock", "kind"), REPLICATED)
def test_every_lock_is_valid_on_replicated_servers(lock: str, kind: str) -> None:
    result = attempt(lock, kind=kind, time_limit=6.0)
    assert result.valid is True, explanations(result)


def test_settling_lasts_longer_for_services_that_expire_keys_late() -> None:
    plan = Plan(lock="memcached-token", ttl=2.0, slack=1.0)
    once = complete(plan)
    assert once.settle_time == plan.settle_time + 1.0
    assert complete(once) == once
    assert complete(msgspec.structs.replace(plan, settle=3.0)).settle_time == 3.0
    assert complete(msgspec.structs.replace(plan, lock="redis-token")).settle == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("lock", ["redis.lock:Lock", "redis_lock:Lock", slow("pottery:Redlock")])
def test_third_party_locks_run_unmodified(lock: str) -> None:
    valid = attempt(lock)
    assert valid.valid is True, explanations(valid)
    paused = attempt(lock, "client-pause")
    assert paused.verdicts["mutual-exclusion"].valid is False, explanations(paused)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, *(slow(seed) for seed in range(2, 8))])
def test_redlock_is_valid_without_faults_for_every_seed(seed: int) -> None:
    result = attempt("redlock", seed=seed, time_limit=4.0)
    assert result.valid is True, explanations(result)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("lock", "nemesis", "more"),
    [
        slow("redlock", "clock-jump", {}), ("redlock", "client-pause", {}), ("redis-token", "kill-amnesia", {}),
        ("redis-token", "failover", {"kind": "redis-sentinel", "ttl": 10.0, "hold": 4.0, "time_limit": 60.0}),
        ("redis-getset", "clock-offset", {"hold": 0.5, "seed": 1}),
        slow("redlock", "clock-skew", {}), slow("redlock", "clock-strobe", {}), slow("redlock", "kill-amnesia", {}),
        slow("redlock", "clock-drift", {"hold": 1.5}), slow("redis-token", "client-pause", {}),
        slow("redis-token", "clock-jump", {}), slow("redis-watchdog", "client-pause", {}),
    ],
)  # fmt: skip
def test_command_line_nemeses_find_the_documented_violations(lock: str, nemesis: str, more: dict[str, Any]) -> None:
    result = attempt(lock, nemesis, **{"time_limit": 30.0, **more})
    assert result.verdicts["mutual-exclusion"].valid is False, explanations(result)


@pytest.mark.slow
@pytest.mark.parametrize(
    "nemesis", ["partition-halves", "partition-majority", "partition-node", "partition-clients", "partition-oneway",
                "latency", "slow-link", "packet-loss", "connection-reset", "server-pause", "kill", "client-crash",
                "lost-reply"],
)  # fmt: skip
@pytest.mark.parametrize("lock", ["redlock", "redis-token"])
@pytest.mark.parametrize("seed", SEEDS[:3])
def test_locks_with_leases_survive_the_promised_faults(lock: str, nemesis: str, seed: int) -> None:
    """Under network faults, and crashes that lose no data, no two clients hold the lock, and none is locked out."""
    result = attempt(lock, nemesis, time_limit=25.0, seed=seed)
    assert result.valid is True, explanations(result)


@pytest.mark.slow
def test_fencing_protects_the_resource_but_not_mutual_exclusion() -> None:
    late = FaultSpec("client-pause", on="read", nth=3, times=5, every=4.0, for_=3.0)
    unfenced = run(Plan(lock="redis-fenced", faults=(late,)))
    fenced = run(Plan(lock="redis-fenced", faults=(late,), fencing="on"))
    assert unfenced.verdicts["resource"].valid is False
    assert fenced.verdicts["resource"].valid is True, explanations(fenced)
    assert fenced.verdicts["mutual-exclusion"].valid is False
    assert "rejected" in fenced.document["fencing_note"]
    assert "would have rejected" in unfenced.document["fencing_note"]


@pytest.mark.slow
def test_inventory_is_oversold_only_when_the_lock_fails() -> None:
    sold = attempt("redis-token", workload="inventory", time_limit=20.0)
    assert sold.valid is True, explanations(sold)
    again = FaultSpec("clock-jump", on="acquire", nth=5, times=100, every=0.5)
    oversold = run(Plan(lock="redis-token", workload="inventory", time_limit=20.0, faults=(again,)))
    assert oversold.verdicts["resource"].valid is False, explanations(oversold)


# A verdict can be a violation or unknown.


@pytest.mark.usefixtures("in_this_process")
def test_a_fault_without_effect_makes_the_run_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SimCluster, "set_clock", lambda *args, **kwargs: None)
    result = attempt("redlock", "clock-skew")
    assert result.valid is None
    assert "clock-skew" in result.document["summary"]
    assert result.exit_status == 3


def test_a_fault_whose_event_never_came_makes_the_run_unknown() -> None:
    result = run(Plan(lock="redis-token", time_limit=5.0, faults=(FaultSpec("client-pause", on="acquire", nth=9999),)))
    assert result.valid is None, explanations(result)
    assert "client-pause" in result.document["summary"]


def test_a_run_with_one_client_is_unknown() -> None:
    result = attempt("redis-token", clients=1)
    assert result.valid is None
    assert any("mutual-exclusion" in reason for reason in result.document["unknown_because"])


@pytest.mark.slow
@pytest.mark.usefixtures("in_this_process")
def test_a_resource_that_accepts_stale_tokens_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mutant of the fencing resource accepts stale tokens. The checker must report it."""
    monkeypatch.setattr(Resource, "_refusal", lambda self, request: None)
    late = FaultSpec("client-pause", on="read", nth=3, times=5, every=4.0, for_=3.0)
    result = run(Plan(lock="redis-fenced", faults=(late,), fencing="on"))
    assert result.verdicts["fencing"].valid is False, explanations(result)
    assert result.verdicts["resource"].valid is False


@pytest.mark.usefixtures("in_this_process")
def test_the_pause_observes_the_host_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A mutant of the pause pauses nothing. The host keeps running its tasks, so the run is unknown."""

    def inject(self: ClientPause, scene: InjectionContext) -> Damage:
        host = scene.client or "c0"

        def observe() -> Observation:
            state = scene.part(PROCESSES).state(host)
            return Observation({host: state == "paused"}, {"state": {host: state}}, "paused")

        return Damage([host], observe, dict)

    monkeypatch.setattr(ClientPause, "inject", inject)
    assert attempt("redis-token", "client-pause").valid is None


def test_a_resource_numbers_accepted_accesses_in_its_own_order() -> None:
    resource = Resource("on", {"i0": 2})
    assert resource.apply(Request("take", "i0", 3)) == ResourceReply(value=1, arrival=0, version=1)
    assert resource.apply(Request("read", "i0", 2)).error == "stale fence"
    assert resource.apply(Request("take", "i0", 3)) == ResourceReply(value=0, arrival=1, version=2)
    claimed = Resource("cas", {})
    assert claimed.apply(Request("read", "k", "a")).arrival == 0
    assert claimed.apply(Request("read", "k", "b")).arrival == 1
    assert claimed.apply(Request("write", "k", "a", 1)).error == "not the last token"
    assert claimed.apply(Request("write", "k", "b", 1)) == ResourceReply(value=1, arrival=2, version=1)
