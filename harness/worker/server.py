"""The fork server: a process that has the simulator loaded, and forks one worker for each call.

``python -P -m harness.worker.server FD MODULE...`` imports the modules and serves the harness on the socket ``FD``.
Before each fork it calls the ``prepare`` of the modules that have one, whose work each worker then finds done. It
never runs code of a user's: each worker is a fork of it, so no state passes from one call to the next. When the harness
ends, in whatever way, so do the server and its worker.

A request is a line of JSON (:class:`CallRequest`). The server answers with a message that carries the socket on which
the worker sends its frames (:mod:`harness.worker.channel`), and with a line of JSON (:class:`WorkerEnd`) when the
worker has ended. A line ``interrupt`` or ``kill`` meanwhile sends SIGINT or SIGKILL to the worker.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import select
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

import msgspec

from harness.errors import HarnessError

from . import guard
from .channel import Channel, Frame
from .lifetime import end_with_parent
from .watchdog import Limits, SignsOfLife, StackFile, Watchdog

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

MEMORY_LIMIT: Final = 4 << 30
"""Bytes of address space that a worker may use. Beyond them Python raises MemoryError."""
KEPT: Final = ("harness.", "hypothesis.")
INTERRUPT, KILL = b"interrupt", b"kill"
SOON_S: Final = 0.001
"""First interval in which to look whether a worker has ended that closed its files."""


class CallRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A call of ``module:function`` with ``argument`` in a worker.

    ``preload`` are modules of ours that the server imports before it forks, so that later calls find them loaded.
    ``path``, ``folder`` and ``environment`` are ``sys.path``, the working directory and the environment variables;
    with ``own_path`` the worker's Python adds its own path to the first.
    """

    function: str
    argument: bytes
    path: tuple[str, ...]
    folder: str
    environment: dict[str, str]
    own_path: bool = False
    preload: tuple[str, ...] = ()
    limits: Limits = Limits()


class WorkerEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How a worker ended. ``status`` is its exit status, negative for a signal. ``hung`` says what the watchdog saw,
    and is empty if it did not end the worker. ``stack`` is the Python stack at the end, the innermost call first, if
    the worker crashed or hung."""

    status: int
    hung: str = ""
    stack: tuple[str, ...] = ()


class WorkerError(msgspec.Struct, frozen=True, kw_only=True):
    """An exception that ended a call. ``kind`` is ``module:Class``; ``trace`` is empty for a HarnessError."""

    kind: str
    message: str
    notes: tuple[str, ...] = ()
    trace: str = ""


WorkerFunction = Callable[[bytes, Channel], bytes]
"""A function that runs in a worker: it gets the request's argument and may send frames; it returns the result."""


class _Control:
    """The harness's commands, by line."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        self._buffer = b""

    def receive(self) -> bool:
        """Wait for more bytes; return False if the harness has gone."""
        data = self.socket.recv(1 << 16)
        self._buffer += data
        return bool(data)

    def lines(self) -> list[bytes]:
        """Return the lines that have arrived whole, without their ends."""
        *lines, self._buffer = self._buffer.split(b"\n")
        return lines


def serve(control: socket.socket, prepare: Sequence[Callable[[], None]] = ()) -> None:
    """Serve calls until the harness closes its end. Call ``prepare`` before each fork."""
    decode = msgspec.json.Decoder(CallRequest).decode
    commands = _Control(control)
    while commands.receive():
        requests = [line for line in commands.lines() if line not in (INTERRUPT, KILL)]  # these came too late
        if not requests:
            continue
        request = decode(requests[0])
        for module in request.preload:
            with contextlib.suppress(ImportError):  # the worker meets it again, and reports it
                importlib.import_module(module)
        for function in prepare:
            function()
        gc.collect()
        gc.freeze()  # a collection in the worker must not touch, and so copy, all that the server has loaded
        end = _call(request, commands)
        control.sendall(msgspec.json.encode(end) + b"\n")


def _call(request: CallRequest, control: _Control) -> WorkerEnd:
    """Fork a worker, supervise it to its end, and return how it ended."""
    ours, theirs = socket.socketpair()
    signs, stack = SignsOfLife(), StackFile()
    wake_read, wake_write = os.pipe()
    server = os.getpid()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        control.socket.close()
        ours.close()
        os.close(wake_read)
        _work(request, Channel(theirs), signs, stack, server)
    theirs.close()
    os.close(wake_write)  # the worker alone has it now, so the end of this pipe is the worker's end
    try:
        socket.send_fds(control.socket, [b"\n"], [ours.fileno()])
        ours.close()
        watchdog = Watchdog(pid, signs, request.limits)
        return _supervise(pid, control, wake_read, watchdog, stack)
    finally:
        os.close(wake_read)
        stack.close()
        signs.close()


def _supervise(pid: int, control: _Control, ended: int, watchdog: Watchdog, stack: StackFile) -> WorkerEnd:
    hung = ""
    poll = select.poll()
    poll.register(control.socket, select.POLLIN)
    poll.register(ended, select.POLLIN)
    interval_s = watchdog.interval_s
    while True:
        ready = {fd for fd, _ in poll.poll(interval_s * 1000)}
        interval_s = min(watchdog.interval_s, 2 * interval_s)
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return WorkerEnd(status=os.waitstatus_to_exitcode(status), hung=hung, stack=stack.read())
        if ended in ready:  # a process closes its files a moment before it has ended; or code of the worker closed it
            poll.unregister(ended)
            interval_s = SOON_S
        if control.socket.fileno() in ready:
            if not control.receive():  # the harness has gone
                os.kill(pid, signal.SIGKILL)
                os._exit(1)
            for command in control.lines():
                os.kill(pid, signal.SIGKILL if command == KILL else signal.SIGINT)
        if not hung and (hung := watchdog.look()):
            stack.request(pid)
            os.kill(pid, signal.SIGKILL)


def _work(request: CallRequest, channel: Channel, signs: SignsOfLife, stack: StackFile, server: int) -> None:
    """Run the call in the worker, which is a fork of the server, and end the worker."""

    def prepare() -> None:
        end_with_parent(server)
        stack.register()

    execute(request, channel, signs, prepare)


def execute(
    request: CallRequest, channel: Channel, signs: SignsOfLife, prepare: Callable[[], None] = lambda: None
) -> NoReturn:
    """Run the call in this process, send its frames, and end the process. ``prepare`` is called before it."""
    try:
        prepare()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _limit_memory()
        os.chdir(request.folder)
        os.environ.clear()
        os.environ.update(request.environment)
        sys.path[:] = [*request.path, *(sys.path if request.own_path else ())]
        importlib.invalidate_caches()
        signs.begin(channel)
        guard.install()
        module, _, name = request.function.partition(":")
        before = set(sys.modules)
        function: WorkerFunction = getattr(importlib.import_module(module), name)
        result = function(request.argument, channel)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # it must not cut the frame with the result
        loaded = [one for one in list(sys.modules) if one not in before and is_kept(one)]
        channel.send(Frame.LOADED, msgspec.json.encode(loaded))
        channel.send(Frame.RESULT, result)
    except BaseException as error:  # noqa: BLE001 - the harness decides what it means
        with contextlib.suppress(OSError):
            channel.send(Frame.ERROR, msgspec.json.encode(_described(error)))
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(0)


def _limit_memory() -> None:
    """Limit this process's memory, where the system can: Windows cannot, and macOS refuses the limit."""
    if resource is None:
        return
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def is_kept(module: str) -> bool:
    """Return whether a server may keep a module loaded: it is ours or Hypothesis's, and no lock's."""
    return module.startswith(KEPT) and not module.startswith("harness.lock_impls.")


def _described(error: BaseException) -> WorkerError:
    kind = type(error)
    trace = "" if isinstance(error, HarnessError) else "".join(traceback.format_exception(error))
    notes: Any = getattr(error, "__notes__", ())
    return WorkerError(
        kind=f"{kind.__module__}:{kind.__qualname__}", message=str(error), notes=tuple(map(str, notes)), trace=trace
    )


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the harness tells what an interrupt means
    guard.silence_destructors()  # before the search in prepare, which a worker repeats if it finds another hook
    modules = [importlib.import_module(name) for name in sys.argv[2:]]
    serve(socket.socket(fileno=int(sys.argv[1])), [one.prepare for one in modules if hasattr(one, "prepare")])


if __name__ == "__main__":
    main()
