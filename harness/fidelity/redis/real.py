"""A redis-server as a process of this machine, with a wall clock that moves only when a comparison says so.

libfaketime gives it that clock: a file has the time, and the server reads it at each call. Its monotonic clock and its
timers stay true. libfaketime and jemalloc call each other at the start, so malloc comes from the C library.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from harness.fidelity.processes import PATIENCE_S, Place, ServerProcess, missing_program, program_path
from harness.protocols.redis_replies import replies
from harness.sim.servers.redis.protocol import encode_command

PROGRAM: Final = "redis-server"
_LIBRARIES: Final = ("libfaketimeMT.so.1", "libc.so.6")
_FOLDERS: Final = tuple(f"/{part}" for part in ("usr/lib64", "lib64", "usr/lib", "lib"))
_OPTIONS: Final = (
    *("--save", ""),
    # The data of a killed server is what it has written, synced or not: the machine goes on.
    *("--appendonly", "yes", "--appendfsync", "no", "--auto-aof-rewrite-percentage", "0"),
    *("--hz", "500", "--enable-debug-command", "yes"),
)
_BELOW_MS: Final = "2505"
"""Digits below the ms. libfaketime computes with floats, so a whole ms or µs could become the one before it."""
_CYCLES_S: Final = 0.25
"""Seconds in which a server deletes all expired keys: more than a hundred of its cycles."""
_POLL_S: Final = 0.05
"""Seconds to wait for replies that the simulated server has sent, before the real one is asked if it is idle."""


def missing() -> str:
    """Return what this machine lacks, and how to install it; "" if nothing."""
    lacking = missing_program(PROGRAM, "redis-server")
    if not lacking and _library(_LIBRARIES[0]) is None:
        lacking = "libfaketime is not installed: apt-get install libfaketime"
    return lacking


def _library(name: str) -> Path | None:
    triplet = getattr(sys.implementation, "_multiarch", "")
    places = (
        Path(folder, part, name) for folder in _FOLDERS for part in (f"{triplet}/faketime", triplet, "faketime", "")
    )
    return next((place for place in places if place.exists()), None)


class FrozenClock:
    """The file that libfaketime reads. Times are ms since 1970."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "clock"
        self._new = folder / "clock.new"

    def set(self, ms: int) -> None:
        moment = datetime.fromtimestamp(ms // 1000, UTC)
        self._new.write_text(f"{moment:%Y-%m-%d %H:%M:%S}.{ms % 1000:03d}{_BELOW_MS}")
        self._new.replace(self.path)

    def environment(self) -> dict[str, str]:
        return {
            "LD_PRELOAD": os.pathsep.join(str(_library(name) or name) for name in _LIBRARIES),
            "FAKETIME_TIMESTAMP_FILE": str(self.path),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
            "TZ": "UTC",
        }


def _remove_shared_memory(pid: int) -> None:
    """Remove what libfaketime names after a process, else a later one with the same process id could not start."""
    for name in (f"faketime_shm_{pid}", f"sem.faketime_sem_{pid}"):
        Path("/dev/shm", name).unlink(missing_ok=True)


class RealConnection:
    """A client's connection to the real server."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._socket = socket.create_connection(address, timeout=PATIENCE_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._data = b""
        self.closed = False

    def send(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except OSError:
            self.closed = True

    def wait(self, number: int, timeout_s: float, *, unordered: bool = False) -> list[str]:
        """Return ``number`` replies or more, fewer only if they do not come in time."""
        found: list[str] = []
        while not self.closed and len(found) < number and self._arrives(timeout_s):
            found += self._read(unordered)
        return found

    def drain(self, *, unordered: bool = False) -> list[str]:
        """Return the replies that have arrived."""
        found: list[str] = []
        while not self.closed and self._arrives(0):
            found += self._read(unordered)
        return found

    def ask(self, *words: str) -> str:
        """Send a command and return its reply."""
        self.send(encode_command([word.encode() for word in words]))
        found = self.wait(1, PATIENCE_S)
        return found[0] if found else ""

    def close(self) -> None:
        self.closed = True
        self._socket.close()

    def _arrives(self, timeout_s: float) -> bool:
        return bool(select.select([self._socket], [], [], timeout_s)[0])

    def _read(self, unordered: bool) -> list[str]:
        try:
            data = self._socket.recv(1 << 16)
        except OSError:
            data = b""
        self.closed = not data
        found, self._data = replies(self._data + data, unordered=unordered)
        return found


class RealRedis:
    """The server process, its clock, and a connection for questions of the comparison itself."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="harness-clock-"))
        self._clock = FrozenClock(self._folder)
        self._clock.set(0)
        self.process = ServerProcess(
            PROGRAM, _command, ready=_ready, tidy=_remove_shared_memory, environment=self._clock.environment()
        )
        self._paused = False

    def start(self) -> None:
        try:
            self.process.__enter__()
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        self._control = RealConnection(self.process.place.address)

    def stop(self) -> None:
        self.process.__exit__()
        shutil.rmtree(self._folder, ignore_errors=True)

    def connect(self) -> RealConnection:
        return RealConnection(self.process.place.address)

    def version(self) -> str:
        info = self._control.ask("info", "server")
        return f"{PROGRAM} {info.partition('redis_version:')[2].partition(chr(92))[0]}"

    def reset(self, now_ms: int) -> None:
        """Empty the server, and stop its own deletion of expired keys, which depends on its timers."""
        self.resume()
        self._clock.set(now_ms)
        for words in (("flushall",), ("script", "flush"), ("config", "set", "maxmemory", "0")):
            self._control.ask(*words)
        self._control.ask("debug", "set-active-expire", "0")
        self.settle()

    def settle(self) -> None:
        """Wait until the server has handled all that was sent to it, and has sent all replies.

        Two questions: when the second one is read, the round of the event loop that answered the first one is over.
        """
        for _ in range(2):
            self._control.ask("ping")

    def set_clock(self, now_ms: int) -> None:
        self._clock.set(now_ms)
        if not self._paused:
            self.settle()

    def expire_keys(self, expected: int) -> int:
        """Let the server delete expired keys until ``expected`` keys are left; return their number."""
        self._control.ask("debug", "set-active-expire", "1")
        deadline = time.monotonic() + _CYCLES_S
        while self.size() != expected and time.monotonic() < deadline:
            time.sleep(0.002)
        self._control.ask("debug", "set-active-expire", "0")
        return self.size()

    def size(self) -> int:
        return int(self._control.ask("dbsize").removeprefix(":"))

    def pause(self) -> None:
        self.process.pause()
        self._paused = True

    def resume(self) -> None:
        if self._paused:
            self.process.resume()
            self._paused = False

    def restart(self, *, with_data: bool) -> None:
        self._control.close()
        self.process.restart(with_data=with_data)
        self._paused = False
        self._control = RealConnection(self.process.place.address)
        self._control.ask("debug", "set-active-expire", "0")

    def collect(
        self, connections: Mapping[str, RealConnection], expected: Mapping[str, int], *, alone: bool, unordered: bool
    ) -> dict[str, list[str]]:
        """Return the replies that have arrived on each connection.

        ``expected`` is the number that the simulated server sent. ``alone``: nothing else can arrive.
        """
        found = {
            name: connections[name].wait(number, _POLL_S, unordered=unordered)
            for name, number in expected.items()
            if number and name in connections
        }
        if alone and all(len(found.get(name, ())) >= number for name, number in expected.items()):
            return found
        self.settle()
        for name, connection in connections.items():
            found[name] = found.get(name, []) + connection.drain(unordered=unordered)
        return found


def _ready(place: Place) -> bool:
    """Return True if the server has loaded its data."""
    try:
        connection = RealConnection(place.address)
    except OSError:
        return False
    with contextlib.closing(connection):
        return connection.ask("ping") == "+PONG"


def _command(place: Place) -> Sequence[str]:
    host, port = place.address
    return [program_path(PROGRAM), "--port", str(port), "--bind", host, "--dir", str(place.folder), *_OPTIONS]
