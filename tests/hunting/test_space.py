"""Every schedule that may be drawn can be run, and keeps to what was asked."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.completion import complete
from harness.errors import UsageError
from harness.hunting.asked import Asked, able
from harness.hunting.space import schedules
from harness.hunting.vocabulary import Vocabulary, learnt
from harness.plan import Plan, decode

WORDS = Vocabulary(
    events=("acquire:invoke", "acquire", "read", "release:invoke", "write:invoke"),
    commands=("SET", "EVALSHA"),
    renews=False,
)
ASKED = [
    Asked(lock="redlock"),
    Asked(lock="redis-token", faults=("failover", "partition-replicas"), clients=2, ttl=8.0),
    Asked(lock="etcd-mutex", most_faults=3),
    Asked(lock="mysql-ttl", faults=("failover",)),
    Asked(lock="memcached-add"),
    Asked(lock="zookeeper-sequential", fencing="on"),
    Asked(lock="chubby", faults=("leader-loss", "partition-clients")),
    Asked(lock="mysql-unique", faults=("none",)),
]


@pytest.mark.parametrize(
    "asked",
    [*ASKED[:3], *(pytest.param(asked, marks=pytest.mark.slow) for asked in ASKED[3:])],
    ids=lambda asked: asked.lock,
)
def test_all_that_is_drawn_can_be_run(asked: Asked) -> None:
    asked = asked.completed()

    @settings(max_examples=25, database=None, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
    @given(schedules(asked, WORDS))
    def drawn(plan: Plan) -> None:
        complete(plan.check())
        assert decode(msgspec.to_builtins(plan)) == plan, "it can be stored as a plan"
        assert {spec.fault for spec in plan.faults} <= set(asked.faults)
        assert len(plan.faults) <= asked.most_faults
        assert 1 <= plan.clients <= asked.clients
        assert plan.ttl == asked.ttl or not asked.ttl
        assert plan.fencing == asked.fencing
        longest = max(plan.hold, *plan.holds.values()) if plan.holds else plan.hold
        assert longest < plan.ttl or asked.faults == ("none",), "work within the lease"

    drawn()


def test_where_faults_may_strike_they_do() -> None:
    asked = Asked(lock="redis-token", faults=("client-pause", "kill")).completed()
    seen: list[int] = []

    @settings(max_examples=30, database=None, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
    @given(schedules(asked, WORDS), st.just(0))
    def drawn(plan: Plan, _: int) -> None:
        seen.append(len(plan.faults))

    drawn()
    assert min(seen) == 1
    assert max(seen) == 2


def test_the_cluster_is_one_where_the_faults_can_strike() -> None:
    assert Asked(lock="redis-token").completed().kind == "redis-single"
    assert Asked(lock="redis-token", faults=("failover",)).completed().kind == "redis-sentinel"
    assert Asked(lock="mysql-ttl", faults=("failover",)).completed().kind == "mysql-replicated"
    assert "failover" not in able("redis-single")
    assert "failover" in able("redis-sentinel")


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (Asked(lock="redlok"), "redlock"),
        (Asked(lock="redlock", faults=("clock-jmp",)), "clock-jump"),
        (Asked(lock="redlock", faults=("failover",)), "failover"),
        (Asked(lock="redlock", faults=("none", "kill")), "'none' goes with no other"),
        (Asked(lock="redlock", look_for=("mutual",)), "mutual-exclusion"),
        (Asked(lock="redlock", workloads=("mutx",)), "mutex"),
        (Asked(lock="redlock", clients=0), "clients must be at least 1"),
        (Asked(lock="redlock", schedules=0), "schedules must be at least 1"),
        (Asked(lock="redlock", most_faults=-1), "most_faults must not be negative"),
        (Asked(lock="redlock", ttl=-1.0), "ttl must be more than 0"),
        (Asked(lock="redlock", fencing="of"), "fencing must be one of"),
        (Asked(lock="hazelcast-fenced"), "hazelcast"),
    ],
)
def test_what_cannot_be_hunted_is_refused(asked: Asked, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        asked.completed()


def test_what_a_lock_says_is_learnt() -> None:
    words = learnt(Asked(lock="redis-token").completed())
    assert {"acquire", "acquire:invoke", "acquire:fail", "read", "check", "release"} <= set(words.events)
    assert {"SET", "EVALSHA"} <= set(words.commands)
    assert not words.renews
    assert learnt(Asked(lock="redis-watchdog").completed()).renews
