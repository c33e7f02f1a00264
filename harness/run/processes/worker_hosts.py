"""Processes in which calls are made: a fork server, or where a system cannot fork, a new process for each call.

Both sides of the fork server are Unix only. A spawned worker needs nothing but a socket on the loopback and a file,
so it works on Windows, too. It starts later, because it imports the simulator for each call.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import queue
import secrets
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

import msgspec

from harness.errors import UNKNOWN, HarnessError
from harness.worker.server import INTERRUPT, KILL, WorkerEnd
from harness.worker.watchdog import SIGNS_FILE, STACK_FILE, Limits, SignsOfLife, StackFile, Watchdog

PRELOAD: Final = ("harness.run.simulated",)
"""Modules that every worker needs; they are imported when the process starts."""
CONNECTS_WITHIN_S: Final = 300.0
"""Time for a spawned worker to connect. A loaded machine may take long to start Python."""
_TICK_S: Final = 0.1
Receive = Callable[[bytes], None]


class WorkerDied(HarnessError):
    """A worker ended without a result. The message says how, in a sentence; ``stack`` is its Python stack, the
    innermost call first, if it is known."""

    exit_status = UNKNOWN

    def __init__(self, sentence: str, stack: tuple[str, ...] = ()) -> None:
        super().__init__(sentence)
        self.stack = stack


class WorkerHost(Protocol):
    """A process that can make a call."""

    reusable: bool
    """True if it can make another call afterwards."""

    def alive(self) -> bool: ...

    def close(self) -> None:
        """End the process, and its worker."""

    def begin(self, request: bytes, limits: Limits) -> None:
        """Start a call: ``request`` is a :class:`~harness.worker.server.CallRequest` as JSON."""

    def interrupt(self) -> None:
        """Interrupt the call as SIGINT does."""

    def kill(self) -> None:
        """Kill the worker."""

    def exchange(self, frames: Receive, output: Receive) -> WorkerEnd:
        """Pass on what the worker sends and prints until it has ended. Raises WorkerDied if the process is gone."""


def can_fork() -> bool:
    return hasattr(os, "fork")


def start(path: str) -> WorkerHost:
    """Start a process with the interpreter at ``path``."""
    return ForkServer(path) if can_fork() else SpawnedWorker(path)


def _environment(path: str) -> dict[str, str]:
    environment = dict(os.environ)
    if path == sys.executable:
        environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    return environment


class ForkServer:
    """The harness's side of :mod:`harness.worker.server`."""

    reusable = True

    def __init__(self, path: str) -> None:
        self._control, theirs = socket.socketpair()
        self._output, write = os.pipe()
        self._replies = b""
        try:
            self._process = subprocess.Popen(
                [path, "-P", "-u", "-m", "harness.worker.server", str(theirs.fileno()), *PRELOAD],
                pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL, stdout=write, stderr=write,
                env=_environment(path), start_new_session=True,
            )  # fmt: skip
        finally:
            theirs.close()
            os.close(write)
        os.set_blocking(self._output, False)

    def alive(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
        """End the server, which ends with its socket."""
        self._control.close()
        with contextlib.suppress(OSError):
            os.close(self._output)
        self._process.wait()

    def begin(self, request: bytes, limits: Limits) -> None:
        del limits  # the request has them, and the server watches
        self._replies = b""
        self._send(request)

    def interrupt(self) -> None:
        self._send(INTERRUPT)

    def kill(self) -> None:
        self._send(KILL)

    def _send(self, line: bytes) -> None:
        self._control.sendall(line + b"\n")

    def exchange(self, frames: Receive, output: Receive) -> WorkerEnd:
        worker: socket.socket | None = None
        end: WorkerEnd | None = None
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(self._output, select.POLLIN)
        try:
            while end is None or worker is not None:
                for fd, _ in poll.poll():
                    if fd == self._output:
                        self._pass_output(poll, output)
                    elif fd == self._control.fileno():
                        received, end = self._receive_control()
                        if received is not None:
                            worker = received
                            poll.register(worker, select.POLLIN)
                        if end is not None:
                            poll.unregister(self._control)
                    elif worker is not None and not _receive(worker, frames):
                        poll.unregister(worker)
                        worker.close()
                        worker = None
            self._pass_output(poll, output)
        finally:
            if worker is not None:
                worker.close()
        return end

    def _receive_control(self) -> tuple[socket.socket | None, WorkerEnd | None]:
        """Return the worker's socket and its end, as far as they have come; they may come together."""
        data, fds, _, _ = socket.recv_fds(self._control, 1 << 16, 1)
        if not data:
            raise WorkerDied("the process that starts workers has ended")
        self._replies += data
        worker = socket.socket(fileno=fds[0]) if fds else None
        line = self._replies.strip()
        if not line or not self._replies.endswith(b"\n"):
            return worker, None
        return worker, msgspec.json.decode(line, type=WorkerEnd)

    def _pass_output(self, poll: select.poll, output: Receive) -> None:
        with contextlib.suppress(BlockingIOError):
            data = os.read(self._output, 1 << 16)
            if not data:
                poll.unregister(self._output)
                return
            output(data)


def _receive(worker: socket.socket, frames: Receive) -> bool:
    """Pass on what has arrived from a worker; return False at its end."""
    try:
        data = worker.recv(1 << 18)
    except ConnectionResetError:  # it ended with unread bytes of ours
        return False
    frames(data)
    return bool(data)


class SpawnedWorker:
    """The harness's side of :mod:`harness.worker.spawned`. It makes one call."""

    reusable = False

    def __init__(self, path: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="harness-worker-", ignore_cleanup_errors=True)
        folder = Path(self._folder.name)
        self._signs, self._stack = SignsOfLife.in_file(folder / SIGNS_FILE), StackFile(folder / STACK_FILE)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._token = secrets.token_hex().encode()
        self._worker: socket.socket | None = None
        self._watchdog: Watchdog | None = None
        self._printed: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        port = str(self._listener.getsockname()[1])
        self._process = subprocess.Popen(
            [path, "-P", "-u", "-m", "harness.worker.spawned", port, str(folder), *PRELOAD],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env=_environment(path) | {"PYTHONIOENCODING": "utf-8"},  # else a pipe has the code page of Windows
            start_new_session=True,  # Ctrl-C in the terminal is for the harness alone; Windows has another word for it
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
        )  # fmt: skip
        assert self._process.stdin is not None
        with contextlib.suppress(OSError), self._process.stdin as stdin:  # it may have ended already
            stdin.write(self._token + b"\n")
        self._reader = threading.Thread(target=self._read_output, name="output of a worker", daemon=True)
        self._reader.start()

    def alive(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for one in (self._worker, self._listener, self._signs, self._stack):
            if one is not None:
                one.close()
        self._folder.cleanup()

    def begin(self, request: bytes, limits: Limits) -> None:
        self._watchdog = Watchdog(self._process.pid, self._signs, limits)
        self._worker = self._accepted()
        if self._worker is not None:
            self._worker.settimeout(_TICK_S)
            self._worker.sendall(request + b"\n")

    def _accepted(self) -> socket.socket | None:
        """Wait until the process connects and proves with the token that it is ours; return None if it ends before."""
        self._listener.settimeout(_TICK_S)
        deadline = time.monotonic() + CONNECTS_WITHIN_S
        while self.alive() and time.monotonic() < deadline:
            with contextlib.suppress(TimeoutError, ConnectionError):
                connection, _ = self._listener.accept()
                connection.settimeout(10)
                if hmac.compare_digest(connection.recv(len(self._token), socket.MSG_WAITALL), self._token):
                    return connection
                connection.close()
        return None

    def interrupt(self) -> None:
        if self._worker is not None:
            self._worker.sendall(INTERRUPT + b"\n")

    def kill(self) -> None:
        self._process.kill()

    def exchange(self, frames: Receive, output: Receive) -> WorkerEnd:
        hung = ""
        next_look = time.monotonic()
        open_ = self._worker is not None
        while open_:
            assert self._worker is not None
            assert self._watchdog is not None
            with contextlib.suppress(TimeoutError):
                open_ = _receive(self._worker, frames)
            self._pass_output(output)
            if not hung and time.monotonic() >= next_look:
                next_look = time.monotonic() + self._watchdog.interval_s
                hung = self._watchdog.look()
                if hung:
                    self._process.kill()
        if self._worker is None:
            self._process.kill()
        status = self._process.wait()
        self._reader.join()
        self._pass_output(output)
        return WorkerEnd(status=status, hung=hung, stack=self._stack.read())

    def _read_output(self) -> None:
        """Runs in a thread of its own, because Windows cannot wait for a pipe and a socket at once."""
        assert self._process.stdout is not None
        with self._process.stdout as printed:
            while data := os.read(printed.fileno(), 1 << 16):
                self._printed.put(data)

    def _pass_output(self, output: Receive) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                output(self._printed.get_nowait())


def name_of_status(status: int) -> str:
    """Return the name of the signal that ended a process with this negative exit status."""
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"
