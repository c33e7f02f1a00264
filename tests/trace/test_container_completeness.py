"""The trace of a run on containers has as many commands as its servers counted, besides those of the harness."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from harness.clusters.docker.services import consul, hazelcast, postgres
from harness.clusters.kinds import KINDS
from harness.plan import Plan
from harness.run.plans.completion import complete
from harness.run.plans.lock_facts import find_facts
from harness.trace.decoding import KEEPS_ALIVE

from .counted import CountedRun, run_counted
from .counters import COUNTERS, HAZELCAST_DIAGNOSTICS

pytestmark = pytest.mark.docker
LOCKS: Final = (
    "redis-token", "redis-fenced", "redis-py-asyncio-lock", "redlock", "redisson-lock", "memcached-token",
    "memcached-add", "mysql-get-lock", "mysql-for-update", "mysql-get-lock@mysql-9.7", "mysql-unique@mysql-9.7",
    "zookeeper-sequential", "kazoo-lock", "etcd-mutex", "etcd3-lock", "postgres-advisory", "postgres-row",
    "consul-session", "consul-go-lock", "nats-kv", "nats-kv-lock", "hazelcast-fenced",
    "chubby",
)  # fmt: skip
"""Names of locks, with the release of the server if it is not the one that Debian packages."""
WITHOUT_LINES: Final = frozenset(
    {"redisson-lock", "consul-go-lock", "etcd-mutex", "etcd3-lock", "nats-kv", "nats-kv-lock"}
)
"""Locks whose clients do not use the sockets of Python, or send in a task that lives as long as the connection."""

WITH_CALLS: Final = frozenset({"redis-token", "redis-py-asyncio-lock"})
"""A lock with plain methods and one with coroutines, both of whose messages belong to calls without exception."""


@pytest.fixture(autouse=True)
def counting_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let servers count that do not do so by default."""
    monkeypatch.setitem(postgres.SETTINGS, "log_statement", "all")
    telemetry = 'telemetry {prometheus_retention_time = "1h", disable_hostname = true}'
    monkeypatch.setattr(consul, "CONFIGURATION", (*consul.CONFIGURATION, telemetry))
    monkeypatch.setattr(hazelcast, "JAVA", (*hazelcast.JAVA, *HAZELCAST_DIAGNOSTICS))


@pytest.mark.parametrize("lock", LOCKS)
def test_the_trace_has_each_command_that_the_servers_counted(tmp_path: Path, lock: str) -> None:
    name, _, release = lock.partition("@")
    options = {"release": release} if release else {}
    plan = Plan(lock=name, cluster="docker", clients=2, time_limit=3.0, server_options=options)
    counters = COUNTERS[KINDS.find(complete(plan, find_facts(name)).kind).service]
    found = run_counted(plan, tmp_path, counters.count, subtracts=counters.subtracts)
    assert counters.differences(found) == {}
    assert found.traced() == found.of_clients()
    assert found.traced().total() > 20
    assert found.traced().total() < found.names().total(), "the harness sends commands, too"
    commands = {command for _, _, command in found.of_clients()}
    compared = commands.difference(counters.uncounted(found))
    assert compared
    for command in compared:
        assert counters.differences(found.without_packet(command)), f"a lost {command} is not noticed"
    for command in commands:
        lost = found.without_message(command)
        assert lost.traced() != lost.of_clients()
    has_ordered_times(found)
    if lock not in WITHOUT_LINES:
        has_lines(found)
    if lock in WITH_CALLS:
        has_calls(found)


def has_ordered_times(found: CountedRun) -> None:
    for one in found.trace.messages:
        times = [time for time in (one.sent, one.arrived, one.executed, one.replied) if time is not None]
        assert times == sorted(times)


def has_lines(found: CountedRun) -> None:
    """Nearly all messages of clients in Python have their four times and their line. Heartbeats have no line."""
    messages = [one for one in found.trace.messages if one.arrived is not None and one.name not in KEEPS_ALIVE]
    placed = [one for one in messages if one.sent and one.arrived and one.executed and one.replied and one.file]
    assert len(placed) > 0.9 * len(messages)
    for one in placed:
        assert len(found.trace.sources[one.file].splitlines()) >= one.line


def has_calls(found: CountedRun) -> None:
    """All messages whose sending was logged belong to a call of that client that was in progress."""
    calls = {call.invoke.index: call for call in found.history.calls()}
    sent = [(one, one.sent) for one in found.trace.messages if one.sent is not None]
    assert len(sent) > 20
    for one, time in sent:
        assert one.call is not None, f"{one.name} has no call"
        invoke, done = calls[one.call].invoke, calls[one.call].done
        assert (invoke.node, invoke.process) == (one.client, one.process)
        assert invoke.time <= time
        assert done is None or time <= done.time
