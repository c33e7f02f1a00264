"""Recorded traffic of a memcached as requests and replies of the text protocol."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from harness.sim.servers.memcached.commands import FETCHING, STORING

from .messages import Reply, Request

_VALUE: Final = re.compile(rb"VALUE \S+ \d+ (\d+)(?: \d+)?\r\n")


class MemcachedParser:
    """A :class:`~harness.protocols.messages.Parser`."""

    def __init__(self) -> None:
        self._in = self._out = b""
        self._waiting: list[Request] = []

    def requests(self, time_ns: int, data: bytes) -> Sequence[Request]:
        self._in += data
        found = []
        while (size := _request_size(self._in)) is not None:
            text, self._in = self._in[:size], self._in[size:]
            words = tuple(word for word in text.partition(b"\n")[0].rstrip(b"\r").split(b" ") if word)
            if words:
                found.append(Request(time_ns, words, text))
        self._waiting += [one for one in found if one.words[-1] != b"noreply"]
        return found

    def replies(self, time_ns: int, data: bytes) -> Sequence[Reply]:
        self._out += data
        found = []
        while self._waiting and (size := reply_size(self._waiting[0].words[0], self._out)) is not None:
            request = self._waiting.pop(0)
            request.replied_ns = time_ns
            found.append(Reply(time_ns, self._out[:size], time_ns, request))
            self._out = self._out[size:]
        return found


def _request_size(data: bytes) -> int | None:
    """Return the size of the first request, with its data if it stores some; None if it is incomplete."""
    end = data.find(b"\n") + 1
    if not end:
        return None
    words = data[:end].split()
    if words and words[0] in STORING and len(words) >= 5 and words[4].isdigit():
        end += int(words[4]) + 2
    return end if len(data) >= end else None


def reply_size(command: bytes, data: bytes) -> int | None:
    """Return the size of the first reply, which is one to ``command``; None if it is incomplete."""
    at = 0
    while end := data.find(b"\n", at) + 1:
        line = data[at:end]
        if command in FETCHING and (value := _VALUE.fullmatch(line)):
            at = end + int(value[1]) + 2
        elif command == b"stats" and line.startswith(b"STAT "):
            at = end
        else:
            return end
    return None
