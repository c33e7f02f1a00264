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
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from harness.errors import UNKNOWN, HarnessError
from harness.worker.channel import Frame, FrameReader
from harness.worker.server import CallRequest, WorkerEnd, WorkerError, is_kept
from harness.worker.watchdog import Limits

from . import worker_hosts
from .search_path import HARNESS_CODE, IMPORTED_FROM, LIBRARIES, search_path
from .signals import interrupts_handled
from .worker_hosts import PRELOAD, WorkerDied, WorkerHost, name_of_status

__all__ = [
    "PRELOAD", "OnFrame", "WorkerCrashed", "WorkerDied", "call", "close_servers", "forwarded", "limits", "start_early",
]  # fmt: skip

_CALL: Final = re.compile(r'File "(?P<file>.*)", line (?P<line>\d+) in (?P<function>.*)')
"""A line of a stack as the module faulthandler writes it."""
OnFrame = Callable[[Frame, bytes], bool | None]
"""Callback for a frame. If it returns True, the worker gets SIGINT."""


class WorkerCrashed(HarnessError):
    """A function of the harness's own failed in a worker; the message has its traceback."""

    exit_status = UNKNOWN


limits = Limits()
"""The watchdog's limits for new calls."""
forwarded: list[int] = []
"""The signals that calls have forwarded to their workers. A call that was about to end may have returned all the same:
who makes several calls looks here whether to go on."""
_loaded: dict[str, dict[str, None]] = {}
"""Modules that calls loaded, by interpreter: a server loads them once for all later calls."""
_servers: dict[tuple[int, int, str], list[WorkerHost]] = {}
"""Idle processes for calls (servers) by process, thread and interpreter. A server serves one call at a time, and a
fork of this process must not use its parent's servers."""


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
        idle.append(worker_hosts.start(sys.executable))


def _key(path: str) -> tuple[int, int, str]:
    return os.getpid(), threading.get_ident(), path


def _idle(path: str) -> WorkerHost:
    idle = _servers.get(_key(path), [])
    while idle:
        server = idle.pop()
        if server.alive():
            return server
        server.close()
    return worker_hosts.start(path)


def _give_back(server: WorkerHost, path: str, last_call: _Call | None) -> None:
    """Keep a server for later calls, or close it if it may be in the middle of ``last_call``."""
    if last_call is not None:
        _loaded.setdefault(path, {}).update(dict.fromkeys(last_call.loaded))
    if last_call is not None and last_call.over and server.reusable and server.alive():
        _servers.setdefault(_key(path), []).append(server)
    else:
        server.close()


@atexit.register
def close_servers() -> None:
    """End the servers of this process that are idle."""
    for key in [key for key in _servers if key[0] == os.getpid()]:
        for server in _servers.pop(key):
            server.close()


class _Call:
    """One call on one server."""

    def __init__(self, server: WorkerHost, on_frame: OnFrame) -> None:
        self._server = server
        self._on_frame = on_frame
        self._reader = FrameReader()
        self._result: bytes | None = None
        self._error: WorkerError | None = None
        self._interrupts = 0
        self.loaded: tuple[str, ...] = ()
        """Modules that the worker loaded and that a server may keep for later calls."""
        self.over = False
        """True when the worker has ended and the server is ready for another call."""

    def run(self, request: CallRequest, *, interruptible: bool) -> bytes:
        self._server.begin(msgspec.json.encode(request), request.limits)
        with self._forwarded_signals() if interruptible else contextlib.nullcontext():
            end = self._server.exchange(self._receive, _show)
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

    def _interrupt(self) -> None:
        """Interrupt the worker; kill it the second time."""
        self._interrupts += 1
        if self._interrupts == 1:
            self._server.interrupt()
        else:
            self._server.kill()

    def _forwarded_signals(self) -> contextlib.AbstractContextManager[None]:
        def handler(number: int, _: object) -> None:
            forwarded.append(number)
            with contextlib.suppress(OSError):
                self._interrupt()

        return interrupts_handled(handler)

    def _receive(self, data: bytes) -> None:
        for kind, body in self._reader.feed(data):
            if kind is Frame.RESULT:
                self._result = body
            elif kind is Frame.LOADED:
                self.loaded = tuple(filter(is_kept, msgspec.json.decode(body, type=tuple[str, ...])))
            elif kind is Frame.ERROR:
                self._error = msgspec.json.decode(body, type=WorkerError)
            elif self._on_frame(kind, body) and not self._interrupts:
                self._interrupt()


def _show(printed: bytes) -> None:
    """Write what the worker printed to stderr: stdout is for results."""
    sys.stderr.write(printed.decode(errors="replace"))


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
        return f"the process of the lock was ended by {name_of_status(end.status)}{_place(end.stack)}"
    return f"the process of the lock ended itself with exit status {end.status}"


def _place(stack: tuple[str, ...]) -> str:
    """Say where the innermost call of the user's code was, or else of a library's."""
    calls = [found for line in stack if (found := _CALL.fullmatch(line))]
    calls = [found for found in calls if not found["file"].startswith((HARNESS_CODE, IMPORTED_FROM))]
    users = [found for found in calls if not found["file"].startswith(LIBRARIES)]
    where = next(iter(users or calls), None)
    return "" if where is None else f", at {where['file']}:{where['line']} in {where['function']}"
