"""Differential test: the simulated Redis and a real redis-server 7.0 give the same replies to random commands."""

from __future__ import annotations

import os
import socket
import time
from typing import Any

import pytest

from harness.sim.servers.redis.protocol import encode_command
from harness.sim.servers.redis.server import RedisServer
from tests.conftest import Address
from tests.sim.redis_client import DirectConn, parse, parse_replies
from tests.sim.redis_random import RedisCommandGenerator, Words
from tests.sim.redis_stub import StubWorld

SEEDS = range(int(os.environ.get("HARNESS_REDIS_SEEDS", "25")))
LENGTH = 300
UNORDERED = ("smembers", "hkeys", "hvals", "hgetall")


def to_wire(words: Words) -> bytes:
    return encode_command([word.encode() for word in words])


class RealRedis:
    """A connection to the real server over a plain socket."""

    def __init__(self, address: Address) -> None:
        self.socket = socket.create_connection(address)
        self.socket.settimeout(5)

    def ask(self, words: Words) -> Any:
        self.socket.sendall(to_wire(words))
        data = b""
        while True:
            data += self.socket.recv(1 << 16)
            try:
                reply, end = parse(data)
            except (ValueError, IndexError):
                continue
            assert end == len(data), data
            return reply

    def close(self) -> None:
        self.socket.close()


class SimulatedRedis:
    def __init__(self, resp3: bool = False, now_ns: int | None = None) -> None:
        self.world = StubWorld()
        self.server = RedisServer()
        host = self.world.host("n1", self.server)
        host.offset_ns = now_ns or host.offset_ns
        self.conn = DirectConn(self.server)
        if resp3:
            self.conn("HELLO", 3)

    def wire(self, words: Words) -> bytes:
        data = self.conn.raw(to_wire(words))
        if not data:
            self.world.run(1)
            data = self.conn.sent
        return data

    def ask(self, words: Words) -> Any:
        (reply,) = parse_replies(self.wire(words))
        return reply


def comparable(words: Words, reply: Any) -> Any:
    """Return the reply without the order of items that Redis sorts by hash."""
    if isinstance(reply, list) and any(word.lower() in UNORDERED for word in words):
        return sorted(map(repr, reply))
    if isinstance(reply, list) and words[0].lower() == "exec":
        return [sorted(map(repr, item)) if isinstance(item, list) else _rough(item) for item in reply]
    return reply


def _rough(item: Any) -> Any:
    return item // 10**6 if isinstance(item, int) and item > 10**9 else item


def same(words: Words, got: Any, expected: Any) -> bool:
    """Compare two replies. Expiry times may differ by the seconds that the test takes."""
    if isinstance(got, int) and isinstance(expected, int) and got > 10**9 and "expiretime" in "".join(words).lower():
        return abs(got - expected) < 60_000
    return bool(comparable(words, got) == comparable(words, expected)) and type(got) is type(expected)


def compare(seed: int, address: Address, resp3: bool) -> int:
    real, simulated = RealRedis(address), SimulatedRedis(resp3, time.time_ns())
    real.ask(["hello", "3" if resp3 else "2"])
    real.ask(["flushall"])
    done: list[Words] = []
    for words in RedisCommandGenerator(seed).sequence(LENGTH):
        done.append(words)
        expected, got = real.ask(words), simulated.ask(words)
        assert same(words, got, expected), (seed, words, got, expected, done[-12:])
    real.close()
    return len(done)


def run_alone(seed: int, resp3: bool) -> bytes:
    simulated = SimulatedRedis(resp3)
    wires = [simulated.wire(words) for words in RedisCommandGenerator(seed).sequence(LENGTH)]
    for wire in wires:
        assert len(parse_replies(wire)) == 1, wire
    return b"".join(wires)


@pytest.mark.real
@pytest.mark.parametrize("seed", SEEDS)
def test_random_commands_get_the_replies_of_a_real_server(seed: int, real_redis: tuple[Address, ...]) -> None:
    for resp3 in (False, True):
        assert compare(seed, real_redis[0], resp3) == LENGTH


@pytest.mark.parametrize("seed", SEEDS)
def test_random_commands_give_the_same_bytes_in_each_run(seed: int) -> None:
    for resp3 in (False, True):
        assert run_alone(seed, resp3) == run_alone(seed, resp3)


@pytest.mark.parametrize("seed", range(3))
def test_replies_do_not_depend_on_how_commands_are_split_into_packets(seed: int) -> None:
    commands = [words for words in RedisCommandGenerator(seed).sequence(LENGTH) if not words[0].lower().startswith("b")]
    data = b"".join(map(to_wire, commands))
    whole = DirectConn(SimulatedRedis().server).raw(data)
    pieces = DirectConn(SimulatedRedis().server)
    assert b"".join([pieces.raw(data[at : at + 7]) for at in range(0, len(data), 7)]) == whole
