"""Plans for servers that the user runs that are refused before anything starts."""

from __future__ import annotations

import pytest

from harness.clusters.servers.companions import Cleaner
from harness.errors import EnvironmentLacking, UsageError
from harness.plan import FaultSpec, Plan
from harness.run.plans.completion import complete

ONE = ("redis://127.0.0.1:6379",)


def servers_plan(*addresses: str, lock: str = "redis-token", **more: object) -> Plan:
    return Plan(lock=lock, cluster="servers", servers=addresses or ONE, **more).check()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "fault",
    ["kill", "kill-amnesia", "server-pause", "clock-jump", "partition-node", "partition-halves", "eviction",
     "disk-stall", "failover", "clock-drift", "power-loss", "leader-loss"],
)  # fmt: skip
def test_faults_of_servers_are_refused_with_what_is_possible(fault: str) -> None:
    with pytest.raises(UsageError) as refused:
        complete(servers_plan(faults=(FaultSpec(fault, at=1.0, for_=1.0),)))
    message = str(refused.value)
    assert f"nemesis {fault!r} is not possible on servers of your own" in message
    possible = message.partition("possible are ")[2].partition("; or let")[0].split(", ")
    assert sorted(possible) == [
        "black-hole", "client-crash", "client-hang", "client-pause", "connection-reset", "delayed-request", "latency",
        "lost-reply", "none", "packet-loss", "partition-clients", "slow-link",
    ]  # fmt: skip
    for name in possible:
        complete(servers_plan(faults=(FaultSpec(name, at=1.0, for_=1.0),)))


def test_a_run_does_not_start_without_the_program_that_removes_its_keys() -> None:
    cleaner = Cleaner("redis-single", "harness:test", ["redis://127.0.0.1:notaport"])
    with pytest.raises(EnvironmentLacking, match=r"the program that removes the run's keys does not start: .*notaport"):
        cleaner.await_start()


@pytest.mark.parametrize(
    ("addresses", "message"),
    [
        (("127.0.0.1:6379",), "expected an address such as redis://127.0.0.1:6379"),
        (("oracle://127.0.0.1",), "oracle://"),
        (("redis://",), "names no host"),
        (("redis://127.0.0.1:notaport",), "is no address"),
        (("redis://:secret@127.0.0.1",), "must be an environment variable"),
        (("redis://127.0.0.1/3",), "expected only redis://HOST:PORT"),
        (("redis://127.0.0.1", "redis://127.0.0.1:6379"), "redis://127.0.0.1:6379 is given twice"),
        (("redis://127.0.0.1", "memcached://127.0.0.1"), "servers must be of one kind, got memcached and redis"),
        (("memcached://127.0.0.1",), "redis-token runs on .*, and the servers are memcached"),
        (("redis://127.0.0.1", "redis://127.0.0.1:1"), "and 2 servers are given"),
    ],
)
def test_wrong_addresses_are_refused(addresses: tuple[str, ...], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        complete(servers_plan(*addresses))


def test_a_password_is_not_repeated_in_the_message() -> None:
    with pytest.raises(UsageError) as refused:
        complete(servers_plan("redis://:secret@127.0.0.1"))
    assert "secret" not in str(refused.value)


def test_several_addresses_are_independent_servers() -> None:
    addresses = tuple(f"redis://127.0.0.1:{port}" for port in range(7001, 7006))
    plan = complete(servers_plan(*addresses, lock="redlock"))
    assert (plan.kind, plan.nodes) == ("redis-independent", 5)


def test_servers_go_with_their_cluster() -> None:
    with pytest.raises(UsageError, match="go together"):
        Plan(lock="redis-token", servers=ONE).check()
    with pytest.raises(UsageError, match="go together"):
        Plan(lock="redis-token", cluster="servers").check()
    with pytest.raises(UsageError, match="nodes must be the number of servers, 1, got 5"):
        servers_plan(nodes=5)
    with pytest.raises(UsageError, match="yours to configure"):
        servers_plan(server_options={"maxmemory": "3mb"})


def test_a_lock_of_another_language_is_refused() -> None:
    with pytest.raises(UsageError, match="is a lock for Java and runs in containers only"):
        complete(servers_plan(lock="redisson-lock"))
