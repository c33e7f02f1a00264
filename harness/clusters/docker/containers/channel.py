"""Stdin and output of programs in containers, as lines.

Network faults do not affect this channel. Lines sent to a paused program wait in its pipe.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from typing import Any, Final

HEADER: Final = struct.Struct(">BxxxL")
"""Header of each piece of output: stream (1 stdout, 2 stderr) and number of bytes (Docker Engine API, "attach")."""
STDERR: Final = 2


def socket_of(raw: Any) -> socket.socket:
    """Return the socket of a program that the SDK has started with ``socket=True``."""
    found: socket.socket = raw._sock
    return found


class Channel:
    """Stdin and output of one program; a thread reads the output and calls ``on_line``, and ``on_error`` with each line
    of its stderr.

    ``on_end`` is called when the program has ended; ``pid`` returns its process id on the engine's machine.
    """

    def __init__(
        self,
        raw: Any,
        on_line: Callable[[bytes], None],
        on_end: Callable[[], None],
        pid: Callable[[], int],
        on_error: Callable[[bytes], object] = lambda line: None,  # noqa: ARG005
    ) -> None:
        self.pid = pid
        self._raw = raw  # keeps the connection open
        self._socket = socket_of(raw)
        self._socket.settimeout(None)
        self._on_line = on_line
        self._on_error = on_error
        self._on_end = on_end
        self._sending = threading.Lock()
        self.errors: list[str] = []
        """Last 20 lines of its stderr."""
        self._thread = threading.Thread(target=self._read, name="channel", daemon=True)
        self._thread.start()

    def send(self, line: bytes) -> None:
        """Write a line to the program's stdin; raise OSError if it has ended."""
        with self._sending:
            self._socket.sendall(line + b"\n")

    def end_input(self) -> None:
        """Close the program's stdin and continue to read its output."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close the program's stdin and stop reading its output."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(2)
        with contextlib.suppress(OSError):
            self._raw.close()

    def _read(self) -> None:
        rests = {1: b"", STDERR: b""}
        try:
            with self._socket.makefile("rb", buffering=1 << 16) as stream:
                while len(header := stream.read(HEADER.size)) == HEADER.size:
                    which, size = HEADER.unpack(header)
                    *lines, rests[which] = (rests[which] + stream.read(size)).split(b"\n")
                    for line in lines:
                        self._take(which, line)
        except OSError:
            pass  # closed by this side
        finally:
            self._on_end()

    def _take(self, which: int, line: bytes) -> None:
        if which == STDERR:
            self.errors = [*self.errors[-19:], line.decode(errors="replace")]
            self._on_error(line)
        else:
            self._on_line(line)
