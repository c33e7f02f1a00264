"""Commands, sessions, transactions, pub/sub and blocking of the simulated Redis."""

from __future__ import annotations

from typing import Any

import pytest

from harness.sim.servers.redis.server import RedisServer
from tests.sim.redis_client import Caller, DirectConn, ReplyError
from tests.sim.redis_stub import World


class Bench:
    def __init__(self, **options: Any) -> None:
        self.world = World()
        self.server = RedisServer(**options)
        self.host = self.world.host("n1", self.server)
        self.conn = self.connect()

    def connect(self, peer: str = "client") -> DirectConn:
        return DirectConn(self.server, peer)


@pytest.fixture
def bench() -> Bench:
    return Bench()


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
def test_errors_word_for_word(bench: Bench, words: list[str], expected: str) -> None:
    reply = bench.conn(*words)
    assert isinstance(reply, ReplyError)
    assert reply == expected


def test_lock_cycle(bench: Bench) -> None:
    assert bench.conn("SET", "lock", "me", "NX", "PX", 3000) == "OK"
    assert bench.conn("SET", "lock", "you", "NX", "PX", 3000) is None
    assert bench.conn("PTTL", "lock") == 3000
    assert bench.server.peek(b"lock") == (b"me", bench.host.wall_ns() // 1_000_000 + 3000)


def test_binary_values_with_line_ends(bench: Bench) -> None:
    value = b"a\r\n$3\r\nfoo\r\n\x00\xff"
    assert bench.conn("SET", "k", value) == "OK"
    assert bench.conn("GET", "k") == value


def test_pipeline_is_answered_in_one_packet(bench: Bench) -> None:
    assert bench.conn.raw(b"PING\r\n*2\r\n$4\r\nECHO\r\n$1\r\nx\r\n*1\r\n$4\r\nPI") == b"+PONG\r\n$1\r\nx\r\n"
    assert bench.conn.raw(b"NG\r\n") == b"+PONG\r\n"


def test_protocol_error_cuts_the_connection(bench: Bench) -> None:
    assert bench.conn.raw(b"*1\r\nPING\r\n") == b"-ERR Protocol error: expected '$', got 'P'\r\n"
    assert bench.conn.closed


def test_resp3_maps_and_nulls(bench: Bench) -> None:
    assert bench.conn("HELLO", 3, "SETNAME", "me")[b"proto"] == 3
    bench.conn("HSET", "h", "f", "v")
    assert bench.conn("HGETALL", "h") == {b"f": b"v"}
    assert bench.conn.wire("GET", "none") == b"_\r\n"
    bench.conn("ZADD", "z", 1.5, "m")
    assert bench.conn.wire("ZSCORE", "z", "m") == b",1.5\r\n"
    assert bench.conn.wire("PUBSUB", "NUMSUB", "c") == b"*2\r\n$1\r\nc\r\n:0\r\n"  # no map, for whatever reason


def test_watch_sees_a_change_by_another(bench: Bench) -> None:
    other = bench.connect()
    bench.conn("WATCH", "k")
    other("SET", "k", 1)
    bench.conn("MULTI")
    assert bench.conn("SET", "k", 2) == "QUEUED"
    assert bench.conn("EXEC") is None
    assert bench.conn("GET", "k") == b"1"


def test_watch_sees_an_expiry_nobody_noticed(bench: Bench) -> None:
    bench.conn("SET", "k", 1, "PX", 50)
    bench.conn("WATCH", "k")
    bench.host.offset_ns += 60_000_000
    bench.conn("MULTI")
    bench.conn("PING")
    assert bench.conn("EXEC") is None


def test_broken_queue_aborts(bench: Bench) -> None:
    bench.conn("MULTI")
    bench.conn("NOPE")
    assert bench.conn("EXEC") == "EXECABORT Transaction discarded because of previous errors."


def test_publish_reaches_channels_and_patterns(bench: Bench) -> None:
    listener = bench.connect()
    assert listener("SUBSCRIBE", "news") == [b"subscribe", b"news", 1]
    assert listener("PSUBSCRIBE", "n*s") == [b"psubscribe", b"n*s", 2]
    listener.pushed()
    assert bench.conn("PUBLISH", "news", "hi") == 2
    assert listener.pushed() == [[b"message", b"news", b"hi"], [b"pmessage", b"n*s", b"news", b"hi"]]
    assert "only (P|S)SUBSCRIBE" in listener("GET", "a")


def test_blocked_clients_are_served_in_turn(bench: Bench) -> None:
    first, second = bench.connect(), bench.connect()
    assert first("BLPOP", "q", 0) is None
    assert second("BLPOP", "q", 0) is None
    assert bench.conn("RPUSH", "q", "a", "b") == 2
    assert first.pushed() == [[b"q", b"a"]]
    assert second.pushed() == [[b"q", b"b"]]
    assert bench.conn("EXISTS", "q") == 0


def test_commands_behind_a_blocking_one_wait(bench: Bench) -> None:
    waiter = bench.connect()
    assert waiter.raw(b"BLPOP q 0\r\nPING\r\n") == b""
    assert waiter.raw(b"ECHO x\r\n") == b""
    waiter.sent = b""
    bench.conn("LPUSH", "q", "v")
    bench.world.run(0.01)
    assert waiter.pushed() == [[b"q", b"v"], "PONG", b"x"]


def test_blocking_times_out(bench: Bench) -> None:
    waiter = bench.connect()
    waiter("BLPOP", "q", 0.5)
    bench.world.run(0.45)
    assert waiter.pushed() == []
    bench.world.run(0.1)
    assert waiter.pushed() == [None]


def test_blocked_time_out_follows_the_wall_clock(bench: Bench) -> None:
    waiter = bench.connect()
    waiter("BLPOP", "q", 100)
    bench.host.offset_ns += 200 * 10**9
    bench.world.run(0.2)
    assert waiter.sent == b"*-1\r\n"


def test_move_fills_a_list_that_somebody_awaits(bench: Bench) -> None:
    waiter = bench.connect()
    waiter("BLMOVE", "in", "out", "LEFT", "RIGHT", 0)
    bench.conn("RPUSH", "in", "v")
    assert waiter.pushed() == [b"v"]
    assert bench.conn("LRANGE", "out", 0, -1) == [b"v"]


def test_client_kill_by_id(bench: Bench) -> None:
    victim = bench.connect()
    number = victim("CLIENT", "ID")
    assert bench.conn("CLIENT", "KILL", "ID", number) == 1
    assert victim.closed


def test_persistence_always_survives_a_kill_and_not_a_wipe() -> None:
    bench = Bench()
    bench.conn("SET", "k", "v")
    bench.host.kill()
    bench.host.restart()
    assert bench.connect()("GET", "k") == b"v"
    bench.host.kill()
    bench.host.restart(wiped=True)
    assert bench.connect()("GET", "k") is None


def test_no_persistence_is_empty_after_a_kill() -> None:
    bench = Bench(persistence="no")
    bench.conn("SET", "k", "v")
    bench.host.kill()
    bench.host.restart()
    assert bench.connect()("GET", "k") is None


def test_tap_sees_the_effect_and_may_kill_before_the_reply() -> None:
    world = World()
    server = RedisServer()
    host, there = world.host("n1", server), world.host("c")
    caller = Caller(world, there, "n1")
    seen = []

    def tap(peer: str, args: list[bytes]) -> None:
        seen.append((peer, args[0], server.peek(b"k")[0]))
        host.kill()

    server.on_command = tap
    assert caller.call("SET", "k", "v") is None
    assert seen == [("c", b"SET", b"v")]
    assert caller.broken


def test_info_is_parsable(bench: Bench) -> None:
    text = bench.conn("INFO").decode()
    fields = dict(line.split(":", 1) for line in text.split("\r\n") if ":" in line)
    assert fields["redis_version"] == "7.0.15"
    assert fields["role"] == "master"


def test_scan_visits_everything(bench: Bench) -> None:
    for number in range(25):
        bench.conn("SET", f"k{number}", 1)
    cursor, found = b"0", []
    while True:
        cursor, page = bench.conn("SCAN", cursor, "MATCH", "k*")
        found += page
        if cursor == b"0":
            break
    assert len(found) == 25
