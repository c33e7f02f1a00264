"""Frames between a worker and the harness: a kind and a body, on a stream socket.

A worker may end at any byte. A frame that it did not finish is dropped by the reader.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import Final

_HEADER: Final = struct.Struct(">IB")


class Frame(IntEnum):
    """Kinds of frames from a worker."""

    ENTRY = 1
    """An entry of the history, as JSON."""
    KEY = 2
    """A change of a lock's key on a server, as JSON."""
    PROGRESS = 3
    """How far the work is; its function defines the body."""
    LOGS = 4
    """The logs of the servers by host, as JSON."""
    RESULT = 5
    """The result of the function."""
    ERROR = 6
    """The function raised an error; see :class:`harness.worker.server.WorkerError`."""
    COMMAND = 7
    """A command between a client and a server, as JSON."""
    LOADED = 8
    """Names of the modules that the call loaded and that a server may keep loaded, as JSON."""
    MESSAGES = 9
    """Entries of :mod:`harness.sim.message_log`, as MessagePack."""
    PLACE = 10
    """A place of :mod:`harness.sim.places`, as JSON."""


class Channel:
    """The worker's end. ``sent`` counts frames; the watchdog takes each as a sign of life."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self.sent = 0

    def send(self, kind: Frame, body: bytes) -> None:
        """Send a frame. Raises OSError if the harness has gone."""
        # A lock that repeats a command for ever makes no progress.
        self.sent += kind not in (Frame.MESSAGES, Frame.PLACE)
        self._socket.sendall(_HEADER.pack(len(body), kind) + body)

    def fileno(self) -> int:
        return self._socket.fileno()


class FrameReader:
    """Cuts the bytes of a stream into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[Frame, bytes]]:
        """Yield the frames that ``data`` completes."""
        buffer = self._buffer
        buffer += data
        at = 0
        while len(buffer) - at >= _HEADER.size:
            length, kind = _HEADER.unpack_from(buffer, at)
            end = at + _HEADER.size + length
            if len(buffer) < end:
                break
            yield Frame(kind), bytes(buffer[at + _HEADER.size : end])
            at = end
        del buffer[:at]
