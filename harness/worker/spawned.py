"""A worker that makes one call, for systems that cannot fork.

``python -P -u -m harness.worker.spawned PORT FOLDER MODULE...`` imports the modules, connects to the harness on PORT of
127.0.0.1, and proves who it is with the token that its standard input has. Then it reads one request
(:class:`harness.worker.server.CallRequest`), and sends frames as a forked worker does. A line ``interrupt`` interrupts
the call. When the harness ends, its end of the socket closes, and so the worker ends.

The watchdog of the harness reads the signs of life in ``FOLDER/signs``. Windows has no signal that makes a process
write its stack. So a timer writes it to ``FOLDER/stack`` when the time without progress is over.
"""

from __future__ import annotations

import _thread
import contextlib
import faulthandler
import importlib
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Final

import msgspec

from . import guard
from .channel import Channel
from .server import INTERRUPT, CallRequest, execute
from .watchdog import SIGNS_FILE, STACK_FILE, Limits, SignsOfLife, StackFile

_interrupt_main: Final = _thread.interrupt_main  # the simulator replaces it


def _obey(harness: socket.socket, received: bytes) -> None:
    """Obey the harness's commands until it has gone, and end this process then."""
    while True:
        *lines, received = received.split(b"\n")
        if INTERRUPT in lines:
            _interrupt_main()
        try:
            data = harness.recv(1 << 16)
        except OSError:
            data = b""
        if not data:
            os._exit(1)
        received += data


def _request(harness: socket.socket) -> tuple[CallRequest, bytes]:
    """Return the request, and what arrived after it."""
    received = b""
    while b"\n" not in received:
        data = harness.recv(1 << 16)
        if not data:  # the harness needs no worker any more
            os._exit(0)
        received += data
    line, _, rest = received.partition(b"\n")
    return msgspec.json.decode(line, type=CallRequest), rest


def _rearmed(stack: StackFile, limits: Limits) -> None:
    """Have the stack written when no progress is made for as long as the limits allow."""
    stack.clear()
    faulthandler.dump_traceback_later(min(limits.cpu_s, limits.wall_s), file=stack.file)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the harness tells what an interrupt means
    guard.silence_destructors()
    port, folder, *modules = sys.argv[1:]
    for name in modules:
        importlib.import_module(name)
    harness = socket.create_connection(("127.0.0.1", int(port)))
    harness.sendall(sys.stdin.buffer.readline().strip())
    request, rest = _request(harness)
    for name in request.preload:
        with contextlib.suppress(ImportError):  # the call meets it again, and reports it
            importlib.import_module(name)
    stack = StackFile(Path(folder) / STACK_FILE)
    signs = SignsOfLife.in_file(Path(folder) / SIGNS_FILE, lambda: _rearmed(stack, request.limits))
    faulthandler.enable(stack.file, all_threads=False)
    _thread.start_new_thread(_obey, (harness, rest))
    execute(request, Channel(harness), signs)


if __name__ == "__main__":
    main()
