"""Debian's memcached as a process of this machine, and the simulated one, with the same commands."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Protocol

from harness.fidelity.comparison import AnswerPair, Step
from harness.fidelity.processes import LOOPBACK, Place, ServerProcess, missing_program, program_path
from harness.fidelity.simulated import SteppedConnection, SteppedHost
from harness.sim.servers.memcached.commands import NOT_A_NUMBER, VERSION
from harness.sim.servers.memcached.server import MemcachedServer

from . import commands

MEGABYTES: Final = 64
THREADS: Final = 2
PATIENCE_S: Final = 60.0
MARK: Final = f"VERSION {VERSION}\r\n".encode()
"""Answer to the command that follows each step, which marks the end of the step's answer."""
POLL_S: Final = 0.002
OWN: Final = -1
"""Connection for what is not a step."""
NS_PER_S: Final = 1_000_000_000
WALL_NS: Final = 1_767_225_600 * NS_PER_S
"""Wall clock of the simulated server at its start."""
PADDING: Final = "Spaces after a number"
MINUS: Final = "Large numbers before a minus sign"
_NUMBER: Final = re.compile(r"(?<=b'|\\n)(\d{19,20})(?=\\r)")
_PADDED: Final = re.compile(r"(VALUE \S+ \d+) (\d+)((?: #\d+)?\\r\\n\d+) *(\\r\\n)")
_ITEM: Final = re.compile(rb"VALUE (\S+) (\d+) (\d+) (\d+)\r\n")
_CAS: Final = re.compile(rb"\{cas([+-]\d+)?\}")
_NOW: Final = re.compile(rb"\{now([+-]\d+)?\}")
_TIME: Final = re.compile(rb"STAT time (\d+)\r\n")


class MemcachedComparison:
    """See :class:`harness.fidelity.comparison.Server`."""

    name = "memcached"

    def missing(self) -> str:
        return missing_program("memcached", "memcached")

    @contextmanager
    def start(self) -> Iterator[MemcachedPair]:
        with ServerProcess(self.name, server_command) as process:
            real = RealSide(process)
            try:
                yield MemcachedPair(real)
            finally:
                real.close()


def server_command(place: Place) -> list[str]:
    program, (port, *_) = program_path("memcached"), place.ports
    own = ["-u", "root", "-l", LOOPBACK, "-p", str(port), "-U", "0"]  # without root's account -u has no effect
    return [program, *own, "-m", str(MEGABYTES), "-t", str(THREADS)]


class Side(Protocol):
    """One server, real or simulated, with a few connections."""

    def ask(self, connection: int, data: bytes) -> bytes:
        """Send commands and return their answers."""

    def send(self, connection: int, data: bytes) -> None:
        """Send the beginning of a command."""

    def now(self) -> int:
        """Return the server's clock, in seconds."""

    def await_tick(self) -> None:
        """Wait until the clock has just ticked."""

    def wait(self, seconds: int) -> None:
        """Wait until the clock has ticked so many times."""

    def pause(self, seconds: int) -> None:
        """Pause the server for so many ticks. Afterwards its clock is right again."""

    def restart(self) -> None: ...


class RealSide:
    """The real server, over sockets."""

    def __init__(self, process: ServerProcess) -> None:
        self.process = process
        self._sockets: dict[int, socket.socket] = {}

    def _socket(self, connection: int) -> socket.socket:
        if connection not in self._sockets:
            made = self._sockets[connection] = socket.create_connection(self.process.place.address, PATIENCE_S)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self._sockets[connection]

    def send(self, connection: int, data: bytes) -> None:
        self._socket(connection).sendall(data)

    def ask(self, connection: int, data: bytes) -> bytes:
        self.send(connection, data + b"version\r\n")
        answer = bytearray()
        while not answer.endswith(MARK):
            more = self._socket(connection).recv(1 << 16)
            if not more:
                self._sockets.pop(connection).close()
                return bytes(answer) + b"(closed)"
            answer += more
        return bytes(answer).removesuffix(MARK)

    def now(self) -> int:
        return _time(self.ask(OWN, b"stats\r\n"))

    def await_tick(self) -> None:
        self._await(self.now() + 1)

    def wait(self, seconds: int) -> None:
        self._await(self.now() + seconds)

    def _await(self, second: int) -> None:
        while self.now() < second:
            time.sleep(POLL_S)

    def pause(self, seconds: int) -> None:
        end = self.now() + seconds
        self.process.pause()
        time.sleep(seconds)
        self.process.resume()
        self._await(end)
        self.await_tick()

    def restart(self) -> None:
        self.process.restart(with_data=False)
        self.close()

    def close(self) -> None:
        """Close all connections."""
        for one in self._sockets.values():
            one.close()
        self._sockets.clear()


class SimulatedSide:
    """The simulated server without a network, on a host whose clock is moved by the steps."""

    def __init__(self) -> None:
        self._host = SteppedHost(MemcachedServer(memory=MEGABYTES), WALL_NS)
        self._connections: dict[int, SteppedConnection] = {}

    def send(self, connection: int, data: bytes) -> None:
        if connection not in self._connections or self._connections[connection].closed:
            self._connections[connection] = SteppedConnection(self._host, "c1")
        self._connections[connection].ask(data)

    def ask(self, connection: int, data: bytes) -> bytes:
        self.send(connection, data + b"version\r\n")
        one = self._connections[connection]
        return one.take().removesuffix(MARK) + (b"(closed)" if one.closed else b"")

    def now(self) -> int:
        return _time(self.ask(OWN, b"stats\r\n"))

    def await_tick(self) -> None:
        self.wait(1)

    def wait(self, seconds: int) -> None:
        self._host.wall += seconds * NS_PER_S
        self._host.run_timers(seconds * NS_PER_S)

    def pause(self, seconds: int) -> None:
        self.wait(seconds + 1)

    def restart(self) -> None:
        self._host.restart(with_data=False)


def _time(stats: bytes) -> int:
    found = _TIME.search(stats)
    assert found, stats
    return int(found[1])


class Player:
    """Runs steps on one side. In its answers, cas numbers are counted from the beginning of the sequence."""

    def __init__(self, side: Side, *, timed: bool) -> None:
        self.side = side
        self._timed = timed
        self._seen: dict[tuple[int, bytes], int] = {}
        """(connection, key) → the cas number that the connection saw last."""
        self._base = self._empty()
        if timed:
            side.await_tick()

    def _empty(self) -> int:
        """Delete all items, because flushed ones may come back, and return the last cas number."""
        self.side.ask(OWN, b"flush_all\r\n")
        for key in (*commands.KEYS, b"big"):
            self.side.ask(OWN, b"delete %b\r\n" % key)
        self.side.ask(OWN, b"set probe 0 0 1\r\nx\r\n")
        found = _ITEM.search(self.side.ask(OWN, b"gets probe\r\n"))
        assert found
        self.side.ask(OWN, b"delete probe\r\n")
        return int(found[4])

    def run(self, step: Step) -> str:
        """Run one step and return its answer."""
        kind, *arguments = step
        if kind == "send":
            return repr(self._ask(*arguments))
        if kind == "interrupted":
            connection, line, other, command, data = arguments
            self.side.send(connection, self._filled(connection, line))
            return repr((self._ask(other, command), self._ask(connection, data)))
        if kind == "tick":
            self.side.wait(arguments[0])
        elif arguments[0] == "pause":
            self.side.pause(arguments[1])
        else:
            self._restart()
        return "done"

    def _ask(self, connection: int, data: bytes) -> bytes:
        return self._relative(connection, self.side.ask(connection, self._filled(connection, data)))

    def _restart(self) -> None:
        self.side.restart()
        self._seen.clear()
        self._base = 0
        if self._timed:
            self.side.await_tick()

    def _filled(self, connection: int, data: bytes) -> bytes:
        """Put numbers in the place of ``{cas}`` and ``{now}``."""
        if b"{now" in data:
            now = self.side.now()
            data = _NOW.sub(lambda found: b"%d" % (now + int(found[1] or 0)), data)
        if b"{cas" in data:
            key = data.split()[1]
            seen = self._seen.get((connection, key), self._base)
            data = _CAS.sub(lambda found: b"%d" % (seen + int(found[1] or 0)), data)
        return data

    def _relative(self, connection: int, answer: bytes) -> bytes:
        def counted(found: re.Match[bytes]) -> bytes:
            self._seen[connection, found[1]] = int(found[4])
            return b"VALUE %b %b %b #%d\r\n" % (found[1], found[2], found[3], int(found[4]) - self._base)

        return _ITEM.sub(counted, answer)


class MemcachedPair:
    """See :class:`harness.fidelity.comparison.ServerPair`."""

    def __init__(self, real: RealSide) -> None:
        self._real = real
        answer = real.ask(0, b"version\r\n")
        self.version = f"memcached {answer.decode().removeprefix('VERSION ').strip()}"

    def steps(self, seed: int) -> Sequence[Step]:
        return commands.steps(seed)

    def run(self, steps: Sequence[Step]) -> Iterator[AnswerPair]:
        timed = any(step[0] == "tick" or step[:2] == ("fault", "pause") for step in steps)
        self._real.close()  # what a connection has not completed ends with it
        real, simulated = Player(self._real, timed=timed), Player(SimulatedSide(), timed=timed)
        ahead = _ahead(real, simulated) if timed else 0
        for step in steps:
            answers = AnswerPair(real.run(step), simulated.run(step))
            if timed and step[:2] == ("fault", "restart"):
                ahead = _ahead(real, simulated)
            elif timed and _ahead(real, simulated) != ahead:
                return  # the machine is so slow that the real clock has ticked between two steps
            yield answers

    def known(self, step: Step, answers: AnswerPair) -> str:  # noqa: ARG002
        if without_padding(answers.real) == without_padding(answers.simulated):
            return PADDING
        return MINUS if without_large_numbers(answers.real) == without_large_numbers(answers.simulated) else ""


def _ahead(real: Player, simulated: Player) -> int:
    """Return by how many seconds the real server's clock is ahead of the simulated one's."""
    return real.side.now() - simulated.side.now()


def without_padding(answer: str) -> str:
    """Return an answer without the lengths of values and the spaces after numbers."""
    return _PADDED.sub(r"\1 \3\4", answer)


def without_large_numbers(answer: str) -> str:
    """Return an answer in which a result of ``incr`` or ``decr`` from 2^63 on is the error that a real server may give
    instead."""
    error = repr(NOT_A_NUMBER.removesuffix(b"\r\n"))[2:-1]
    return _NUMBER.sub(lambda found: error if int(found[1]) >= 1 << 63 else found[1], answer)
