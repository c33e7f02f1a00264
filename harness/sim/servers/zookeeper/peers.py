"""Messages between simulated ZooKeeper servers (proposals, votes and their answers): MessagePack lists, each after its
length.

The format is our own, since no client sees it. Real servers elect a leader and replicate by two protocols of theirs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from harness.sim.service import Conn

PEER_PORT: Final = 2888
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list).decode


def send(conn: Conn, *message: Any) -> None:
    """Send one message, given as its items."""
    body = _encode(message)
    conn.send(len(body).to_bytes(4, "big") + body)


class FrameDecoder:
    """Reassembles messages from the bytes of a connection."""

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[list[Any]]:
        """Yield the messages that ``data`` completes."""
        self._rest += data
        while len(self._rest) >= 4:
            end = 4 + int.from_bytes(self._rest[:4], "big")
            if len(self._rest) < end:
                return
            body, self._rest = self._rest[4:end], self._rest[end:]
            yield _decode(body)
