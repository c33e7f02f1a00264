"""Memory pressure on a Redis: entries of a cache that is none of the lock's business push out the keys that are.

The same on all backends: it is done with redis-py from the control side, which no fault cuts off.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from typing import Any, Final

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

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


class Floods:
    """Floods of servers; ``address`` is asked where a host's server is, and ``gate`` each time before it is dialled.
    Nothing is asked of a server under the lock."""

    def __init__(
        self,
        address: Callable[[str], tuple[str, int]],
        gate: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._address = address
        self._gate = gate
        self._wanted: Counter[str] = Counter()
        self._rising: set[str] = set()
        self._settings: dict[str, dict[str, str]] = {}
        self._lock = threading.Lock()

    def flood(self, host: str) -> Facts:
        """See :meth:`harness.clusters.base.Cluster.flood`. Facts: ``entries`` written, ``evicted`` keys in all,
        ``others``: those that were not the flood's own, and how many keys there were ``keys_before`` and
        ``keys_after``, without the flood's; ``error`` if the server does not do it."""
        with self._lock:
            self._wanted[host] += 1
        while not self._begins(host):
            time.sleep(0.01)
        try:
            with self._client(host) as client:
                return self._fill(host, client)
        except redis.RedisError as error:
            return {"evicted": 0, "others": 0, "error": str(error)}
        finally:
            with self._lock:
                self._rising.discard(host)
            self._ebb(host)

    def _begins(self, host: str) -> bool:
        """One after the other on a host, or they would take each other's entries for somebody's keys."""
        with self._lock:
            free = host not in self._rising
            self._rising.add(host)
        return free

    def drain(self, host: str) -> None:
        with self._lock:
            self._wanted[host] -= 1  # below 0 if its flood has not begun yet, which then does not rise
        self._ebb(host)

    def flooded(self, host: str) -> bool | None:
        with self._lock:
            rising = host in self._rising
        if rising:
            return True
        self._ebb(host)
        if host in self._settings:
            return True
        try:
            with self._client(host) as client:
                return next(client.scan_iter(f"{PREFIX}*", 1000), None) is not None
        except redis.RedisError:
            return None

    def _fill(self, host: str, client: redis.Redis) -> Facts:
        if not self._is_wanted(host):
            return {"evicted": 0, "others": 0}
        with self._lock:
            before = self._settings.get(host)
        if before is None:
            found: Any = client.config_get(*SETTINGS)
            with self._lock:
                self._settings.setdefault(host, {name: _text(found[name]) for name in SETTINGS})
        _remove_entries(client)  # of a flood before, which is not drained yet
        info = _info(client)
        keys, victims = _keys(info)
        evicted_before = info["evicted_keys"]
        facts: Facts = {"entries": 0, "evicted": 0, "others": 0, "keys_before": keys, "keys_after": keys}
        client.config_set("maxmemory-policy", POLICY)
        client.config_set("maxmemory", info["used_memory"] + ROOM)
        began = time.monotonic()
        for first in itertools.count(0, BATCH):
            if not self._is_wanted(host) or facts["others"] >= max(1, victims):
                break
            if first >= MOST and (not victims or time.monotonic() - began > TICK):
                break
            facts["entries"] += _write(client, range(first, first + BATCH))
            info = _info(client)  # one moment's: what comes and goes between two questions would be miscounted
            left = info.get(f"db{DATABASE}", {"keys": 0})["keys"]
            facts["evicted"] = info["evicted_keys"] - evicted_before
            facts["others"] = facts["evicted"] - (facts["entries"] - left)
            facts["keys_after"], _ = _keys(info)
        return facts

    def _is_wanted(self, host: str) -> bool:
        with self._lock:
            return self._wanted[host] > 0

    def _ebb(self, host: str) -> None:
        """Undo, if nobody wants the flood and nobody is about to add to it. What the server does not answer to is left
        for the next time."""
        with self._lock:
            settings = self._settings.get(host)
            if settings is None or self._wanted[host] > 0 or host in self._rising:
                return
        try:
            with self._client(host) as client:
                _remove_entries(client)
                for name, value in settings.items():
                    client.config_set(name, value)
        except redis.RedisError:
            return
        with self._lock:
            if self._wanted[host] <= 0:
                self._settings.pop(host, None)

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


def _remove_entries(client: redis.Redis) -> None:
    names = list(client.scan_iter(f"{PREFIX}*", 1000))
    if names:
        client.delete(*names)
