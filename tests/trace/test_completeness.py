"""A trace has each command that a simulated server says it executed."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any, Final

import msgspec
import pytest

from harness.plan import FaultSpec, Plan
from harness.sim.message_log import ARRIVED, REQUEST
from harness.trace.decoding import decode
from harness.trace.streams import Connection, Piece

from .logged import LoggedRun, run_logged

UNREPORTED: Final = frozenset({"LOGIN", "STARTUP", "PARSE", "notification"})
"""Messages that servers do not report: they report statements, and answers."""
LOCKS: Final = (
    "redis-token", "redlock", "redis-wait", "redis-py-asyncio-lock", "memcached-token", "mysql-get-lock",
    "mysql-for-update", "postgres-advisory", "postgres-row", "zookeeper-sequential", "kazoo-lock", "etcd-mutex",
    "etcd3-lock", "sherlock-etcd", "consul-session", "chubby",
)  # fmt: skip


def reported(run: LoggedRun) -> Counter[tuple[str, str]]:
    return Counter((one.server, one.name) for one in run.commands if one.phase == "reply")


def traced(run: LoggedRun) -> Counter[tuple[str, str]]:
    """The first words of the requests that servers replied to. Sentinels report nothing, and PostgreSQL no statement
    that fails."""
    return Counter(
        (one.server, one.name.split()[0].upper())
        for one in run.trace().messages
        if one.executed is not None
        and one.name not in UNREPORTED
        and one.server.startswith("n")
        and not (run.plan.kind == "postgres" and "ERROR" in one.reply)
    )


@pytest.mark.few(4)
@pytest.mark.parametrize("lock", LOCKS)
def test_every_executed_command_is_in_the_trace(lock: str) -> None:
    run = run_logged(Plan(lock=lock, time_limit=2.0, clients=2))
    assert run.trace().undecoded == ()
    assert traced(run) == reported(run)
    assert sum(traced(run).values()) > 20


def without_request(run: LoggedRun, number: int) -> LoggedRun:
    """Return the run as if the request of this number were not in its log."""
    batches = run.messages.batches
    entries = [entry for batch in batches for entry in msgspec.msgpack.decode(batch, type=list[list[Any]])]
    requests = [at for at, entry in enumerate(entries) if entry[0] == REQUEST]
    lost = requests[number]
    stream = entries[lost][1]
    earlier = sum(entries[at][1] == stream for at in requests[:number])
    arrivals = [at for at, entry in enumerate(entries) if entry[0] == ARRIVED and entry[1] == stream]
    kept = [entry for at, entry in enumerate(entries) if at not in (lost, arrivals[earlier])]
    return replace(run, messages=replace(run.messages, batches=[msgspec.msgpack.encode(kept)]))


@pytest.mark.parametrize("number", [0, 17, -2])
def test_a_request_that_is_not_in_the_log_is_missing_in_the_trace(number: int) -> None:
    run = run_logged(Plan(lock="redis-token", time_limit=2.0, clients=2))
    assert traced(run) == reported(run)
    assert traced(without_request(run, number)) != reported(run)


def test_requests_that_a_cut_loses_are_in_the_trace() -> None:
    cut = FaultSpec("partition-majority", every=2.0, for_=1.0)
    run = run_logged(Plan(lock="redlock", time_limit=6.0, clients=2, faults=(cut,)))
    assert traced(run) == reported(run)
    delays = [one.arrived - one.sent for one in run.trace().messages if one.sent and one.arrived]
    assert max(delays) > 100_000_000


def test_data_that_no_parser_reads_is_named_and_ends_nothing() -> None:
    garbage = Piece(1, b"*1\r\n$-7\r\n", True, arrived=2)
    connections = [Connection("c0>n1", "c0", "n1", [garbage]), Connection("c1>n1", "c1", "n1", [])]
    found = decode(connections, "redis", simulated=True)
    assert found.exchanges == []
    assert len(found.undecoded) == 1
    assert found.undecoded[0].startswith("c0>n1: ")
    assert decode(connections, "unheard-of", simulated=True).undecoded == ["there is no decoder for unheard-of"]
