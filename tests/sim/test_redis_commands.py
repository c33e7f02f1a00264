"""The simulated Redis: commands, connections, transactions, publish and subscribe, blocking commands, persistence."""

from __future__ import annotations

from typing import Any

import pytest

from harness.sim.servers.redis.server import RedisServer
from tests.sim.redis_client import DirectConn, RedisCaller, ReplyError
from tests.sim.redis_stub import StubWorld


class RedisBench:
    """One Redis server and a direct connection to it."""

    def __init__(self, **options: Any) -> None:
        self.world = StubWorld()
        self.server = RedisServer(**options)
        self.host = self.world.host("n1", self.server)
        self.conn = self.connect()

    def connect(self, peer: str = "client") -> DirectConn:
        return DirectConn(self.server, peer)


@pytest.fixture
def bench() -> RedisBench:
    return RedisBench()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["GET"], "ERR wrong number of arguments for 'get' command"),
        (["foo", "a", "b"], "ERR unknown command 'foo', with args beginning with: 'a' 'b' "),
        (["CLIENT", "MAINT_NOTIFICATIONS", "on"], "ERR unknown subcommand 'MAINT_NOTIFICATIONS'. Try CLIENT HELP."),
        (["CLIENT", "SETINFO", "lib-name", "x"], "ERR unknown subcommand 'SETINFO'. Try CLIENT HELP."),
        (["SET", "a", "b", "EX", "0"], "ERR invalid expire time in 'set' command"),
        (["SET", "a", "b", "NX", "XX"], "ERR syntax error"),
        (["INCRBY", "a", "x"], "ERR value is not an integer or out of range"),
        (["EVALSHA", "f" * 40, "0"], "NOSCRIPT No matching script. Please use EVAL."),
        (["SELECT", "16"], "ERR DB index is out of range"),
    ],
)
def test_errors_have_the_texts_of_the_real_server(bench: RedisBench, words: list[str], expected: str) -> None:
    reply = bench.conn(*words)
    assert isinstance(reply, ReplyError)
    assert reply == expected


@pytest.mark.parametrize(
    ("words", "noted"),
    [
        (["XADD", "s", "*", "a", "b"], "the Redis command XADD"),
        (["fcall", "unlock", "0"], "the Redis command FCALL"),
        (["FUNCTION", "LOAD", "x"], "the Redis command FUNCTION"),
        (["CLIENT", "UNBLOCK", "1"], "the Redis command CLIENT UNBLOCK"),
        (["CLIENT", "TRACKING", "on"], "the Redis command CLIENT TRACKING"),
        (
            ["CONFIG", "SET", "notify-keyspace-events", "KEA"],
            "the Redis command CONFIG SET notify-keyspace-events KEA",
        ),
        (["CONFIG", "SET", "list-max-listpack-size", "9"], "the Redis command CONFIG SET list-max-listpack-size 9"),
        (["EVAL", "return redis.call('xadd','s','*','a','b')", 0], "the Redis command XADD"),
        (["EVAL", "return redis.pcall('copy','a','b')", 0], "the Redis command COPY"),
        (["EVAL", "return cjson.encode({})", 0], "cjson in a Redis script"),
    ],
)
def test_what_the_simulator_lacks_is_refused_and_noted(bench: RedisBench, words: list[Any], noted: str) -> None:
    bench.conn(*words)
    assert bench.host.lacking == [("client", noted)]


@pytest.mark.parametrize(
    "words", [["FOO"], ["DELEX", "k"], ["CLIENT", "SETINFO", "a", "b"], ["EVAL", "return foo", 0], ["SET", "a"]]
)
def test_what_redis_7_0_refuses_too_is_not_noted(bench: RedisBench, words: list[Any]) -> None:
    assert isinstance(bench.conn(*words), ReplyError)
    assert not bench.host.lacking


def test_set_nx_px_acquires_a_free_lock_only(bench: RedisBench) -> None:
    assert bench.conn("SET", "lock", "me", "NX", "PX", 3000) == "OK"
    assert bench.conn("SET", "lock", "you", "NX", "PX", 3000) is None
    assert bench.conn("PTTL", "lock") == 3000
    assert bench.server.peek(b"lock") == (b"me", bench.host.wall_ns() // 1_000_000 + 3000)


def test_binary_values_with_line_ends_are_kept(bench: RedisBench) -> None:
    value = b"a\r\n$3\r\nfoo\r\n\x00\xff"
    assert bench.conn("SET", "k", value) == "OK"
    assert bench.conn("GET", "k") == value


def test_a_pipeline_is_answered_in_one_packet(bench: RedisBench) -> None:
    assert bench.conn.raw(b"PING\r\n*2\r\n$4\r\nECHO\r\n$1\r\nx\r\n*1\r\n$4\r\nPI") == b"+PONG\r\n$1\r\nx\r\n"
    assert bench.conn.raw(b"NG\r\n") == b"+PONG\r\n"


def test_a_protocol_error_closes_the_connection(bench: RedisBench) -> None:
    assert bench.conn.raw(b"*1\r\nPING\r\n") == b"-ERR Protocol error: expected '$', got 'P'\r\n"
    assert bench.conn.closed


def test_resp3_encodes_maps_doubles_and_nulls(bench: RedisBench) -> None:
    assert bench.conn("HELLO", 3, "SETNAME", "me")[b"proto"] == 3
    bench.conn("HSET", "h", "f", "v")
    assert bench.conn("HGETALL", "h") == {b"f": b"v"}
    assert bench.conn.wire("GET", "none") == b"_\r\n"
    bench.conn("ZADD", "z", 1.5, "m")
    assert bench.conn.wire("ZSCORE", "z", "m") == b",1.5\r\n"
    assert bench.conn.wire("PUBSUB", "NUMSUB", "c") == b"*2\r\n$1\r\nc\r\n:0\r\n"  # an array, not a map


def test_exec_fails_after_another_client_changed_a_watched_key(bench: RedisBench) -> None:
    other = bench.connect()
    bench.conn("WATCH", "k")
    other("SET", "k", 1)
    bench.conn("MULTI")
    assert bench.conn("SET", "k", 2) == "QUEUED"
    assert bench.conn("EXEC") is None
    assert bench.conn("GET", "k") == b"1"


def test_exec_fails_after_a_watched_key_expired_without_being_read(bench: RedisBench) -> None:
    bench.conn("SET", "k", 1, "PX", 50)
    bench.conn("WATCH", "k")
    bench.host.offset_ns += 60_000_000
    bench.conn("MULTI")
    bench.conn("PING")
    assert bench.conn("EXEC") is None


def test_exec_aborts_after_an_invalid_queued_command(bench: RedisBench) -> None:
    bench.conn("MULTI")
    bench.conn("NOPE")
    assert bench.conn("EXEC") == "EXECABORT Transaction discarded because of previous errors."


def test_publish_reaches_subscribers_of_channels_and_patterns(bench: RedisBench) -> None:
    listener = bench.connect()
    assert listener("SUBSCRIBE", "news") == [b"subscribe", b"news", 1]
    assert listener("PSUBSCRIBE", "n*s") == [b"psubscribe", b"n*s", 2]
    listener.pushed()
    assert bench.conn("PUBLISH", "news", "hi") == 2
    assert listener.pushed() == [[b"message", b"news", b"hi"], [b"pmessage", b"n*s", b"news", b"hi"]]
    assert "only (P|S)SUBSCRIBE" in listener("GET", "a")


def test_blocked_clients_are_served_first_come_first_served(bench: RedisBench) -> None:
    first, second = bench.connect(), bench.connect()
    assert first("BLPOP", "q", 0) is None
    assert second("BLPOP", "q", 0) is None
    assert bench.conn("RPUSH", "q", "a", "b") == 2
    assert first.pushed() == [[b"q", b"a"]]
    assert second.pushed() == [[b"q", b"b"]]
    assert bench.conn("EXISTS", "q") == 0


def test_commands_after_a_blocking_one_wait_for_it(bench: RedisBench) -> None:
    waiter = bench.connect()
    assert waiter.raw(b"BLPOP q 0\r\nPING\r\n") == b""
    assert waiter.raw(b"ECHO x\r\n") == b""
    waiter.sent = b""
    bench.conn("LPUSH", "q", "v")
    bench.world.run(0.01)
    assert waiter.pushed() == [[b"q", b"v"], "PONG", b"x"]


def test_a_blocking_command_times_out(bench: RedisBench) -> None:
    waiter = bench.connect()
    waiter("BLPOP", "q", 0.5)
    bench.world.run(0.45)
    assert waiter.pushed() == []
    bench.world.run(0.1)
    assert waiter.pushed() == [None]


def test_the_timeout_of_a_blocking_command_uses_the_wall_clock(bench: RedisBench) -> None:
    waiter = bench.connect()
    waiter("BLPOP", "q", 100)
    bench.host.offset_ns += 200 * 10**9
    bench.world.run(0.2)
    assert waiter.sent == b"*-1\r\n"


def test_a_push_serves_a_blocked_move(bench: RedisBench) -> None:
    waiter = bench.connect()
    waiter("BLMOVE", "in", "out", "LEFT", "RIGHT", 0)
    bench.conn("RPUSH", "in", "v")
    assert waiter.pushed() == [b"v"]
    assert bench.conn("LRANGE", "out", 0, -1) == [b"v"]


def test_client_kill_by_id_closes_the_connection(bench: RedisBench) -> None:
    victim = bench.connect()
    number = victim("CLIENT", "ID")
    assert bench.conn("CLIENT", "KILL", "ID", number) == 1
    assert victim.closed


def test_persistent_data_survives_a_kill_but_not_a_wipe() -> None:
    bench = RedisBench()
    bench.conn("SET", "k", "v")
    bench.host.kill()
    bench.host.restart()
    assert bench.connect()("GET", "k") == b"v"
    bench.host.kill()
    bench.host.restart(wiped=True)
    assert bench.connect()("GET", "k") is None


def test_without_persistence_data_is_lost_in_a_kill() -> None:
    bench = RedisBench(persistence="no")
    bench.conn("SET", "k", "v")
    bench.host.kill()
    bench.host.restart()
    assert bench.connect()("GET", "k") is None


def test_on_command_sees_the_effect_and_can_kill_before_the_reply() -> None:
    world = StubWorld()
    server = RedisServer()
    host, there = world.host("n1", server), world.host("c")
    caller = RedisCaller(world, there, "n1")
    seen = []

    def tap(peer: str, args: list[bytes]) -> None:
        seen.append((peer, args[0], server.peek(b"k")[0]))
        host.kill()

    server.on_command = tap
    assert caller.call("SET", "k", "v") is None
    assert seen == [("c", b"SET", b"v")]
    assert caller.broken


def test_info_has_parsable_fields(bench: RedisBench) -> None:
    text = bench.conn("INFO").decode()
    fields = dict(line.split(":", 1) for line in text.split("\r\n") if ":" in line)
    assert fields["redis_version"] == "7.0.15"
    assert fields["role"] == "master"


def test_scan_visits_all_keys(bench: RedisBench) -> None:
    for number in range(25):
        bench.conn("SET", f"k{number}", 1)
    cursor, found = b"0", []
    while True:
        cursor, page = bench.conn("SCAN", cursor, "MATCH", "k*")
        found += page
        if cursor == b"0":
            break
    assert len(found) == 25


def test_a_scan_misses_no_key_when_those_that_it_found_are_deleted(bench: RedisBench) -> None:
    for number in range(40):
        bench.conn("SET", f"k{number}", 1)
    cursor, found = b"0", []
    while True:
        cursor, page = bench.conn("SCAN", cursor)
        bench.conn("DEL", *page)
        found += page
        if cursor == b"0":
            break
    assert (len(found), bench.conn("DBSIZE")) == (40, 0)


@pytest.mark.parametrize("setting", [("notify-keyspace-events", "KEA"), ("slave-serve-stale-data", "NO")])
def test_a_setting_that_would_have_no_effect_is_refused(bench: RedisBench, setting: tuple[str, str]) -> None:
    reply = bench.conn("CONFIG", "SET", *setting)
    assert isinstance(reply, ReplyError)
    assert reply.endswith(f"(possibly related to argument '{setting[0]}') - not available in the simulator")
