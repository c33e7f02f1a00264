"""Recorded traffic of a Redis as requests and replies."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from harness.protocols.redis_replies import reply_at
from harness.sim.servers.redis.protocol import ProtocolError, encode_command, parse_all, parse_one

from .messages import Reply, Request, Unreadable

_MESSAGE: Final = re.compile(rb"[*>]\d\r\n\$\d+\r\np?message\r\n")
SUBSCRIPTIONS: Final = frozenset({b"subscribe", b"psubscribe", b"unsubscribe", b"punsubscribe"})


def split_replies(data: bytes) -> tuple[list[bytes], bytes]:
    """Return the complete replies in ``data`` and the remaining bytes."""
    found, at = [], 0
    while at < len(data):
        try:
            _, end = reply_at(data, at, unordered=False)
        except (ValueError, IndexError):  # incomplete
            break
        found.append(data[at:end])
        at = end
    return found, data[at:]


class RedisParser:
    """A :class:`~harness.protocols.messages.Parser` for RESP2 and RESP3."""

    def __init__(self) -> None:
        self._in = self._out = b""
        self._waiting: list[tuple[Request, int]] = []
        """Requests without a reply, with the number of replies that each has."""

    def requests(self, time_ns: int, data: bytes) -> Sequence[Request]:
        words = None if self._in else parse_one(data)
        found = [Request(time_ns, tuple(words), data)] if words else self._several(time_ns, data)
        self._waiting += [(one, _count(one)) for one in found]
        return found

    def _several(self, time_ns: int, data: bytes) -> list[Request]:
        """Return the requests that are complete with ``data``, and keep the rest."""
        try:
            commands, self._in = parse_all(self._in + data)
        except ProtocolError as error:
            raise Unreadable(f"not a command of Redis: {error}") from None
        return [Request(time_ns, tuple(words), encode_command(words)) for words in commands]

    def replies(self, time_ns: int, data: bytes) -> Sequence[Reply]:
        try:
            found, self._out = split_replies(self._out + data)
        except AssertionError as error:
            raise Unreadable(str(error)) from None
        return [Reply(time_ns, one, time_ns, self._answered(time_ns, one)) for one in found]

    def _answered(self, time_ns: int, reply: bytes) -> Request | None:
        """Return the request that a reply answers, and note its time; None for a message of a channel."""
        if _MESSAGE.match(reply) or not self._waiting:
            return None
        request, left = self._waiting.pop(0)
        if request.replied_ns is None:
            request.replied_ns = time_ns
        if left > 1:
            self._waiting.insert(0, (request, left - 1))
        return request


def _count(request: Request) -> int:
    """Return the number of replies that a request has: one for each channel of a subscription."""
    return max(1, len(request.words) - 1) if request.words[0].lower() in SUBSCRIPTIONS else 1
