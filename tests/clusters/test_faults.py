"""Every fault takes effect, is observed and heals, and a fault without effect is reported, on the simulator and on
containers."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import pytest

from harness.clusters.abilities import leader_of
from harness.clusters.base import names
from harness.errors import UsageError
from harness.faults.base import targets
from harness.faults.catalogue import fault_class, fault_names
from harness.plan import FaultSpec, Plan
from harness.run.runs import run
from tests.clusters.bench import AnyCluster, Bench, Chat, client_answers, make, part_with, scene, strike, until_healed
from tests.clusters.bench import fault as build

SENTINEL = {"failover", "partition-replicas", "partition-ring", "partition-bridge"}
ELSEWHERE = {
    "bit-flip",
    "packet-corruption",
    "packet-duplication",
    "packet-reordering",
    "file-truncation",
    "disk-full",
    "disk-stall",
    "slow-fsync",
    "power-loss",
    "eviction",
    "leader-loss",
    "membership-change",
    "rolling-upgrade",
    "task-cancel",
    "thread-interrupt",
}
"""Faults with a file of tests of their own."""
FAULTS = [name for name in fault_names() if name != "none" and name not in ELSEWHERE]


def kind_for(fault: str) -> str:
    return "redis-sentinel" if fault in SENTINEL else "redis-independent"


@pytest.mark.parametrize("fault", FAULTS)
def test_takes_effect_and_heals(fault: str, bench: Bench) -> None:
    seen, healed = bench.on(kind_for(fault), lambda cluster: strike(cluster, fault))
    assert seen.effective, seen
    assert seen.facts
    assert healed.effective, healed


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_uses_only_its_declared_needs(fault: str, bench: Bench) -> None:
    assert fault_class(fault).needs <= bench.abilities(kind_for(fault))


class _Nothing:
    """Return value of a method that does nothing."""

    used = False

    def __call__(self) -> None: ...

    def cancel(self) -> None: ...


def _nothing(*args: Any, **kwargs: Any) -> Any:
    return _Nothing()


NO_OPS = [(fault, fault_class(fault).damages_with) for fault in FAULTS]


@pytest.mark.few(10)
@pytest.mark.parametrize(("fault", "method"), NO_OPS)
def test_a_fault_without_effect_is_reported(
    fault: str, method: str, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def struck(cluster: AnyCluster) -> bool:
        with Chat(cluster):
            time.sleep(1)
            with monkeypatch.context() as patch:
                no_op = (lambda host: 0) if method == "break_streams" else _nothing
                patch.setattr(part_with(cluster, method), method, no_op)
                damage = build(fault).inject(scene(cluster))
                seen = damage.observe()
            damage.heal()
            return seen.effective

    assert bench.on(kind_for(fault), struck) is False


def test_clients_notice_each_fault_and_its_heal(bench: Bench) -> None:
    def feel(cluster: AnyCluster, fault: str) -> list[list[str]]:
        damage = build(fault, target="n1").inject(scene(cluster))
        felt = client_answers(cluster, "n1 PING", "n2 PING")
        damage.heal()
        until_healed(damage.healed)
        time.sleep(1)
        return [felt, client_answers(cluster, "n1 PING", "n2 PING")]

    healed = ["True", "True"]
    for fault, error in (
        ("server-pause", "TimeoutError"),
        ("kill", "ConnectionError"),
        ("partition-node", "TimeoutError"),
        ("partition-oneway", "TimeoutError"),
    ):
        assert bench.on("redis-independent", partial(feel, fault=fault)) == [[error, "True"], healed], fault


@pytest.mark.parametrize(("fault", "kept"), [("kill", True), ("kill-amnesia", False)])
def test_amnesia_loses_the_keys_and_a_plain_kill_does_not(fault: str, kept: bool, bench: Bench) -> None:
    def size_after(cluster: AnyCluster) -> list[list[str]]:
        before = client_answers(cluster, "n1 SET kept x PX 60000", "n1 EXISTS kept")
        damage = build(fault, target="n1").inject(scene(cluster))
        assert damage.observe().effective
        damage.heal()
        assert until_healed(damage.healed).effective
        return [before, client_answers(cluster, "n1 EXISTS kept", "n1 DEL kept")]

    assert bench.on("redis-independent", size_after) == [["True", "1"], ["1", "1"] if kept else ["0", "0"]]


def test_a_clock_jump_expires_a_key_on_that_server_only(bench: Bench) -> None:
    def keys(cluster: AnyCluster) -> list[str]:
        client_answers(cluster, "n1 SET lock x PX 2000", "n2 SET lock x PX 2000")
        damage = build("clock-jump", target="n1", seconds=3.0).inject(scene(cluster))
        found = client_answers(cluster, "n1 EXISTS lock", "n2 EXISTS lock")
        damage.heal()
        return found

    assert bench.on("redis-independent", keys) == ["0", "1"]


def test_a_clock_that_was_set_survives_a_restart_and_leaves_others_alone(bench: Bench) -> None:
    def offsets(cluster: AnyCluster) -> list[int]:
        for host in ("n1", "c1"):
            cluster.set_clock(host, 100.0)
            cluster.kill(host)
            cluster.start(host, wiped=False)
        time.sleep(1)
        found = [round(cluster.read_clock(host) / 1e9) for host in ("n1", "c1", "n2", "c0")]
        for host in ("n1", "c1"):
            cluster.set_clock(host, 0.0)
        return found

    assert bench.on("redis-independent", offsets) == [100, 100, 0, 0]


def test_the_machines_own_clock_is_untouched(bench: Bench) -> None:
    def elapsed(cluster: AnyCluster) -> tuple[int, int]:
        mono, wall = cluster.clock()
        for host in names(cluster.hosts, "server"):
            cluster.set_clock(host, 3600.0)
        after_mono, after_wall = cluster.clock()
        for host in names(cluster.hosts, "server"):
            cluster.set_clock(host, 0.0)
        return after_mono - mono, after_wall - wall

    mono, wall = bench.on("redis-independent", elapsed)
    assert abs(mono - wall) < 50_000_000


def test_failover_moves_the_primary_and_an_isolated_one_still_takes_writes(bench: Bench) -> None:
    def story(cluster: AnyCluster) -> tuple[Any, ...]:
        old = leader_of(cluster)
        damage = build("failover", how="isolate").inject(scene(cluster))
        seen = damage.observe()
        new = leader_of(cluster)
        both = client_answers(cluster, *(f"{host} SET lock x NX PX 60000" for host in (old, new)))
        damage.heal()
        time.sleep(15)
        roles = client_answers(cluster, *(f"{host} INFO replication" for host in ("n1", "n2", "n3")))
        primaries = sum("'role': 'master'" in role for role in roles)
        return seen.facts["primary_before"] == old, seen.effective, both, primaries, leader_of(cluster) == new != old

    assert bench.on("redis-sentinel", story) == (True, True, ["True", "True"], 1, True)


def test_a_trap_catches_exactly_the_matching_message(bench: Bench) -> None:
    """A request whose reply is lost is executed. A request that is held back is executed later."""

    def story(cluster: AnyCluster) -> list[Any]:
        client_answers(cluster, "n1 DEL lost", "n1 DEL held")
        trap = cluster.trap_message("n1", "c0", b"OK", None)
        lost = client_answers(cluster, "n1 GET other", "n1 SET lost x", "n1 EXISTS lost")
        caught = trap.used
        trap.cancel()
        held = cluster.trap_message("c0", "n1", b"held", 1.0)
        late = [*client_answers(cluster, "n1 SET held x"), *client_answers(cluster, "n1 GET other")]
        assert client_answers(cluster, "n2 PING") == ["True"]
        time.sleep(1.5)
        late += client_answers(cluster, "n1 EXISTS held")
        held.cancel()
        return [lost, caught, late, held.used]

    found = bench.on("redis-independent", story)
    assert found == [["None", "TimeoutError", "1"], True, ["TimeoutError", "None", "1"], True]


def test_a_request_that_was_given_up_is_not_delivered_after_a_cut(bench: Bench) -> None:
    """The proxy must not accept a request that the cut network would have dropped."""

    def story(cluster: AnyCluster) -> list[Any]:
        client_answers(cluster, "n1 DEL late")
        cluster.cut([("c0", "n1")])
        gave_up = client_answers(cluster, "n1 SET late x")
        cluster.heal([("c0", "n1")])
        time.sleep(1)
        return [gave_up, client_answers(cluster, "n1 EXISTS late")]

    assert bench.on("redis-independent", story) == [["TimeoutError"], ["0"]]


def test_latency_between_servers(bench: Bench) -> None:
    def trips(cluster: AnyCluster) -> list[float]:
        damage = build("latency", delay=0.05, jitter=0.02, clients="n1", servers="n2").inject(scene(cluster))
        assert damage.observe().effective
        slow = cluster.reaches("n1", "n2", 1.0)
        damage.heal()
        quick = cluster.reaches("n1", "n2", 1.0)
        assert slow is not None
        assert quick is not None
        return [slow, quick]

    slow, quick = bench.on("redis-sentinel", trips)
    assert slow >= 0.1
    assert quick < 0.05


@pytest.mark.slow
def test_two_simultaneous_partitions_are_observed_without_deadlock() -> None:
    kinds = ("partition-halves", "partition-node", "partition-clients")
    result = run(
        Plan(lock="redlock", time_limit=12.0, faults=tuple(FaultSpec(kind, at=3.0, for_=2.0) for kind in kinds))
    )
    assert result.verdicts["faults"].valid is True, result.document["summary"]


def test_targets_are_resolved_by_intent() -> None:
    cluster = make("redis-sentinel")
    place = scene(cluster, "c2")
    servers = names(cluster.hosts, "server")
    assert targets(place, "holder", servers) == ["c2"]
    assert targets(place, "primary", servers) == ["n1"]
    assert targets(place, "replicas", servers) == ["n2", "n3"]
    assert targets(place, "sentinels", servers) == ["s1", "s2", "s3"]
    assert len(targets(place, "majority", servers)) == 2
    assert len(targets(place, "minority", servers)) == 1
    assert targets(place, "n3, c0", servers) == ["n3", "c0"]
    with pytest.raises(UsageError, match="fault target 'n9': expected one of one, minority"):
        targets(place, "n9", servers)


def test_chatting_clients_reach_every_server(bench: Bench) -> None:
    """Control: without a fault, the keys exist on every server."""

    def sizes(cluster: AnyCluster) -> list[int | None]:
        client_answers(cluster, *(f"n{number} FLUSHALL" for number in range(1, 6)))
        with Chat(cluster):
            time.sleep(2)
            return [cluster.key_count(name) for name in names(cluster.hosts, "server")]

    assert bench.on("redis-independent", sizes) == [3] * 5
