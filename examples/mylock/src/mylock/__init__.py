"""Two locks on one Redis: a naive one, and one with owner tokens and fencing tokens."""

from __future__ import annotations

import time
import uuid
from typing import Final

import redis

POLL_S: Final = 0.05

LOCK_AND_COUNT: Final = """
if redis.call("set", KEYS[1], ARGV[1], "NX", "PX", ARGV[2]) then
    return redis.call("incr", KEYS[2])
end
return false
"""
UNLOCK: Final = """
if redis.call("get", KEYS[1]) == ARGV[1] then
    return redis.call("del", KEYS[1])
end
return 0
"""


class NotOwned(Exception):
    """The lock was not released, because the caller does not hold it."""


class NaiveLock:
    """``SET NX PX`` and ``DEL``. The key does not name its owner, so any client can release the lock."""

    def __init__(self, redis: redis.Redis, key: str, ttl: float) -> None:
        self.redis = redis
        self.key = key
        self.ttl_ms = int(ttl * 1000)

    def acquire(self, timeout: float) -> bool:
        """Wait for the lock for up to ``timeout`` seconds. Return False if it was not acquired."""
        deadline = time.monotonic() + timeout
        while not self.redis.set(self.key, "locked", nx=True, px=self.ttl_ms):
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_S)
        return True

    def release(self) -> None:
        self.redis.delete(self.key)


class FencedLock:
    """A lock that only its owner can release, with a fencing token for each grant.

    A lease can expire without its holder knowing. So each grant has a fencing token, ``fence``, larger than all before
    it. Send it with each write, and let the store refuse a token below the highest that it has seen.
    """

    def __init__(self, redis: redis.Redis, key: str, ttl: float) -> None:
        self.key = key
        self.ttl_ms = int(ttl * 1000)
        self.fence = 0
        self._token = ""
        self._lock_and_count = redis.register_script(LOCK_AND_COUNT)
        self._unlock = redis.register_script(UNLOCK)

    def acquire(self, timeout: float) -> bool:
        """Wait for the lock for up to ``timeout`` seconds. Return False if it was not acquired."""
        deadline = time.monotonic() + timeout
        while not self._try():
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_S)
        return True

    def release(self) -> None:
        """Release the lock. Raise NotOwned if the caller no longer holds it."""
        if not self._unlock(keys=[self.key], args=[self._token]):
            raise NotOwned(self.key)

    def _try(self) -> bool:
        token = uuid.uuid4().hex
        fence = self._lock_and_count(keys=[self.key, f"{self.key}:fence"], args=[token, self.ttl_ms])
        if fence is None:
            return False
        self._token, self.fence = token, int(fence)
        return True
