"""Hear all data that passes a client's proxy, each piece before it passes; see ``docker/toxiproxy/tap.go``."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final

import msgspec

from .toxiproxy import PATIENCE, Direction, SidecarError

PORT: Final = 8475


class Piece(msgspec.Struct, frozen=True):
    """Data on a link to the server ``link``. A connection has one number for both directions."""

    id: int
    link: str
    direction: Direction
    connection: int
    data: bytes


class ProxyTap:
    """Calls ``hear`` with each piece of data, in a thread of its own. The piece passes when that returns True, and is
    lost when it returns False; then nothing passes behind it in that direction of that connection.

    A ValueError that ``hear`` raises ends the tap. Raises :exc:`SidecarError` if the proxy does not answer.
    """

    def __init__(
        self,
        host: str,
        hear: Callable[[Piece], bool],
        gate: Callable[[], AbstractContextManager[None]],
        port: int = PORT,
    ) -> None:
        self._hear = hear
        self._decode = msgspec.json.Decoder(Piece).decode
        self._gate = contextlib.ExitStack()
        try:
            self._gate.enter_context(gate())
            self._socket = socket.create_connection((host, port), PATIENCE)
        except OSError as error:
            self._gate.close()
            raise SidecarError(f"the tap of the proxy at {host}:{port}: {error}") from error
        self._socket.settimeout(None)
        self._thread = threading.Thread(target=self._read, name="tap", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Hear nothing more; what is held passes."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        if self._thread is not threading.current_thread():
            self._thread.join(PATIENCE)

    def _read(self) -> None:
        try:
            with self._gate, self._socket, self._socket.makefile("rb") as lines:
                for line in lines:
                    piece = self._decode(line)
                    self._socket.sendall(b"%d\n" % (piece.id if self._hear(piece) else -piece.id))
        except (OSError, ValueError, msgspec.DecodeError):
            pass  # closed by this side, cut off in the middle of a line, or no traffic that ``hear`` can read
