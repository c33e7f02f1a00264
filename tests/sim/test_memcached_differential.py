"""The same random commands to the simulated memcached and to a real 1.6.18 give the same bytes."""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from harness.sim.servers.memcached.server import MemcachedServer
from tests.clusters.real import servers
from tests.sim.memcached_random import KEYS, Generator
from tests.sim.redis_client import DirectConn
from tests.sim.redis_stub import World

SEEDS = range(int(os.environ.get("HARNESS_MEMCACHED_SEEDS", "10")))
LENGTH = 400
TRIES = 5
MARK = b"VERSION 1.6.18\r\n"
_NUMBERED = re.compile(rb"VALUE (\S+) (\d+) (\d+) (\d+)\r\n")


class Real:
    """The real server over a plain socket; each command is followed by one whose answer marks the end."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address)
        self.socket.settimeout(5)

    def ask(self, command: bytes) -> bytes:
        self.socket.sendall(command + b"version\r\n")
        data = b""
        while not data.endswith(MARK):
            data += self.socket.recv(1 << 16)
        return data.removesuffix(MARK)


class Simulated:
    def __init__(self) -> None:
        self.world = World()
        self.server = MemcachedServer(memory=64)
        host = self.world.host("n1", self.server)
        host.offset_ns = time.time_ns()
        self.server.start(host, wiped=True)
        self.conn = DirectConn(self.server)

    def ask(self, command: bytes) -> bytes:
        return self.conn.raw(command + b"version\r\n").removesuffix(MARK)


def base_of(server: Real | Simulated) -> int:
    """Empty (what is merely flushed may come back), with the number of the last cas that was given."""
    server.ask(b"flush_all\r\n")
    for key in (*KEYS, b"big"):
        server.ask(b"delete %b\r\n" % key)
    server.ask(b"set probe 0 0 1\r\nx\r\n")
    found = _NUMBERED.search(server.ask(b"gets probe\r\n"))
    assert found
    server.ask(b"delete probe\r\n")
    return int(found[4])


def numbered_from(base: int, answer: bytes) -> bytes:
    """With cas numbers that count from the base."""

    def counted(found: re.Match[bytes]) -> bytes:
        return b"VALUE %b %b %b #%d\r\n" % (found[1], found[2], found[3], int(found[4]) - base)

    return _NUMBERED.sub(counted, answer)


def with_base(base: int, command: bytes) -> bytes:
    """A generated ``cas`` counts from the base."""
    if not command.startswith(b"cas "):
        return command
    line, rest = command.split(b"\r\n", 1)
    words = line.split(b" ")
    if len(words) > 5 and words[5].isdigit():
        words[5] = str(int(words[5]) + base).encode()
    return b" ".join(words) + b"\r\n" + rest


def compare(seed: int, address: tuple[str, int]) -> int:
    real, simulated = Real(address), Simulated()
    with closing(real.socket):
        bases = base_of(real), base_of(simulated)
        generator = Generator(seed)
        done: list[bytes] = []
        for _ in range(LENGTH):
            command = generator.command()
            done.append(command[:300])
            expected = numbered_from(bases[0], real.ask(with_base(bases[0], command)))
            got = numbered_from(bases[1], simulated.ask(with_base(bases[1], command)))
            assert got == expected, (seed, done[-1], got[:300], expected[:300], done[-8:])
            generator.seen += [int(number) for number in re.findall(rb" #(\d+)\r\n", expected)]
    return len(done)


def run_alone(seed: int) -> bytes:
    simulated, generator = Simulated(), Generator(seed)
    return b"".join([simulated.ask(generator.command()) for _ in range(LENGTH)])


@pytest.fixture(scope="module")
def real_memcached() -> Iterator[tuple[str, int]]:
    with servers("memcached", memory=64) as cluster:
        yield cluster.endpoints().addresses[0]


@pytest.mark.docker
@pytest.mark.parametrize("seed", SEEDS)
def test_random_commands(seed: int, real_memcached: tuple[str, int]) -> None:
    """A real server does not always answer as itself: its clock ticks once a second, and what its own threads look at
    just then is not counted up in place but anew, without the blanks. So a difference must come again to be one."""
    for _ in range(TRIES - 1):
        try:
            assert compare(seed, real_memcached) == LENGTH
        except AssertionError:
            continue
        return
    assert compare(seed, real_memcached) == LENGTH


@pytest.mark.parametrize("seed", range(3))
def test_random_commands_give_the_same_bytes_twice(seed: int) -> None:
    assert run_alone(seed) == run_alone(seed)


def test_one_packet_or_many_make_no_difference() -> None:
    generator = Generator(0)
    data = b"".join([command for command in (generator.command() for _ in range(LENGTH)) if len(command) < 2000])
    whole = DirectConn(Simulated().server).raw(data)
    pieces = DirectConn(Simulated().server)
    assert b"".join([pieces.raw(data[at : at + 7]) for at in range(0, len(data), 7)]) == whole
