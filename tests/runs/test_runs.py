"""Whole runs: what must be valid is, what must be found is, and a run that could not tell says unknown."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec
import pytest

from harness.clusters.kinds import kinds
from harness.clusters.sim import SimCluster
from harness.completion import complete
from harness.faults.base import Damage, Scene, Seen
from harness.faults.pause import ClientPause
from harness.nemesis import default_specs
from harness.plan import FaultSpec, Plan
from harness.runs import Result, run
from harness.workloads.resource import Reply, Request, Resource
from lock_impls import catalogue

ON_SIM = [info for info in catalogue.infos() if info.simulated and set(info.kinds) & set(kinds("sim"))]
REPLICATED = [
    (info.name, kind)
    for info in ON_SIM
    for kind in ("redis-sentinel", "mysql-replicated")
    if kind in info.kinds[1:]  # beside the usual
]
slow = partial(pytest.param, marks=pytest.mark.slow)
SEEDS = [0, *(slow(seed) for seed in range(1, 11))]


def attempt(lock: str, nemesis: str = "none", **more: Any) -> Result:
    plan = Plan(lock=lock, **{"time_limit": 15.0, **more})
    return run(msgspec.structs.replace(plan, faults=tuple(default_specs(nemesis, plan.ttl))))


def explained(result: Result) -> str:
    return "\n".join(f"{name}: {verdict.valid} {verdict.explanation}" for name, verdict in result.verdicts.items())


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("lock", [info.name for info in ON_SIM])
def test_every_lock_is_valid_without_faults(lock: str, seed: int) -> None:
    result = attempt(lock, seed=seed, time_limit=6.0)
    assert result.valid is True, explained(result)


@pytest.mark.parametrize(("lock", "kind"), REPLICATED)
def test_every_lock_is_valid_on_replicated_servers(lock: str, kind: str) -> None:
    result = attempt(lock, kind=kind, time_limit=6.0)
    assert result.valid is True, explained(result)


def test_what_may_be_late_is_looked_at_for_as_much_longer() -> None:
    plan = Plan(lock="memcached-token", ttl=2.0, slack=1.0)
    once = complete(plan)
    assert once.settle_time == plan.settle_time + 1.0
    assert complete(once) == once
    assert complete(msgspec.structs.replace(plan, settle=3.0)).settle_time == 3.0
    assert complete(msgspec.structs.replace(plan, lock="redis-token")).settle == 0.0


@pytest.mark.parametrize("lock", ["redis.lock:Lock", "redis_lock:Lock", slow("pottery:Redlock")])
def test_locks_that_other_people_wrote_run_unmodified(lock: str) -> None:
    valid = attempt(lock)
    assert valid.valid is True, explained(valid)
    paused = attempt(lock, "client-pause")
    assert paused.verdicts["mutual-exclusion"].valid is False, explained(paused)


@pytest.mark.parametrize("seed", [0, 1, *(slow(seed) for seed in range(2, 8))])
def test_redlock_is_valid_without_faults_whatever_the_seed(seed: int) -> None:
    result = attempt("redlock", seed=seed, time_limit=4.0)
    assert result.valid is True, explained(result)


@pytest.mark.parametrize(
    ("lock", "nemesis", "more"),
    [
        ("redlock", "clock-jump", {}), ("redlock", "client-pause", {}), ("redis-token", "kill-amnesia", {}),
        ("redis-token", "failover", {"kind": "redis-sentinel", "ttl": 10.0, "hold": 4.0, "time_limit": 60.0}),
        ("redis-getset", "clock-offset", {"hold": 0.5, "seed": 1}),
        slow("redlock", "clock-skew", {}), slow("redlock", "clock-strobe", {}), slow("redlock", "kill-amnesia", {}),
        slow("redlock", "clock-drift", {"hold": 1.5}), slow("redis-token", "client-pause", {}),
        slow("redis-token", "clock-jump", {}), slow("redis-watchdog", "client-pause", {}),
    ],
)  # fmt: skip
def test_nemeses_of_the_command_line_find_what_is_documented(lock: str, nemesis: str, more: dict[str, Any]) -> None:
    result = attempt(lock, nemesis, **{"time_limit": 30.0, **more})
    assert result.verdicts["mutual-exclusion"].valid is False, explained(result)


@pytest.mark.slow
@pytest.mark.parametrize(
    "nemesis", ["partition-halves", "partition-majority", "partition-node", "partition-clients", "partition-oneway",
                "latency", "slow-link", "packet-loss", "connection-reset", "server-pause", "kill", "client-crash",
                "lost-reply"],
)  # fmt: skip
@pytest.mark.parametrize("lock", ["redlock", "redis-token"])
@pytest.mark.parametrize("seed", SEEDS[:3])
def test_locks_with_leases_survive_what_they_promise_to(lock: str, nemesis: str, seed: int) -> None:
    """Whatever a network does, and crashes that lose no data: nobody is let in twice, and nobody is left outside."""
    result = attempt(lock, nemesis, time_limit=25.0, seed=seed)
    assert result.valid is True, explained(result)


def test_the_fence_saves_the_resource_and_not_the_lock() -> None:
    late = FaultSpec("client-pause", on="read", nth=3, times=5, every=4.0, for_=3.0)
    unfenced = run(Plan(lock="redis-fenced", faults=(late,)))
    fenced = run(Plan(lock="redis-fenced", faults=(late,), fencing="on"))
    assert unfenced.verdicts["resource"].valid is False
    assert fenced.verdicts["resource"].valid is True, explained(fenced)
    assert fenced.verdicts["mutual-exclusion"].valid is False
    assert "rejected" in fenced.document["fencing_note"]
    assert "would have rejected" in unfenced.document["fencing_note"]


def test_inventory_is_oversold_when_the_lock_fails_and_not_otherwise() -> None:
    sold = attempt("redis-token", workload="inventory", time_limit=20.0)
    assert sold.valid is True, explained(sold)
    again = FaultSpec("clock-jump", on="acquire", nth=5, times=100, every=0.5)
    oversold = run(Plan(lock="redis-token", workload="inventory", time_limit=20.0, faults=(again,)))
    assert oversold.verdicts["resource"].valid is False, explained(oversold)


# A verdict must be able to fail, and to be unknown.


def test_a_fault_that_did_nothing_makes_the_run_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SimCluster, "set_clock", lambda *args, **kwargs: None)
    result = attempt("redlock", "clock-skew")
    assert result.valid is None
    assert "clock-skew" in result.document["summary"]
    assert result.exit_status == 3


def test_a_fault_that_never_found_its_event_makes_the_run_unknown() -> None:
    result = run(Plan(lock="redis-token", time_limit=5.0, faults=(FaultSpec("client-pause", on="acquire", nth=9999),)))
    assert result.valid is None, explained(result)
    assert "client-pause" in result.document["summary"]


def test_one_client_alone_proves_nothing() -> None:
    result = attempt("redis-token", clients=1)
    assert result.valid is None
    assert any("mutual-exclusion" in reason for reason in result.document["unknown_because"])


def test_a_resource_that_forgets_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mutant of the fencing resource: it accepts stale tokens. The checker must notice."""
    monkeypatch.setattr(Resource, "_refusal", lambda self, request: None)
    late = FaultSpec("client-pause", on="read", nth=3, times=5, every=4.0, for_=3.0)
    result = run(Plan(lock="redis-fenced", faults=(late,), fencing="on"))
    assert result.verdicts["fencing"].valid is False, explained(result)
    assert result.verdicts["resource"].valid is False


def test_an_observer_that_always_nods_would_be_believed_so_the_pause_asks_the_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A mutant of the pause that pauses nobody: the host still does what it is given to do, and the run is unknown."""

    def inject(self: ClientPause, scene: Scene) -> Damage:
        host = scene.client or "c0"

        def observe() -> Seen:
            state = scene.cluster.state(host)
            return Seen(state == "paused", {"state": {host: state}}, "paused")

        return Damage([host], observe, dict)

    monkeypatch.setattr(ClientPause, "inject", inject)
    assert attempt("redis-token", "client-pause").valid is None


def test_a_resource_counts_in_its_own_order() -> None:
    resource = Resource("on", {"i0": 2})
    assert resource.apply(Request("take", "i0", 3)) == Reply(value=1, arrival=0, version=1)
    assert resource.apply(Request("read", "i0", 2)).error == "stale fence"
    assert resource.apply(Request("take", "i0", 3)) == Reply(value=0, arrival=1, version=2)
    claimed = Resource("cas", {})
    assert claimed.apply(Request("read", "k", "a")).arrival == 0
    assert claimed.apply(Request("read", "k", "b")).arrival == 1
    assert claimed.apply(Request("write", "k", "a", 1)).error == "not the last token"
    assert claimed.apply(Request("write", "k", "b", 1)) == Reply(value=1, arrival=2, version=1)
