"""Memory pressure on a memcached: write cache entries, unrelated to the lock, until the lock's items are evicted.

Works the same on all backends, from the control side, whose connections no fault cuts. It uses a plain socket, since a
client library waits for each answer and thousands of entries are written. memcached evicts within a slab class, so the
entries have the size of the class of the items that were there.
"""

from __future__ import annotations

import itertools
import socket
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Final

from .base import ObservedFacts
from .floods import Floods

ANSWER_S: Final = 0.5
"""Time limit for an answer, seconds."""
PREFIX: Final = b"lh:"
OVERHEAD: Final = 59
"""Bytes of an item beside key and value, as memcached counts them."""
LIFE: Final = 60
"""Seconds until a cache entry expires."""
BATCH: Final = 250
ASKED: Final = 200
"""Keys in one ``get`` command, which has a maximum length."""
MOST: Final = 3
"""A flood gives up after this multiple of a slab class's capacity: items that are read often are never evicted."""
TRIES: Final = 10
CLOSES: Final = (b"END\r\n", b"OK\r\n", b"ERROR\r\n")


class _Flood:
    """Number of entries that one host's flood has written, by slab class."""

    def __init__(self) -> None:
        self.entries: dict[int, int] = {}

    def keys(self) -> list[bytes]:
        return [key for slab, count in self.entries.items() for key in _keys(slab, range(count))]


class MemcachedFloods(Floods):
    """See :class:`harness.clusters.floods.Floods`."""

    NO_ANSWER = OSError

    def __init__(
        self,
        address: Callable[[str], tuple[str, int]],
        gate: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        super().__init__(address, gate)
        self._floods: dict[str, _Flood] = {}

    def _fill(self, host: str) -> ObservedFacts:
        with self._connection(host) as ask:
            return self._filled(host, ask)

    def _applied(self, host: str) -> bool:
        return host in self._floods

    def _undo(self, host: str) -> None:
        flood = self._floods.get(host)
        if flood is not None:
            with self._connection(host) as ask:
                _delete(ask, flood.keys())

    def _forget(self, host: str) -> None:
        self._floods.pop(host, None)

    def _left(self, host: str) -> bool:
        flood = self._floods.get(host)
        if flood is None:
            return False
        with self._connection(host) as ask:
            return _count_left(ask, flood.keys()) > 0

    def _filled(self, host: str, ask: _Connection) -> ObservedFacts:
        if not self._is_wanted(host):
            return {"evicted": 0, "others": 0}
        with self._lock:
            flood = self._floods.setdefault(host, _Flood())
        _delete(ask, flood.keys())  # of an earlier flood that was not drained yet
        flood.entries.clear()
        figures = ask.stats("items")
        victims = {slab: figures[slab, "number"] for slab, name in figures if name == "number"}
        evicted_before = _eviction_count(ask)
        there = sum(victims.values())
        facts: ObservedFacts = {"entries": 0, "evicted": 0, "others": 0, "keys_before": there, "keys_after": there}
        chunks = ask.stats("slabs")
        for slab, victim_count in victims.items():
            length = chunks[slab, "chunk_size"] - OVERHEAD - len(_key(slab, 0))
            room = chunks[slab, "chunks_per_page"] * chunks[slab, "total_pages"]
            lost = own = 0
            for first in itertools.count(0, BATCH):
                if not self._is_wanted(host) or lost >= victim_count or first >= MOST * room or (lost and own > BATCH):
                    break
                flood.entries[slab] = first + BATCH
                facts["entries"] += _write(ask, _keys(slab, range(first, first + BATCH)), length)
                if _eviction_count(ask) - evicted_before > facts["evicted"]:
                    evicted, left = _counts(ask, flood.keys())
                    facts["evicted"] = evicted - evicted_before
                    own = facts["entries"] - left
                    lost += facts["evicted"] - own - facts["others"]
                    facts["others"] = facts["evicted"] - own
        total = sum(n for (_, name), n in ask.stats("items").items() if name == "number")
        facts["keys_after"] = max(0, total - _count_left(ask, flood.keys()))
        return facts

    @contextmanager
    def _connection(self, host: str) -> Iterator[_Connection]:
        with self._gate(), socket.create_connection(self._address(host), timeout=ANSWER_S) as connection:
            yield _Connection(connection)


class _Connection:
    """Connection that sends one command at a time and returns the whole answer."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def __call__(self, command: bytes) -> bytes:
        self._connection.sendall(command)
        pieces = [self._received()]
        while not b"".join(pieces[-2:]).endswith(CLOSES):
            pieces.append(self._received())
        return b"".join(pieces)

    def _received(self) -> bytes:
        data = self._connection.recv(1 << 16)
        if not data:
            raise ConnectionError("the server has closed the connection")
        return data

    def stats(self, about: str) -> Counter[tuple[int, str]]:
        """Return statistics by (slab class, name); missing ones are 0."""
        found: Counter[tuple[int, str]] = Counter()
        for line in self(f"stats {about}\r\n".encode()).decode().splitlines():
            _, *pair = line.split(" ")
            name, value = pair if len(pair) == 2 else ("", "")
            slab, _, of = name.removeprefix("items:").partition(":")
            if slab.isdecimal() and value.isdecimal():
                found[int(slab), of] = int(value)
        return found


def _key(slab: int, number: int) -> bytes:
    return PREFIX + f"{slab}:{number:06}".encode()


def _keys(slab: int, numbers: range) -> list[bytes]:
    return [_key(slab, number) for number in numbers]


def _write(ask: _Connection, keys: Sequence[bytes], length: int) -> int:
    """Write entries and return how many were accepted: a server that cannot evict at once refuses some."""
    value = b"x" * length
    lines = [b"set %b 0 %d %d\r\n%b\r\n" % (key, LIFE, length, value) for key in keys]
    return ask(b"".join(lines) + b"verbosity 0\r\n").count(b"STORED\r\n")  # the last one answers OK


def _eviction_count(ask: _Connection) -> int:
    return sum(count for (_, name), count in ask.stats("items").items() if name == "evicted")


def _counts(ask: _Connection, keys: Sequence[bytes]) -> tuple[int, int]:
    """(Items evicted so far, how many of the ``keys`` are left) in a consistent reading: clients cause evictions
    too."""
    for _ in range(TRIES):
        before, left, after = _eviction_count(ask), _count_left(ask, keys), _eviction_count(ask)
        if before == after:
            break
    return before, left


def _count_left(ask: _Connection, keys: Sequence[bytes]) -> int:
    there = 0
    for first in range(0, len(keys), ASKED):
        there += ask(b"get " + b" ".join(keys[first : first + ASKED]) + b"\r\n").count(b"VALUE ")
    return there


def _delete(ask: _Connection, keys: Sequence[bytes]) -> None:
    for first in range(0, len(keys), BATCH):
        lines = [b"delete %b noreply\r\n" % key for key in keys[first : first + BATCH]]
        ask(b"".join(lines) + b"verbosity 0\r\n")
