"""Redis' maxmemory: an estimate of the bytes in use, and the choice of keys to evict.

Source: https://redis.io/docs/latest/develop/reference/eviction/. Sizes are estimates near those of jemalloc. Eviction
takes the best of ``maxmemory-samples`` random keys. Not simulated: the pool of candidates that Redis keeps between two
evictions, and the decay of LFU counters.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from .keyspace import Database
from .values import size_of

BASE_BYTES = 876_160
KEY_BYTES = 72
EXPIRY_BYTES = 32

Where = tuple[Database, bytes]


def key_bytes(db: Database, key: bytes) -> int:
    """Estimate the bytes that a key and its value use."""
    extra = EXPIRY_BYTES if key in db.expires else 0
    return KEY_BYTES + len(key) + size_of(db.data[key]) + extra


def total_bytes(databases: list[Database]) -> int:
    """Estimate the bytes that a server with these databases uses."""
    return BASE_BYTES + sum(key_bytes(db, key) for db in databases for key in db.data)


class KeyPool:
    """A set of keys from which a random one can be drawn in constant time."""

    def __init__(self) -> None:
        self.keys: list[Where] = []
        self.position: dict[tuple[int, bytes], int] = {}

    def add(self, db: Database, key: bytes) -> None:
        if (db.index, key) not in self.position:
            self.position[db.index, key] = len(self.keys)
            self.keys.append((db, key))

    def discard(self, db: Database, key: bytes) -> None:
        at = self.position.pop((db.index, key), None)
        if at is None:
            return
        last = self.keys.pop()
        if at < len(self.keys):
            self.keys[at] = last
            self.position[last[0].index, last[1]] = at


class Memory:
    """Size and access times of all keys. It exists only while maxmemory is set, so other servers do not pay for it."""

    def __init__(self, databases: list[Database], now_ms: Callable[[], int]) -> None:
        self.now_ms = now_ms
        self.used = BASE_BYTES
        self.sizes: dict[tuple[int, bytes], int] = {}
        self.last_access: dict[tuple[int, bytes], int] = {}
        self.accesses: dict[tuple[int, bytes], int] = {}
        self.all_keys = KeyPool()
        self.volatile = KeyPool()
        for db in databases:
            for key in db.data:
                self.changed(db, key)

    def accessed(self, db: Database, key: bytes) -> None:
        """Record an access, for LRU and LFU eviction."""
        where = (db.index, key)
        if where in self.sizes:
            self.last_access[where] = self.now_ms()
            self.accesses[where] = self.accesses.get(where, 5) + 1

    def changed(self, db: Database, key: bytes) -> None:
        """Update the size of a key that was set, changed or deleted."""
        where = (db.index, key)
        if key not in db.data:
            self._drop(db, key)
            return
        size = key_bytes(db, key)
        self.used += size - self.sizes.get(where, 0)
        self.sizes[where] = size
        self.all_keys.add(db, key)
        (self.volatile.add if key in db.expires else self.volatile.discard)(db, key)
        self.accessed(db, key)

    def _drop(self, db: Database, key: bytes) -> None:
        where = (db.index, key)
        self.used -= self.sizes.pop(where, 0)
        self.last_access.pop(where, None)
        self.accesses.pop(where, None)
        self.all_keys.discard(db, key)
        self.volatile.discard(db, key)

    def victim(self, policy: str, samples: int, rng: Random) -> Where | None:
        """Return the key to evict next, or None if the policy allows none."""
        scope, _, how = policy.partition("-")
        pool = (self.all_keys if scope == "allkeys" else self.volatile).keys
        if not how or not pool:
            return None
        drawn = [pool[rng.randrange(len(pool))] for _ in range(1 if how == "random" else samples)]
        return min(drawn, key=lambda where: self._eviction_score(how, *where))

    def _eviction_score(self, how: str, db: Database, key: bytes) -> int:
        if how == "ttl":
            return db.expires[key]
        return (self.accesses if how == "lfu" else self.last_access).get((db.index, key), 0)
