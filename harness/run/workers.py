"""Calls of functions in worker processes: one fork server for each interpreter, one worker for each call.

The code under test runs in workers alone. Whatever it does to its process, the harness keeps the history, the verdict
and the exit status. See :mod:`harness.worker.server` for the other side.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from harness.errors import UNKNOWN, HarnessError
from harness.worker.channel import Frame, FrameReader
from harness.worker.server import INTERRUPT, KILL, CallRequest, WorkerEnd, WorkerError, is_kept
from harness.worker.watchdog import Limits

from .search_path import HARNESS_CODE, LIBRARIES, search_path

PRELOAD: Final = ("harness.run.simulated",)
"""What every worker needs; the server imports it when it starts."""
_CALL: Final = re.compile(r'File "(?P<file>.*)", line (?P<line>\d+) in (?P<function>.*)')
"""A line of a stack as the module faulthandler writes it."""
OnFrame = Callable[[Frame, bytes], bool | None]
"""Callback for a frame. If it returns True, the worker gets SIGINT."""


class WorkerDied(HarnessError):
    """A worker ended without a result. The message says how, in a sentence; ``stack`` is its Python stack, the
    innermost call first, if it is known."""

    exit_status = UNKNOWN

    def __init__(self, sentence: str, stack: tuple[str, ...] = ()) -> None:
        super().__init__(sentence)
        self.stack = stack


class WorkerCrashed(HarnessError):
    """A function of the harness's own failed in a worker; the message has its traceback."""

    exit_status = UNKNOWN


limits = Limits()
"""The watchdog's limits for new calls."""
forwarded: list[int] = []
"""The signals that calls have forwarded to their workers. A call that was about to end may have returned all the same:
who makes several calls looks here whether to go on."""


@dataclass(slots=True)
class _Server:
    process: subprocess.Popen[bytes]
    control: socket.socket
    output: int

    def alive(self) -> bool:
        return self.process.poll() is None

    def close(self) -> None:
        """End the server, which ends with its socket."""
        self.control.close()
        with contextlib.suppress(OSError):
            os.close(self.output)
        self.process.wait()


_loaded: dict[str, dict[str, None]] = {}
"""Modules that calls loaded, by interpreter: a server loads them once for all later calls."""
_servers: dict[tuple[int, int, str], list[_Server]] = {}
"""Idle servers by process, thread and interpreter. A server serves one call at a time, and a fork of this process must
not use its parent's servers."""


def call(
    function: str,
    argument: bytes,
    on_frame: OnFrame,
    *,
    interpreter: str = "",
    preload: tuple[str, ...] = (),
    interruptible: bool = False,
) -> bytes:
    """Call ``module:function`` of ours with ``argument`` in a worker of its own, and return its result.

    ``on_frame`` is called with each frame before the result. ``interpreter`` is the path of another Python than this
    one; ``preload`` are modules of ours to keep loaded for later calls. With ``interruptible`` the first SIGINT or
    SIGTERM interrupts the worker, which may go on to a result, and a second one kills it; otherwise KeyboardInterrupt
    kills it at once.

    Raises:
        HarnessError: the function raised it, or failed by a mistake of ours.
        WorkerDied: the worker ended before it had a result.
    """
    path = interpreter or sys.executable
    server = _idle(path)
    running: _Call | None = None
    try:
        request = CallRequest(
            function=function,
            argument=argument,
            path=search_path(interpreter),
            own_path=bool(interpreter),
            folder=str(Path.cwd()),
            environment=dict(os.environ),
            preload=(*preload, *_loaded.get(path, ())),
            limits=limits,
        )
        running = _Call(server, on_frame)
        return running.run(request, interruptible=interruptible)
    finally:
        _give_back(server, path, running)


def start_early() -> None:
    """Start a server for a later call, so that it loads its modules while this process loads its own; do nothing if a
    server is idle already."""
    idle = _servers.setdefault(_key(sys.executable), [])
    if not idle:
        idle.append(_start(sys.executable))


def _key(path: str) -> tuple[int, int, str]:
    return os.getpid(), threading.get_ident(), path


def _idle(path: str) -> _Server:
    idle = _servers.get(_key(path), [])
    while idle:
        server = idle.pop()
        if server.alive():
            return server
        server.close()
    return _start(path)


def _give_back(server: _Server, path: str, last_call: _Call | None) -> None:
    """Keep a server for later calls, or close it if it may be in the middle of ``last_call``."""
    if last_call is not None:
        _loaded.setdefault(path, {}).update(dict.fromkeys(last_call.loaded))
    if last_call is not None and last_call.over and server.alive():
        _servers.setdefault(_key(path), []).append(server)
    else:
        server.close()


def _start(path: str) -> _Server:
    ours, theirs = socket.socketpair()
    read, write = os.pipe()
    environment = dict(os.environ)
    if path == sys.executable:
        environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    try:
        process = subprocess.Popen(
            [path, "-P", "-u", "-m", "harness.worker.server", str(theirs.fileno()), *PRELOAD],
            pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL, stdout=write, stderr=write,
            env=environment, start_new_session=True,
        )  # fmt: skip
    finally:
        theirs.close()
        os.close(write)
    os.set_blocking(read, False)
    return _Server(process, ours, read)


@atexit.register
def close_servers() -> None:
    """End the servers of this process that are idle."""
    for key in [key for key in _servers if key[0] == os.getpid()]:
        for server in _servers.pop(key):
            server.close()


class _Call:
    """One call on one server."""

    def __init__(self, server: _Server, on_frame: OnFrame) -> None:
        self._server = server
        self._on_frame = on_frame
        self._reader = FrameReader()
        self._result: bytes | None = None
        self._error: WorkerError | None = None
        self._replies = b""
        self._interrupts = 0
        self.loaded: tuple[str, ...] = ()
        """Modules that the worker loaded and that a server may keep for later calls."""
        self.over = False
        """True when the worker has ended and the server is ready for another call."""

    def run(self, request: CallRequest, *, interruptible: bool) -> bytes:
        self._send(msgspec.json.encode(request))
        with self._forwarded_signals() if interruptible else contextlib.nullcontext():
            end = self._exchange()
        self.over = True
        if self._error is not None:
            if self._interrupts and self._error.kind.rpartition(":")[2] == KeyboardInterrupt.__name__:
                raise KeyboardInterrupt  # it arrived before the function was ready for one
            raise _raised(self._error)
        if self._result is None:
            if self._interrupts > 1:
                raise KeyboardInterrupt
            raise WorkerDied(sentence_of(end), end.stack)
        return self._result

    def _send(self, line: bytes) -> None:
        self._server.control.sendall(line + b"\n")

    def _interrupt(self) -> None:
        """Interrupt the worker; kill it the second time."""
        self._interrupts += 1
        self._send(INTERRUPT if self._interrupts == 1 else KILL)

    @contextlib.contextmanager
    def _forwarded_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def handler(number: int, _: object) -> None:
            forwarded.append(number)
            with contextlib.suppress(OSError):
                self._interrupt()

        old = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, before in old.items():
                signal.signal(number, before)

    def _exchange(self) -> WorkerEnd:
        """Handle frames and output until the worker has ended and all that it sent is read."""
        control, output = self._server.control, self._server.output
        frames: socket.socket | None = None
        end: WorkerEnd | None = None
        poll = select.poll()
        poll.register(control, select.POLLIN)
        poll.register(output, select.POLLIN)
        try:
            while end is None or frames is not None:
                for fd, _ in poll.poll():
                    if fd == output:
                        self._pass_output(poll)
                    elif fd == control.fileno():
                        received, end = self._receive_control()
                        if received is not None:
                            frames = received
                            poll.register(frames, select.POLLIN)
                        if end is not None:
                            poll.unregister(control)
                    elif frames is not None and not self._receive_frames(frames):
                        poll.unregister(frames)
                        frames.close()
                        frames = None
            self._pass_output(poll)
        finally:
            if frames is not None:
                frames.close()
        return end

    def _receive_control(self) -> tuple[socket.socket | None, WorkerEnd | None]:
        """Return the worker's socket and its end, as far as they have come; they may come together."""
        data, fds, _, _ = socket.recv_fds(self._server.control, 1 << 16, 1)
        if not data:
            raise WorkerDied("the process that starts workers has ended")
        self._replies += data
        frames = socket.socket(fileno=fds[0]) if fds else None
        line = self._replies.strip()
        if not line or not self._replies.endswith(b"\n"):
            return frames, None
        return frames, msgspec.json.decode(line, type=WorkerEnd)

    def _receive_frames(self, frames: socket.socket) -> bool:
        try:
            data = frames.recv(1 << 18)
        except ConnectionResetError:  # it ended with unread bytes of ours
            return False
        for kind, body in self._reader.feed(data):
            if kind is Frame.RESULT:
                self._result = body
            elif kind is Frame.LOADED:
                self.loaded = tuple(filter(is_kept, msgspec.json.decode(body, type=tuple[str, ...])))
            elif kind is Frame.ERROR:
                self._error = msgspec.json.decode(body, type=WorkerError)
            elif self._on_frame(kind, body) and not self._interrupts:
                self._interrupt()
        return bool(data)

    def _pass_output(self, poll: select.poll) -> None:
        """Write what the worker printed to stderr: stdout is for results."""
        with contextlib.suppress(BlockingIOError):
            data = os.read(self._server.output, 1 << 16)
            if not data:
                poll.unregister(self._server.output)
                return
            sys.stderr.write(data.decode(errors="replace"))


def _raised(error: WorkerError) -> Exception:
    """Return the exception that a worker raised, if it is one of ours, else a :class:`WorkerCrashed`."""
    module, _, name = error.kind.partition(":")
    kind = getattr(importlib.import_module(module), name, None) if module.startswith("harness.") else None
    if isinstance(kind, type) and issubclass(kind, HarnessError):
        raised: HarnessError = kind.__new__(kind)
        Exception.__init__(raised, error.message)
    else:
        raised = WorkerCrashed(f"{error.kind.rpartition(':')[2]}: {error.message}\n{error.trace}".rstrip())
    for note in error.notes:
        raised.add_note(note)
    return raised


def sentence_of(end: WorkerEnd) -> str:
    """Say how a worker ended that had no result."""
    if end.hung:
        return f"for {end.hung} no virtual time passed and nothing was recorded{_place(end.stack)}"
    if end.status < 0:
        try:
            name = signal.Signals(-end.status).name
        except ValueError:
            name = f"signal {-end.status}"
        return f"the process of the lock was ended by {name}{_place(end.stack)}"
    return f"the process of the lock ended itself with exit status {end.status}"


def _place(stack: tuple[str, ...]) -> str:
    """Say where the innermost call of the user's code was, or else of a library's."""
    calls = [found for line in stack if (found := _CALL.fullmatch(line)) and HARNESS_CODE not in found["file"]]
    users = [found for found in calls if not any(found["file"].startswith(folder) for folder in LIBRARIES)]
    where = next(iter(users or calls), None)
    return "" if where is None else f", at {where['file']}:{where['line']} in {where['function']}"
