"""A Redis client for tests: parses replies, and talks to a simulated server directly or through the stub network."""

from __future__ import annotations

from typing import Any

from harness.sim.servers.redis.protocol import encode_command
from harness.sim.service import Service
from tests.sim.redis_stub import StubHost, StubWorld


class ReplyError(str):
    """The text of an error reply."""

    __slots__ = ()


def parse(data: bytes, at: int = 0) -> tuple[Any, int]:
    """Parse one reply and return the position after it. Raises IndexError or ValueError if it is incomplete."""
    end = data.index(b"\r\n", at)
    mark, line, at = data[at : at + 1], data[at + 1 : end], end + 2
    if mark == b"+":
        return line.decode(), at
    if mark == b"-":
        return ReplyError(line.decode()), at
    if mark == b":":
        return int(line), at
    if mark == b",":
        return float(line), at
    if mark == b"#":
        return line == b"t", at
    if mark == b"_":
        return None, at
    if mark in b"$=":
        return _bulk(data, int(line), at)
    if mark in b"*~>%":
        return _aggregate(data, mark, int(line), at)
    raise ValueError(f"unknown reply type: {mark!r}")


def _bulk(data: bytes, size: int, at: int) -> tuple[bytes | None, int]:
    if size < 0:
        return None, at
    if data[at + size : at + size + 2] != b"\r\n":
        raise ValueError("incomplete bulk string")
    return data[at : at + size], at + size + 2


def _aggregate(data: bytes, mark: bytes, size: int, at: int) -> tuple[Any, int]:
    if size < 0:
        return None, at
    items = []
    for _ in range(size * 2 if mark == b"%" else size):
        item, at = parse(data, at)
        items.append(item)
    return (dict(zip(items[::2], items[1::2], strict=True)) if mark == b"%" else items), at


def parse_replies(data: bytes) -> list[Any]:
    replies, at = [], 0
    while at < len(data):
        reply, at = parse(data, at)
        replies.append(reply)
    return replies


def to_bytes(word: str | bytes | float) -> bytes:
    return word if isinstance(word, bytes) else str(word).encode()


class DirectConn:
    """A connection without a network: the test passes bytes in, and the server's answer collects in ``sent``."""

    def __init__(self, service: Service, peer: str = "client") -> None:
        self.peer = peer
        self.session: Any = None
        self.sent = b""
        self.closed = False
        self.service = service
        service.opened(self)

    def send(self, data: bytes) -> None:
        self.sent += data

    def close(self) -> None:
        self.closed = True

    def raw(self, data: bytes) -> bytes:
        self.sent = b""
        self.service.received(self, data)
        return self.sent

    def wire(self, *words: str | bytes | float) -> bytes:
        return self.raw(encode_command([to_bytes(word) for word in words]))

    def __call__(self, *words: str | bytes | float) -> Any:
        """Send a command and return its reply: a list if there were several, None if there was none."""
        return one_or_all(self.wire(*words))

    def pushed(self) -> list[Any]:
        """Return the replies that arrived since the last command."""
        data, self.sent = self.sent, b""
        return parse_replies(data)


def one_or_all(data: bytes) -> Any:
    replies = parse_replies(data)
    return replies[0] if len(replies) == 1 else (replies or None)


class RedisCaller:
    """A client on a stub host. ``call`` runs the simulation until the reply arrives."""

    def __init__(self, world: StubWorld, host: StubHost, server: str, port: int = 6379) -> None:
        self.world = world
        self.data = b""
        self.broken = False
        self.conn = host.dial(server, port, self)
        world.run(0.001)

    def opened(self, conn: Any) -> None:
        pass

    def received(self, conn: Any, data: bytes) -> None:
        self.data += data

    def closed(self, conn: Any) -> None:
        self.broken = True

    def send(self, *words: str | bytes | float) -> None:
        self.conn.send(encode_command([to_bytes(word) for word in words]))

    def call(self, *words: str | bytes | float, limit_s: float = 5) -> Any:
        self.data = b""
        self.send(*words)
        self.world.run_until(lambda: self.data or self.broken, limit_s)
        return one_or_all(self.data)
