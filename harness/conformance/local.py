"""Testbed without containers: the lock program is a local process, with a proxy between it and each server."""

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

from harness.clusters.kinds import KINDS
from harness.errors import UNKNOWN, HarnessError, UsageError

from .proxy import Address, Proxy, check_reachable
from .testbed import CLIENTS, LostData

LONGEST_LINE: Final = 16 * 1024 * 1024
"""Bytes of a line of output, after which it counts as ended."""
STDERR_LINES: Final = 20
"""Maximum number of stored lines of stderr."""


class ServerUnreachable(HarnessError):
    """A server that the tests need does not accept connections."""

    exit_status = UNKNOWN


class LocalProcess:
    """A :class:`.testbed.ProgramHandle`."""

    def __init__(self, command: Sequence[str], on_line: Callable[[bytes], None]) -> None:
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
                start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise UsageError(f"cannot start {command[0]!r}: {error.strerror}") from error
        self._stderr_lines: deque[str] = deque(maxlen=STDERR_LINES)
        self._threads = [
            threading.Thread(target=_read_lines, args=arguments, name="program", daemon=True)
            for arguments in ((self._process.stdout, on_line), (self._process.stderr, self._store_stderr_line))
        ]
        for thread in self._threads:
            thread.start()

    @property
    def stderr_lines(self) -> Sequence[str]:
        return list(self._stderr_lines)

    def send(self, line: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + b"\n")

    def end_input(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()

    def kill(self) -> None:
        """Kill the program and its child processes."""
        if self._process.poll() is None:  # otherwise another process may have the id
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        for thread in self._threads:
            thread.join(1)
        self.end_input()

    def status(self) -> int | None:
        return self._process.poll()

    def _store_stderr_line(self, line: bytes) -> None:
        self._stderr_lines.append(line.decode(errors="replace"))


def _read_lines(stream: IO[bytes], on_line: Callable[[bytes], None]) -> None:
    rest = b""
    with stream:
        while data := stream.read(1 << 16):
            *lines, rest = (rest + data).split(b"\n")
            if len(rest) > LONGEST_LINE:  # its end may never come
                lines, rest = [*lines, rest], b""
            for line in lines:
                on_line(line)
    if rest:
        on_line(rest)


class LocalTestbed:
    """A :class:`.testbed.Testbed` of running servers.

    ``open_fields`` are the fields of ``open`` except addresses and ttl. Raises UsageError for a kind that bypasses
    proxies, :class:`ServerUnreachable` if a server does not accept connections.
    """

    def __init__(self, command: Sequence[str], servers: Sequence[Address], open_fields: Mapping[str, Any]) -> None:
        kind = KINDS.known(open_fields["kind"])
        if kind is not None and kind.redirects:
            raise UsageError(
                f"kind {open_fields['kind']!r}: its servers send their own addresses to clients, which then bypass the "
                "proxy that loses data; test the program in containers, as a lock of the catalogue or as "
                "package.module:Class"
            )
        for host, port in servers:
            try:
                check_reachable((host, port))
            except OSError as error:
                raise ServerUnreachable(f"no server at {host}:{port}: {error.strerror or error}") from error
        self._command = command
        self._open_fields = open_fields
        self._processes: list[LocalProcess] = []
        self._proxies = {client: [Proxy(server) for server in servers] for client in CLIENTS}

    def start(self, client: str, on_line: Callable[[bytes], None]) -> LocalProcess:
        """Start the program in a thread, which KeyboardInterrupt cannot interrupt, so that :meth:`close` kills it."""
        del client
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(self._start, on_line).result()

    def _start(self, on_line: Callable[[bytes], None]) -> LocalProcess:
        process = LocalProcess(self._command, on_line)
        self._processes.append(process)
        return process

    def open_fields(self, client: str) -> Mapping[str, Any]:
        return {**self._open_fields, "addresses": [proxy.address for proxy in self._proxies[client]]}

    def start_losing(self, client: str, lost_data: LostData) -> None:
        for proxy in self._proxies[client]:
            proxy.start_losing(lost_data)

    def stop_losing(self) -> None:
        self._each(Proxy.stop_losing)

    def close(self) -> None:
        for process in self._processes:
            process.kill()
        self._each(Proxy.close)

    def _each(self, do: Callable[[Proxy], None]) -> None:
        for proxies in self._proxies.values():
            for proxy in proxies:
                do(proxy)
