"""Every fault takes effect, is seen to, and is undone; and one that does nothing is seen to have done nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import redis

from harness.clusters.base import names
from harness.errors import UsageError
from harness.faults.base import targets
from harness.nemesis import fault_class, fault_names
from harness.plan import FaultSpec, Plan
from harness.runs import run
from harness.sim.network import Snare
from tests.clusters.bench import chatter, make, on, scene, strike

SENTINEL = {"failover", "partition-replicas", "partition-ring", "partition-bridge"}
FAULTS = [name for name in fault_names() if name != "none"]


def kind_for(fault: str) -> str:
    return "redis-sentinel" if fault in SENTINEL else "redis-independent"


@pytest.mark.parametrize("fault", FAULTS)
def test_takes_effect_and_heals(fault: str) -> None:
    cluster = make(kind_for(fault))
    seen, healed = strike(cluster, fault)
    assert seen.effective, seen
    assert seen.facts
    assert all(value in ("running", "dead") for value in healed.get("state", {}).values())
    assert all(trip is not None for trip in healed.get("probe", {}).values())
    assert not any(healed.get("clock_ns", {}).values())


@pytest.mark.parametrize("fault", FAULTS)
def test_needs_only_what_it_says(fault: str) -> None:
    assert fault_class(fault).needs <= make(kind_for(fault)).abilities


class _Nothing(Snare):
    """What a method that does nothing returns, whatever it should have returned."""

    def __call__(self) -> None: ...


def _nothing(*args: Any, **kwargs: Any) -> Any:
    return _Nothing(b"", 0)


NO_OPS = [
    ("clock-jump", "set_clock"),
    ("clock-skew", "set_clock"),
    ("clock-offset", "set_clock"),
    ("clock-drift", "set_clock"),
    ("clock-strobe", "set_clock"),
    ("client-pause", "pause"),
    ("server-pause", "pause"),
    ("client-hang", "hang"),
    ("kill", "kill"),
    ("kill-amnesia", "kill"),
    ("client-crash", "kill"),
    ("failover", "kill"),
    ("partition-halves", "cut"),
    ("partition-majority", "cut"),
    ("partition-node", "cut"),
    ("partition-ring", "cut"),
    ("partition-bridge", "cut"),
    ("partition-clients", "cut"),
    ("partition-oneway", "cut"),
    ("latency", "shape"),
    ("partition-replicas", "cut"),
    ("slow-link", "shape"),
    ("packet-loss", "shape"),
    ("connection-reset", "break_streams"),
    ("lost-reply", "swallow"),
    ("delayed-request", "swallow"),
]


@pytest.mark.parametrize(("fault", "method"), NO_OPS)
def test_a_fault_that_does_nothing_is_seen_to(fault: str, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = make(kind_for(fault))
    broken = (lambda host: 0) if method == "break_streams" else _nothing
    monkeypatch.setattr(cluster, method, broken)
    seen, _ = strike(cluster, fault)
    assert not seen.effective, seen


def test_every_fault_has_such_a_mutant() -> None:
    assert {fault for fault, _ in NO_OPS} == set(FAULTS)


def ask(server: str = "n1", timeout: float = 0.3) -> str:
    """What a client gets from a server: its answer, or the kind of error."""
    try:
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        with redis.Redis(host=server, socket_timeout=timeout, socket_connect_timeout=timeout,
                         retry=Retry(NoBackoff(), 0)) as client:  # fmt: skip
            return str(client.ping())
    except redis.RedisError as error:
        return type(error).__name__


def as_client(cluster: Any, main: Callable[[], Any]) -> Any:
    """Run ``main`` on host c0 and wait for what it returns."""
    got: list[Any] = []
    join = cluster.spawn("c0", lambda checkpoint: got.append(main()))
    assert join(60)
    return got[0]


def test_what_a_client_feels_of_each_fault_and_of_its_heal() -> None:
    cluster = make()

    def main() -> list[str]:
        felt = []
        for fault, params in (
            ("server-pause", {"target": "n1"}),
            ("kill", {"target": "n1"}),
            ("partition-node", {"target": "n1"}),
            ("partition-oneway", {"target": "n1"}),
        ):
            damage = fault_class(fault)(**params).inject(scene(cluster))
            felt.append((fault, as_client(cluster, ask), as_client(cluster, lambda: ask("n2"))))
            damage.heal()
            time.sleep(4)
            felt.append(("healed", as_client(cluster, ask), as_client(cluster, lambda: ask("n2"))))
        return felt  # type: ignore[return-value]

    healed = ("healed", "True", "True")
    assert on(cluster, main) == [
        ("server-pause", "TimeoutError", "True"), healed,
        ("kill", "ConnectionError", "True"), healed,
        ("partition-node", "TimeoutError", "True"), healed,
        ("partition-oneway", "TimeoutError", "True"), healed,
    ]  # fmt: skip


def test_amnesia_loses_the_keys_and_a_plain_kill_does_not() -> None:
    for fault, kept in (("kill", True), ("kill-amnesia", False)):
        cluster = make()
        seen, healed = strike(cluster, fault, {"target": "all"})
        assert all(size > 0 for size in seen.facts["keys_before"].values())
        assert all((size > 0) is kept for size in healed["keys_after"].values()), fault


def test_a_clock_jump_expires_a_key_on_that_server_only() -> None:
    cluster = make()

    def main() -> list[int]:
        def keys() -> list[int]:
            return [redis.Redis(host=f"n{n}").exists("lock") for n in (1, 2)]

        as_client(cluster, lambda: [redis.Redis(host=f"n{n}").set("lock", "x", px=2000) for n in (1, 2)])
        fault_class("clock-jump")(target="n1", seconds=3.0).inject(scene(cluster))
        found: list[int] = as_client(cluster, keys)
        return found

    assert on(cluster, main) == [0, 1]


def test_failover_moves_the_primary_and_an_isolated_one_still_takes_writes() -> None:
    cluster = make("redis-sentinel")

    def main() -> tuple[Any, ...]:
        damage = fault_class("failover")(how="isolate").inject(scene(cluster))
        seen = damage.observe()
        both = as_client(
            cluster, lambda: [redis.Redis(host=h).set("lock", "x", nx=True) for h in ("n1", str(cluster.primary()))]
        )
        damage.heal()
        time.sleep(15)
        after = as_client(cluster, lambda: [redis.Redis(host=f"n{n}").role()[0] for n in (1, 2, 3)])
        return seen.facts["primary_before"], seen.effective, both, sorted(after), cluster.primary() != "n1"

    assert on(cluster, main) == ("n1", True, [True, True], [b"master", b"slave", b"slave"], True)


def test_two_partitions_at_once_are_observed_without_waiting_for_each_other_for_ever() -> None:
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


def test_chatting_clients_reach_every_server() -> None:
    """The control of this file: with no fault, the keys are there."""
    cluster = make()

    def main() -> list[int | None]:
        chatter(cluster)
        time.sleep(2)
        return [cluster.size(name) for name in names(cluster.hosts, "server")]

    assert on(cluster, main) == [3] * 5
