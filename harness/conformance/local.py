"""The bench that needs no containers: the program is a process of this machine, and a proxy of ours stands between it
and each server."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any, Final

from ..errors import UNKNOWN, HarnessError, UsageError
from .bench import SEATS, Lost
from .proxy import Address, Proxy, reach

SAID: Final = 20
"""Lines of stderr that are kept."""
FOLLOWED: Final = ("redis-sentinel", "hazelcast")
"""Kinds whose servers tell clients where to go: past any proxy."""


class NoServer(HarnessError):
    """Nothing can be tried without servers."""

    exit_status = UNKNOWN


class Process:
    """A :class:`.bench.Wire`."""

    def __init__(self, command: Sequence[str], on_line: Callable[[bytes], None]) -> None:
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
                start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise UsageError(f"cannot start {command[0]!r}: {error.strerror}") from error
        self._said: deque[str] = deque(maxlen=SAID)
        self._ears = [
            threading.Thread(target=_listen, args=listened, name="program", daemon=True)
            for listened in ((self._process.stdout, on_line), (self._process.stderr, self._hear_error))
        ]
        for ear in self._ears:
            ear.start()

    @property
    def said(self) -> Sequence[str]:
        return list(self._said)

    def send(self, line: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + b"\n")

    def end_input(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()

    def kill(self) -> None:
        """With all that it has started itself."""
        if self._process.poll() is None:  # else the number may be another's
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        for ear in self._ears:
            ear.join(1)
        self.end_input()

    def status(self) -> int | None:
        return self._process.poll()

    def _hear_error(self, line: bytes) -> None:
        self._said.append(line.decode(errors="replace"))


def _listen(stream: IO[bytes], on_line: Callable[[bytes], None]) -> None:
    rest = b""
    with stream:
        while data := stream.read(1 << 16):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                on_line(line)
    if rest:
        on_line(rest)


class LocalBench:
    """A :class:`.bench.Bench` of servers that run already. ``opened`` are the fields of ``open`` that are neither
    addresses nor the ttl; UsageError or :class:`NoServer` if it cannot be."""

    def __init__(self, command: Sequence[str], servers: Sequence[Address], opened: Mapping[str, Any]) -> None:
        if opened["kind"] in FOLLOWED:
            raise UsageError(
                f"kind {opened['kind']!r}: its servers name their own addresses to clients, which then go past "
                "the proxy that keeps answers from them; try it in containers, as a lock of the catalogue or as "
                "package.module:Class"
            )
        for host, port in servers:
            try:
                reach((host, port))
            except OSError as error:
                raise NoServer(f"no server at {host}:{port}: {error.strerror or error}") from error
        self._command = command
        self._opened = opened
        self._processes: list[Process] = []
        self._proxies = {seat: [Proxy(server) for server in servers] for seat in SEATS}

    def start(self, seat: str, on_line: Callable[[bytes], None]) -> Process:
        """In a thread, where no interrupt strikes: what has been started is known, and does not outlive this."""
        del seat
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(self._start, on_line).result()

    def _start(self, on_line: Callable[[bytes], None]) -> Process:
        process = Process(self._command, on_line)
        self._processes.append(process)
        return process

    def opening(self, seat: str) -> Mapping[str, Any]:
        return {**self._opened, "addresses": [proxy.address for proxy in self._proxies[seat]]}

    def lose(self, seat: str, lost: Lost) -> None:
        for proxy in self._proxies[seat]:
            proxy.lose(lost)

    def restore(self) -> None:
        self._each(Proxy.restore)

    def close(self) -> None:
        for process in self._processes:
            process.kill()
        self._each(Proxy.close)

    def _each(self, do: Callable[[Proxy], None]) -> None:
        for proxies in self._proxies.values():
            for proxy in proxies:
                do(proxy)
