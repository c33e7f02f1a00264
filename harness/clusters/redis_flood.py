"""Memory pressure on a Redis: write cache entries, unrelated to the lock, until the lock's keys are evicted.

Works the same on all backends, from the control side, whose connections no fault cuts.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Final

from .base import ObservedFacts
from .floods import Floods
from .redis_admin import RedisConnection, RedisUnanswered

ANSWER_S: Final = 0.5
"""Time limit for an answer, seconds."""
DATABASE: Final = 15
"""Database number of the entries. INFO then tells how many of the flood's own entries were evicted; the other evicted
keys belong to clients. Looking for the lock's key proves nothing, since a client may have acquired it again."""
OWN: Final = f"db{DATABASE}"
PREFIX: Final = "lock-harness:cache:"
ENTRY: Final = b"x" * 1024
LIFE: Final = 60
"""Seconds until a cache entry expires."""
ROOM: Final = 128 << 10
"""Free bytes when the flood begins. With none, the server would refuse writes of clients for lack of memory."""
BATCH: Final = 50
MOST: Final = 4000
"""Entries after which a flood gives up, unless it took less than :data:`TICK`: then all keys have the same age."""
TICK: Final = 2.0
"""Seconds. Redis measures the age of a key in whole seconds, and evicts keys of equal age in arbitrary order."""
POLICY: Final = "volatile-lru"
SETTINGS: Final = ("maxmemory", "maxmemory-policy")


class RedisFloods(Floods):
    """See :class:`harness.clusters.floods.Floods`."""

    NO_ANSWER = RedisUnanswered

    def __init__(
        self,
        address: Callable[[str], tuple[str, int]],
        gate: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        super().__init__(address, gate)
        self._settings: dict[str, dict[str, str]] = {}
        self._counted: dict[str, tuple[int, int]] = {}
        """Last reading of an active flood, by host: (keys evicted, entries left)."""

    def _fill(self, host: str) -> ObservedFacts:
        with self._client(host) as client:
            return self._filled(host, client)

    def _applied(self, host: str) -> bool:
        return host in self._settings

    def _undo(self, host: str) -> None:
        with self._client(host) as client:
            _remove_entries(client)
            for name, value in self._settings.get(host, {}).items():
                client("CONFIG", "SET", name, value)

    def _forget(self, host: str) -> None:
        self._settings.pop(host, None)
        self._counted.pop(host, None)

    def _left(self, host: str) -> bool:
        if host in self._settings:
            return True
        with self._client(host) as client:
            return next(_names(client), None) is not None

    def _filled(self, host: str, client: RedisConnection) -> ObservedFacts:
        if not self._is_wanted(host):
            return {"evicted": 0, "others": 0}
        self._remember_settings(host, client)
        info = _info(client)
        evicted, entries = self._counted.get(host, (info["evicted_keys"], _entries(info)))
        removed = _remove_entries(client)
        info = _info(client)
        # Evicted by an earlier flood that is still active, and while its entries were removed.
        already = info["evicted_keys"] - evicted - (entries - removed)
        evicted_before = info["evicted_keys"] - already
        keys, victims = _keys(info)
        facts: ObservedFacts = {
            "entries": 0,
            "evicted": already,
            "others": already,
            "keys_before": keys,
            "keys_after": keys,
        }
        enough = already + victims if already else max(1, victims)
        client("CONFIG", "SET", "maxmemory-policy", POLICY)
        client("CONFIG", "SET", "maxmemory", info["used_memory"] + ROOM)
        began = time.monotonic()
        for first in itertools.count(0, BATCH):
            if not self._is_wanted(host) or facts["others"] >= enough:
                break
            if first >= MOST and (not victims or time.monotonic() - began > TICK):
                break
            facts["entries"] += _write(client, range(first, first + BATCH))
            info = _info(client)  # one snapshot: counts from two requests would not agree
            facts["evicted"] = info["evicted_keys"] - evicted_before
            facts["others"] = facts["evicted"] - (facts["entries"] - _entries(info))
            facts["keys_after"], _ = _keys(info)
        self._counted[host] = info["evicted_keys"], _entries(info)
        return facts

    def _remember_settings(self, host: str, client: RedisConnection) -> None:
        """Store the server's settings before its first flood, so that they can be restored."""
        with self._lock:
            if host in self._settings:
                return
        found = _texts(client("CONFIG", "GET", *SETTINGS))
        settings = dict(zip(found[::2], found[1::2], strict=True))
        with self._lock:
            self._settings.setdefault(host, {name: settings[name] for name in SETTINGS})

    @contextmanager
    def _client(self, host: str) -> Iterator[RedisConnection]:
        address, port = self._address(host)
        with self._gate(), RedisConnection(address, port, database=DATABASE, answer_s=ANSWER_S) as client:
            yield client


def _texts(reply: object) -> list[str]:
    """Return the texts of a list of bulk strings."""
    return [item.decode() for item in reply if isinstance(item, bytes)] if isinstance(reply, list) else []


def _info(client: RedisConnection) -> dict[str, int]:
    """Return the numbers of INFO; those of databases as ``db15.keys`` and ``db15.expires``."""
    found: dict[str, int] = {}
    reply = client("INFO")
    for line in reply.decode().splitlines() if isinstance(reply, bytes) else ():
        name, _, value = line.partition(":")
        pairs = [pair.partition("=") for pair in value.split(",")] if "=" in value else []
        numbers = {f"{name}.{key}": number for key, _, number in pairs} or {name: value}
        found |= {key: int(number) for key, number in numbers.items() if number.isdecimal()}
    return found


def _entries(info: dict[str, int]) -> int:
    """Number of the flood's entries on the server."""
    return info.get(f"{OWN}.keys", 0)


def _keys(info: dict[str, int]) -> tuple[int, int]:
    """(Keys that are not the flood's, those of them that may be evicted): the policy evicts only keys that expire."""
    others = {name: count for name, count in info.items() if name[:2] == "db" and name.partition(".")[0] != OWN}
    keys = sum(count for name, count in others.items() if name.endswith(".keys"))
    return keys, sum(count for name, count in others.items() if name.endswith(".expires"))


def _write(client: RedisConnection, numbers: range) -> int:
    """Write entries and return how many were accepted: a server without memory refuses some."""
    done = client.pipeline([("SET", f"{PREFIX}{number}", ENTRY, "EX", LIFE) for number in numbers])
    return done.count(b"OK")


def _names(client: RedisConnection) -> Iterator[bytes]:
    """Yield the names of the flood's entries."""
    cursor: object = b"0"
    while True:
        reply = client("SCAN", cursor if isinstance(cursor, bytes) else b"0", "MATCH", f"{PREFIX}*", "COUNT", 1000)
        cursor, names = reply if isinstance(reply, list) else (b"0", [])
        yield from (name for name in names if isinstance(name, bytes)) if isinstance(names, list) else ()
        if cursor == b"0":
            return


def _remove_entries(client: RedisConnection) -> int:
    """Remove the flood's entries and return how many there were."""
    names = list(_names(client))
    removed = client("DEL", *names) if names else 0
    return removed if isinstance(removed, int) else 0
