"""Memory pressure on a Redis: entries of a cache that is none of the lock's business push out the keys that are.

The same on all backends: it is done with redis-py from the control side, which no fault cuts off.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from typing import Any, Final

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from . import floods
from .base import Facts

ASK: Final = 0.5
"""Seconds that an answer may take."""
DATABASE: Final = 15
"""Of the entries. How many keys the flood itself has lost is then known without naming them all, and the rest of those
evicted were somebody else's. To look for the lock's own key would tell nothing: a client may have taken it again."""
PREFIX: Final = "lock-harness:cache:"
ENTRY: Final = b"x" * 1024
LIFE: Final = 60
"""Seconds until a cache entry expires."""
ROOM: Final = 128 << 10
"""Bytes left when the flood begins: not nothing, or clients are refused for want of memory."""
BATCH: Final = 50
MOST: Final = 4000
"""Entries after which a flood gives up, unless it was so quick that nothing could be told to be older than they are."""
TICK: Final = 2.0
"""Seconds: a Redis measures the age of a key in whole ones, and evicts among keys of one age as it happens."""
POLICY: Final = "volatile-lru"
SETTINGS: Final = ("maxmemory", "maxmemory-policy")


class Floods(floods.Floods):
    """See :class:`harness.clusters.floods.Floods`."""

    LOST = redis.RedisError

    def __init__(
        self,
        address: Callable[[str], tuple[str, int]],
        gate: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        super().__init__(address, gate)
        self._settings: dict[str, dict[str, str]] = {}
        self._counted: dict[str, tuple[int, int]] = {}
        """By host what was last read of a flood that is up: keys evicted, and entries left."""

    def _fill(self, host: str) -> Facts:
        with self._client(host) as client:
            return self._filled(host, client)

    def _risen(self, host: str) -> bool:
        return host in self._settings

    def _undo(self, host: str) -> None:
        with self._client(host) as client:
            _remove_entries(client)
            for name, value in self._settings.get(host, {}).items():
                client.config_set(name, value)

    def _forget(self, host: str) -> None:
        self._settings.pop(host, None)
        self._counted.pop(host, None)

    def _left(self, host: str) -> bool:
        if host in self._settings:
            return True
        with self._client(host) as client:
            return next(client.scan_iter(f"{PREFIX}*", 1000), None) is not None

    def _filled(self, host: str, client: redis.Redis) -> Facts:
        if not self._is_wanted(host):
            return {"evicted": 0, "others": 0}
        with self._lock:
            before = self._settings.get(host)
        if before is None:
            found: Any = client.config_get(*SETTINGS)
            with self._lock:
                self._settings.setdefault(host, {name: _text(found[name]) for name in SETTINGS})
        info = _info(client)
        evicted, entries = self._counted.get(host, (info["evicted_keys"], _entries(info)))
        removed = _remove_entries(client)
        info = _info(client)
        # By a flood before, which is still up: also what went while its own entries were removed.
        already = info["evicted_keys"] - evicted - (entries - removed)
        evicted_before = info["evicted_keys"] - already
        keys, victims = _keys(info)
        facts: Facts = {"entries": 0, "evicted": already, "others": already, "keys_before": keys, "keys_after": keys}
        enough = already + victims if already else max(1, victims)
        client.config_set("maxmemory-policy", POLICY)
        client.config_set("maxmemory", info["used_memory"] + ROOM)
        began = time.monotonic()
        for first in itertools.count(0, BATCH):
            if not self._is_wanted(host) or facts["others"] >= enough:
                break
            if first >= MOST and (not victims or time.monotonic() - began > TICK):
                break
            facts["entries"] += _write(client, range(first, first + BATCH))
            info = _info(client)  # one moment's: what comes and goes between two questions would be miscounted
            facts["evicted"] = info["evicted_keys"] - evicted_before
            facts["others"] = facts["evicted"] - (facts["entries"] - _entries(info))
            facts["keys_after"], _ = _keys(info)
        self._counted[host] = info["evicted_keys"], _entries(info)
        return facts

    @contextmanager
    def _client(self, host: str) -> Iterator[redis.Redis]:
        address, port = self._address(host)
        retry = Retry(NoBackoff(), 0)
        client = redis.Redis(
            host=address, port=port, db=DATABASE, socket_timeout=ASK, socket_connect_timeout=ASK, retry=retry
        )
        with self._gate(), closing(client):
            yield client


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _info(client: redis.Redis) -> dict[str, Any]:
    found: Any = client.info()
    return dict(found)


def _entries(info: dict[str, Any]) -> int:
    """How many of the flood's are there."""
    found = info.get(f"db{DATABASE}", {"keys": 0})
    return int(found["keys"])


def _keys(info: dict[str, Any]) -> tuple[int, int]:
    """Keys that are not the flood's, and those of them that may be evicted: the policy takes only what expires."""
    others = [found for name, found in info.items() if name.startswith("db") and name != f"db{DATABASE}"]
    return sum(found["keys"] for found in others), sum(found["expires"] for found in others)


def _write(client: redis.Redis, numbers: range) -> int:
    """How many entries were taken: a server without memory refuses some."""
    pipe = client.pipeline(transaction=False)
    for number in numbers:
        pipe.set(f"{PREFIX}{number}", ENTRY, ex=LIFE)
    return sum(done is True for done in pipe.execute(raise_on_error=False))


def _remove_entries(client: redis.Redis) -> int:
    """How many there were."""
    names = list(client.scan_iter(f"{PREFIX}*", 1000))
    removed: Any = client.delete(*names) if names else 0
    return int(removed)
