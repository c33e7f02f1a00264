"""Requests and replies, and what cuts the data of a connection into them. All times are monotonic ns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol


@dataclass(slots=True)
class Request:
    """A request that arrived at ``arrived_ns`` or later, and was executed at ``time_ns`` or later, if at all.

    ``words`` are its parts as the service understands them. ``replied_ns`` is the time of its first reply, None if
    there is none: it may have been executed or not. ``time_ns`` and ``replied_ns`` are places in the order of replies.
    """

    arrived_ns: int
    words: tuple[bytes, ...]
    data: bytes
    replied_ns: int | None = None
    time_ns: int = 0


class Reply(NamedTuple):
    """A message of the server, which it sent at ``sent_ns`` or before.

    ``time_ns`` is its place in the order that a search keeps: the same time, unless the replies say their own order.
    ``request`` is what it answers, None if it is no answer.
    """

    time_ns: int
    data: bytes
    sent_ns: int
    request: Request | None = None


class Parser(Protocol):
    """Splits the data of one connection; one object for each connection."""

    def requests(self, time_ns: int, data: bytes) -> Sequence[Request]:
        """Return the requests that are complete with this data."""

    def replies(self, time_ns: int, data: bytes) -> Sequence[Reply]:
        """Return the messages of the server that are complete with this data."""


class Unreadable(Exception):
    """Data that does not belong to the service's protocol."""
