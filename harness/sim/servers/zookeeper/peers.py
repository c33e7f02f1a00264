"""How simulated ZooKeeper servers talk to each other: lists in frames of our own (MessagePack with a length before it).

Nobody else sees these bytes; the real servers have two protocols for it, one of which is Java's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from ...service import Conn

PEER_PORT: Final = 2888
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list).decode


def send(conn: Conn, *message: Any) -> None:
    body = _encode(message)
    conn.send(len(body).to_bytes(4, "big") + body)


class Inbox:
    """Bytes in, messages out."""

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        self._rest = b""

    def take(self, data: bytes) -> Iterator[list[Any]]:
        self._rest += data
        while len(self._rest) >= 4:
            end = 4 + int.from_bytes(self._rest[:4], "big")
            if len(self._rest) < end:
                return
            body, self._rest = self._rest[4:end], self._rest[end:]
            yield _decode(body)
