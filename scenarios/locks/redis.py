"""Locks on one Redis with documented mistakes, one class for each, for scenarios; some classes are the cures."""

from __future__ import annotations

import time
import uuid
from typing import ClassVar

from harness.lock_impls.base import Grant
from harness.lock_impls.origins import mistake, model_of
from harness.lock_impls.redis_getset import GetsetLock
from harness.lock_impls.redis_token import RedisTokenLock
from harness.lock_impls.redis_wait import WaitLock


class RandomTokenFence(RedisTokenLock):
    """random-token-cas: the owner's random value is the only token that it can give to the resource."""

    origin: ClassVar = mistake("a random value as the only fencing token", "antirez, 'Is Redlock safe?', 2016")
    kinds = ("redis-single", "redis-cluster")

    def try_lock(self) -> Grant | None:
        grant = super().try_lock()
        return None if grant is None else Grant(fence=self.token, valid_for=grant.valid_for)


class WallClockDeadline(RedisTokenLock):
    """clock-local-deadline: the holder computes its deadline in wall-clock time."""

    origin: ClassVar = model_of(
        "the deadline in wall-clock time", "redlock-py", "1.0.8", "redlock/__init__.py, lines 100 and 108"
    )
    kinds = ("redis-single",)
    until = 0.0

    def try_lock(self) -> Grant | None:
        grant = super().try_lock()
        self.until = time.time() + self.ttl
        return grant

    def still_valid(self) -> bool:
        return time.time() < self.until


class GetsetByValue(GetsetLock):
    """getset-loser-extends: unlocks only if the timestamp is its own, but the GETSET of a losing contender has
    changed it."""

    origin: ClassVar = mistake(
        "an unlock that compares a timestamp which losing contenders overwrite",
        "the Redis documentation of SETNX; article 004",
    )
    kinds = ("redis-single",)

    def unlock(self) -> bool:
        if self.client.get(self.key) != repr(self.deadline):
            return False
        return super().unlock()


class DelTakeover(GetsetLock):
    """setnx-del-takeover: takes over an expired lock by DEL and SETNX."""

    origin: ClassVar = mistake("a takeover by DEL and SETNX", "the Redis documentation of SETNX, which warns of it")
    kinds = ("redis-single",)

    def _take_over(self, deadline: str) -> bool:
        seen = self.client.get(self.key)
        if seen is None or float(seen) >= time.time():
            return False
        self.client.delete(self.key)
        return bool(self.client.setnx(self.key, deadline))


class Seed002(GetsetLock):
    """seed002-compare: article 002 as printed, which compares the *new* time with what GETSET returned."""

    origin: ClassVar = mistake("the lock as article 002 prints it", "article 002")
    kinds = ("redis-single",)

    def _take_over(self, deadline: str) -> bool:
        seen = self.client.get(self.key)
        if seen is None or float(seen) >= time.time():
            return False
        return bool(self.client.getset(self.key, deadline) == deadline)


class Seed004(GetsetLock):
    """seed004-unlock: article 004 as printed, whose unlock deletes the key only if it has expired."""

    origin: ClassVar = mistake("the unlock as article 004 prints it", "article 004")
    kinds = ("redis-single",)

    def unlock(self) -> bool:
        stamp = self.client.get(self.key)
        if stamp is not None and float(stamp) < time.time():
            self.client.delete(self.key)
        return True


class StoresProgress(RedisTokenLock):
    """set-drops-ttl: stores its progress in the lock's value with a plain SET, which removes the expiry."""

    origin: ClassVar = mistake(
        "a plain SET of the holder's value, which drops the expiry", "the Redis documentation of SET (KEEPTTL)"
    )
    kinds = ("redis-single",)
    keep_ttl = False

    def try_lock(self) -> Grant | None:
        grant = super().try_lock()
        if grant is not None:
            self.client.set(self.key, self.token, keepttl=self.keep_ttl)
        return grant


class StoresProgressKeepsTtl(StoresProgress):
    """set-drops-ttl, cured with KEEPTTL."""

    origin: ClassVar = StoresProgress.origin.fixed("SET with KEEPTTL")
    keep_ttl = True


class FillsMemory(RedisTokenLock):
    """redis-oom: not the lock's mistake; its application writes to the same server, and never deletes."""

    origin: ClassVar = mistake(
        "an application that fills the memory of its lock server", "the Redis documentation, 'Key eviction'"
    )
    kinds = ("redis-single",)
    written = 0

    def try_lock(self) -> Grant | None:
        grant = super().try_lock()
        if grant is not None:
            self.written += 1
            self.client.set(f"data:{self.token}:{self.written}", b"x" * 100_000)
        return grant


class IgnoresWait(WaitLock):
    """redis-wait-ignored: calls WAIT, and ignores its answer."""

    origin: ClassVar = mistake("an answer of WAIT that is ignored", "the Redis documentation of WAIT")
    kinds = ("redis-sentinel",)

    def try_lock(self) -> Grant | None:
        token = uuid.uuid4().hex
        if not self.client.set(self.key, token, nx=True, px=self.ttl_ms):
            return None
        self.client.wait(self.numreplicas, self.wait_ms)
        self.token = token
        return Grant(valid_for=self.ttl)
