"""Recorded traffic of a Redis: what the simulated server can explain, and what it cannot."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from harness.clusters.wire import WireRecording
from harness.documents.trace import ServerTrace
from harness.fidelity.trace.check import check_recording
from harness.sim.servers.redis import scripting
from harness.sim.servers.redis.keys import delete
from harness.sim.servers.redis.keyspace import Database
from harness.sim.servers.redis.server import RedisServer
from tests.fidelity.traffic import Traffic, recorded, runs_of

OK, NULL = "+OK", "$-1"


def check(traffic: Traffic | WireRecording, **options: Any) -> ServerTrace:
    recording = traffic if isinstance(traffic, WireRecording) else traffic.recording()
    return check_recording(recording, options)


@pytest.mark.few(3)
@pytest.mark.parametrize("name", runs_of("redis"))
def test_traffic_of_a_real_server_is_possible(name: str) -> None:
    found = check(recorded(name))
    assert (found.state, found.why, found.difference) == ("possible", "", None)
    assert found.requests > 100


# Concurrent requests.


def test_concurrent_requests_may_be_executed_in_either_order() -> None:
    for first, second in ((OK, NULL), (NULL, OK)):
        traffic = Traffic().redis(1, 1, 4, "SET k a NX", first).redis(2, 2, 3, "SET k b NX", second)
        assert check(traffic).state == "possible", (first, second)


def test_two_holders_of_one_key_are_impossible_in_any_order() -> None:
    traffic = Traffic().redis(1, 1, 4, "SET k a NX", OK).redis(2, 2, 3, "SET k b NX", OK)
    found = check(traffic)
    assert (found.state, found.requests) == ("impossible", 2)
    assert found.difference is not None
    assert found.difference.possible == ("nil",)
    assert found.difference.real == "+OK"


def test_request_is_not_executed_after_its_reply_or_before_its_arrival() -> None:
    early = Traffic().redis(1, 1, 2, "GET k", "$1\r\nv").redis(2, 3, 4, "SET k v", OK)
    late = Traffic().redis(1, 1, 2, "SET k v", OK).redis(2, 3, 4, "GET k", NULL)
    assert (check(early).state, check(late).state) == ("impossible", "impossible")


def test_first_impossible_reply_is_shown_with_its_request_and_connection() -> None:
    traffic = (
        Traffic().redis(1, 1, 2, "SET k v", OK).redis(2, 30, 40, "GET k", "$1\r\nw").redis(1, 50, 60, "PING", "+P")
    )
    found = check(traffic).difference
    assert found is not None
    assert (found.at_s, found.connection, found.client) == (0.04, 2, "10.0.0.2:1")
    assert (found.request, found.real, found.possible) == ("['GET', 'k']", "'w'", ("'v'",))


def test_many_concurrent_requests_that_change_nothing_do_not_multiply_the_search() -> None:
    traffic = Traffic()
    for number in range(1, 31):
        traffic.redis(number, number, 100, "GET k", NULL)
    traffic.redis(31, 40, 99, "SET k v NX", OK).redis(32, 110, 120, "GET k", "$1\r\nx")
    found = check(traffic)
    assert found.state == "impossible"
    assert found.steps < 200


# Requests without a reply.


@pytest.mark.parametrize("then", [NULL, "$1\r\nv"])
def test_request_without_a_reply_may_have_been_executed_or_not(then: str) -> None:
    traffic = Traffic().redis(1, 1, None, "SET k v").add("end", 5, connection=1, by="client")
    assert check(traffic.redis(2, 10, 11, "GET k", then)).state == "possible"


def test_request_without_a_reply_is_not_executed_before_its_arrival() -> None:
    traffic = Traffic().redis(2, 1, 2, "GET k", "$1\r\nv").redis(1, 3, None, "SET k v")
    assert check(traffic).state == "impossible"


def test_request_is_not_executed_after_the_server_closed_its_connection() -> None:
    traffic = Traffic().redis(1, 1, None, "SET k v").add("end", 5, connection=1, by="client")
    traffic.add("end", 6, connection=1, by="server").redis(2, 10, 11, "GET k", NULL).redis(
        2, 20, 21, "GET k", "$1\r\nv"
    )
    assert check(traffic).state == "impossible"


# Expiry.


@pytest.mark.parametrize(
    ("asked", "reply", "state"),
    [
        (2000, "$1\r\nv", "possible"),
        (2000, NULL, "impossible"),
        (2021, NULL, "possible"),
        (2021, "$1\r\nv", "impossible"),
        (2007, NULL, "possible"),  # it was set between 1 and 10 ms, so it may have expired, or not
        (2007, "$1\r\nv", "possible"),
    ],
)
def test_expiry_is_as_uncertain_as_the_moment_of_the_command_that_set_it(asked: float, reply: str, state: str) -> None:
    traffic = Traffic().redis(1, 1, 10, "SET k v PX 2000", OK)
    assert check(traffic.redis(2, asked, asked + 0.5, "GET k", reply)).state == state


@pytest.mark.parametrize(
    ("left", "state"), [(1899, "impossible"), (1901, "possible"), (1910, "possible"), (1912, "impossible")]
)
def test_remaining_time_must_be_one_of_the_interval(left: int, state: str) -> None:
    traffic = Traffic().redis(1, 1, 10, "SET k v PX 2000", OK)
    assert check(traffic.redis(2, 100, 100.2, "PTTL k", f":{left}")).state == state


@pytest.mark.parametrize(
    ("asked", "left", "state"),
    [
        (2001, 0, "possible"),
        (2003, 0, "possible"),
        (2003, 1, "possible"),
        (2003, -2, "possible"),
        (2003, 9, "impossible"),
    ],
)
def test_remaining_time_of_a_key_that_is_about_to_expire(asked: float, left: int, state: str) -> None:
    """The key expires between 2,001 and 2,010 ms."""
    traffic = Traffic().redis(1, 1, 10, "SET k v PX 2000", OK)
    assert check(traffic.redis(2, asked, asked + 0.2, "PTTL k", f":{left}")).state == state


def test_time_is_that_of_the_recorded_clock() -> None:
    def asked(seconds: int) -> str:
        return check(Traffic().redis(1, 5, 6, "TIME", f"*2\r\n$10\r\n{seconds}\r\n$4\r\n5500")).state

    assert (asked(1767225600), asked(1767225601)) == ("possible", "impossible")


def test_clock_that_a_fault_moves_expires_keys() -> None:
    def moved(reply: str) -> str:
        traffic = Traffic().redis(1, 1, 2, "SET k v PX 2000", OK)
        traffic.add("clock", 10, 20, offset_ns=3_000_000_000, since_ns=10_000_000)
        return check(traffic.redis(1, 30, 31, "GET k", reply)).state

    assert (moved(NULL), moved("$1\r\nv")) == ("possible", "impossible")


def test_restarted_server_has_true_time_until_its_clock_is_set_again() -> None:
    def asked(at: float, reply: str) -> str:
        traffic = Traffic().add("clock", 1, 2, offset_ns=-5_000_000_000, since_ns=1_000_000)
        traffic.redis(1, 3, 4, "SET k v PX 2000", OK).add("kill", 10, 12).add("start", 20, 21, how="kept")
        traffic.add("clock", 100, 101, offset_ns=-5_000_000_000, since_ns=1_000_000)
        return check(traffic.redis(2, at, at + 1, "GET k", reply)).state

    assert (asked(50, NULL), asked(50, "$1\r\nv")) == ("possible", "impossible")
    assert (asked(200, "$1\r\nv"), asked(200, NULL)) == ("possible", "impossible")


# Faults on the process.


@pytest.mark.parametrize(("how", "reply"), [("kept", "$1\r\nv"), ("wiped", NULL)])
def test_restart_keeps_the_data_or_loses_it(how: str, reply: str) -> None:
    def answered(value: str) -> str:
        traffic = Traffic().redis(1, 1, 2, "SET k v", OK).add("kill", 3, 4).add("start", 5, 6, how=how)
        return check(traffic.redis(2, 10, 11, "GET k", value)).state

    assert answered(reply) == "possible"
    assert answered(NULL if reply != NULL else "$1\r\nv") == "impossible"


def test_server_without_persistence_restarts_empty() -> None:
    traffic = Traffic().redis(1, 1, 2, "SET k v", OK).add("kill", 3, 4).add("start", 5, 6, how="kept")
    assert check(traffic.redis(2, 10, 11, "GET k", NULL), persistence="no").state == "possible"


def test_server_that_syncs_once_a_second_is_checked_until_its_restart() -> None:
    traffic = Traffic().redis(1, 1, 2, "SET k v", OK).add("kill", 3, 4).add("start", 5, 6, how="kept")
    found = check(traffic.redis(2, 10, 11, "GET k", NULL), persistence="everysec")
    assert (found.state, found.requests) == ("possible", 1)
    assert "may have lost" in found.why


@pytest.mark.parametrize("then", [NULL, "$1\r\nv"])
def test_last_request_before_a_kill_may_have_been_executed_or_not(then: str) -> None:
    traffic = Traffic().redis(1, 1, None, "SET k v").add("kill", 3, 4).add("start", 5, 6, how="kept")
    assert check(traffic.redis(2, 10, 11, "GET k", then)).state == "possible"


def test_unanswered_request_is_not_executed_after_a_restart() -> None:
    traffic = Traffic().redis(1, 1, None, "SET k v").add("kill", 3, 4).add("start", 5, 6, how="kept")
    traffic.redis(2, 10, 11, "GET k", NULL).redis(2, 20, 21, "GET k", "$1\r\nv")
    assert check(traffic).state == "impossible"


LOADING = "-LOADING Redis is loading the dataset in memory"


def test_started_server_refuses_commands_until_it_has_loaded_its_data() -> None:
    def restarted() -> Traffic:
        return Traffic().redis(1, 1, 2, "SET k v", OK).add("kill", 3, 4).add("start", 5, 6, how="kept")

    refused = restarted().redis(2, 10, 11, "DEL k", LOADING).redis(3, 11, 12, "INCR k", LOADING)
    assert check(refused.redis(2, 20, 21, "GET k", "$1\r\nv")).state == "possible"
    later = restarted().redis(2, 10, 11, "SELECT 0", OK).redis(2, 12, 13, "GET k", "$1\r\nv")
    assert check(later.redis(3, 20, 21, "GET k", LOADING)).state == "impossible"
    beside = restarted().redis(2, 10, 13, "GET k", "$1\r\nv").redis(3, 10, 12, "GET k", LOADING)
    assert check(beside).state == "possible"


def test_transaction_with_a_command_refused_while_loading_is_not_executed() -> None:
    traffic = Traffic().redis(1, 1, 2, "MULTI", OK).redis(1, 3, 4, "SET k v", LOADING)
    traffic.redis(1, 5, 6, "EXEC", "-EXECABORT Transaction discarded because of previous errors.")
    assert check(traffic.redis(1, 7, 8, "GET k", NULL)).state == "possible"


def test_request_that_arrives_in_a_pause_is_executed_after_it() -> None:
    def remaining(left: int) -> str:
        traffic = Traffic().add("pause", 10, 11).redis(1, 20, 1_003, "SET k v PX 2000", OK).add("resume", 1_000, 1_001)
        return check(traffic.redis(2, 1_100, 1_100.2, "PTTL k", f":{left}")).state

    assert (remaining(1_901), remaining(1_500)) == ("possible", "impossible")


# Waits and messages.


def test_blocked_client_gets_its_reply_from_the_command_that_fills_the_list() -> None:
    def popped(value: str) -> str:
        traffic = Traffic().redis(1, 1, 50, "BLPOP q 5", f"*2\r\n$1\r\nq\r\n$1\r\n{value}")
        return check(traffic.redis(2, 48, 49, "RPUSH q a", ":1")).state

    assert (popped("a"), popped("b")) == ("possible", "impossible")


@pytest.mark.parametrize(("after", "state"), [(900, "impossible"), (1_020, "possible"), (1_500, "possible")])
def test_wait_ends_without_a_value_only_after_its_time_out(after: float, state: str) -> None:
    assert check(Traffic().redis(1, 1, after, "BLPOP q 1", "*-1").redis(2, 2, 3, "PING", "+PONG")).state == state


def test_published_message_reaches_the_subscribers() -> None:
    message = "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\nhi"

    def published(receivers: int) -> str:
        traffic = Traffic().redis(1, 1, 2, "SUBSCRIBE c", "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1")
        traffic.redis(2, 3, 5, "PUBLISH c hi", f":{receivers}")
        return check(traffic.add("out", 4, connection=1, data=message.encode() + b"\r\n")).state

    assert (published(1), published(0)) == ("possible", "impossible")


def test_message_that_nobody_published_is_impossible() -> None:
    traffic = Traffic().redis(1, 1, 2, "SUBSCRIBE c", "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1")
    traffic.add("out", 4, connection=1, data=b"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\nhi\r\n")
    assert check(traffic).state == "impossible"


# What is not decided.


@pytest.mark.parametrize(
    ("traffic", "options", "why"),
    [
        (Traffic("nats").redis(1, 1, 2, "PING", "+PONG"), {}, "no specification for nats"),
        (Traffic().redis(1, 1, 2, "PING", "+PONG"), {"maxmemory": 3_000_000}, "evicts"),
        (Traffic().bytes(1, 1, 2, b"*1\r\n!\r\n", b"+OK\r\n"), {}, "not readable"),
        (Traffic().redis(1, 1, None, "PING"), {}, "nothing was recorded"),
    ],
)
def test_what_cannot_be_checked_is_unknown_with_the_reason(traffic: Traffic, options: Any, why: str) -> None:
    found = check(traffic, **options)
    assert found.state == "unknown"
    assert why in found.why


def test_recording_that_lost_packets_proves_nothing() -> None:
    recording = Traffic().redis(1, 1, 2, "GET k", "$1\r\nv").recording(lost=3)
    assert (check(recording).state, check(recording).why) == ("unknown", "the recording lost 3 packets")


def test_search_that_reaches_its_bound_is_unknown() -> None:
    recording = recorded("redis-pub-sub")
    found = check_recording(recording, {}, most_seconds=0.0)
    assert found.state == "unknown"
    assert "given up" in found.why


def test_traffic_is_checked_until_the_server_may_evict() -> None:
    def found(first: str) -> ServerTrace:
        traffic = Traffic().redis(1, 1, 2, "GET k", first).redis(1, 3, 4, "CONFIG SET maxmemory 1mb", OK)
        return check(traffic.redis(1, 5, 6, "GET k", "$1\r\nv"))

    assert (found(NULL).state, found("$1\r\nw").state) == ("possible", "impossible")
    assert "later a server with maxmemory evicts" in found(NULL).why
    assert found(NULL).requests == 1


def test_primary_is_checked_without_its_replicas_until_it_becomes_one() -> None:
    def found(value: str, host: str = "n1") -> ServerTrace:
        traffic = Traffic("redis-sentinel").redis(1, 1, 2, "SET k v", OK).redis(1, 3, 4, "WAIT 2 100", ":2")
        traffic.redis(2, 1, 2, "PSYNC ? -1", "+FULLRESYNC x 0").redis(1, 5, 6, "GET k", value)
        traffic.redis(4, 1, 2, "SUBSCRIBE __sentinel__:hello", "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\nhi")
        traffic.redis(3, 7, 8, "SLAVEOF n2 6379", OK).redis(1, 9, 10, "GET k", NULL)
        return check(msgspec.structs.replace(traffic.recording(), host=host))

    assert (found("$1\r\nv").state, found(NULL).state) == ("possible", "impossible")
    assert "later the server becomes a replica" in found("$1\r\nv").why
    assert (found(NULL, "n2").state, "a replica executes" in found(NULL, "n2").why) == ("unknown", True)


def test_traffic_of_a_redis_cluster_is_not_checked() -> None:
    """The same reply from a single server is impossible."""
    moved = "-MOVED 8579 n2:6379"

    def found(kind: str) -> ServerTrace:
        return check(Traffic(kind).redis(1, 1, 2, "GET k0", moved).recording())

    assert (found("redis-cluster").state, "no hash slots" in found("redis-cluster").why) == ("unknown", True)
    assert found("redis-single").state == "impossible"


def test_recording_that_was_cut_off_is_checked_as_far_as_it_goes() -> None:
    found = check(Traffic().redis(1, 1, 2, "GET k", NULL).redis(1, 3, None, "GET k").recording(cut_ns=4_000_000))
    assert found.state == "possible"
    assert "only its beginning" in found.why


# Mistakes in the simulated server are found in the traffic of a real one.


def test_simulated_set_that_ignores_nx_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    command = RedisServer().commands[b"set"]
    execute = command.fn
    monkeypatch.setattr(command, "fn", lambda client, args: execute(client, [one for one in args if one != b"NX"]))
    found = check(recorded("redis-client-pause")).difference
    assert found is not None
    assert (found.real, found.possible) == ("null", ("+OK",))


@pytest.mark.parametrize("name", ["redis-client-pause", "redis-clock-jump", "redis-server-pause"])
@pytest.mark.parametrize("late_ms", [-1000, 5, 1000])
def test_simulated_keys_that_expire_late_or_early_are_found(
    monkeypatch: pytest.MonkeyPatch, name: str, late_ms: int
) -> None:
    expire_at = Database.expire_at
    monkeypatch.setattr(Database, "expire_at", lambda self, key, when: expire_at(self, key, when + late_ms))
    assert check(recorded(name)).state == "impossible"


def test_simulated_release_script_that_deletes_a_foreign_key_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def delete_always(self: Any, client: Any, script: Any, keys: Any, argv: Any, read_only: Any) -> Any:
        del self, script, argv, read_only
        return delete(client, [b"DEL", *keys])

    monkeypatch.setattr(scripting.Interpreter, "run", delete_always)
    found = check(recorded("redis-client-pause")).difference
    assert found is not None
    assert "EVALSHA" in found.request
    assert (found.real, found.possible) == (":0", (":1",))


def test_simulated_server_that_keeps_data_in_a_restart_without_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    start = RedisServer.start
    monkeypatch.setattr(RedisServer, "start", lambda self, host, *, wiped: start(self, host, wiped=False))
    assert check(recorded("redis-restart-empty")).state == "impossible"
