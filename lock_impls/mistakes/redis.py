"""Locks on one Redis that are wrong on purpose: each is one documented mistake, and the scenarios must notice it."""

from __future__ import annotations

import time
import uuid

from lock_impls.base import Grant
from lock_impls.redis_getset import GetsetLock
from lock_impls.redis_token import TokenLock
from lock_impls.redis_wait import WaitLock


class RandomTokenFence(TokenLock):
    """random-token-cas: the owner's random value is all there is to give to the resource."""

    kinds = ("redis-single",)

    def try_lock(self) -> Grant | None:
        grant = super().try_lock()
        return None if grant is None else Grant(fence=self.token, valid_for=grant.valid_for)


class WallClockDeadline(TokenLock):
    """clock-local-deadline: the holder's own idea of its deadline is in wall-clock time."""

    kinds = ("redis-single",)
    until = 0.0

    def try_lock(self) -> Grant | None:
        grant = super().try_lock()
        self.until = time.time() + self.ttl
        return grant

    def still_valid(self) -> bool:
        return time.time() < self.until


class GetsetByValue(GetsetLock):
    """getset-loser-extends: unlocks only if the timestamp is still its own, and a loser's GETSET has changed it."""

    kinds = ("redis-single",)

    def unlock(self) -> bool:
        if self.client.get(self.key) != repr(self.deadline):
            return False
        return super().unlock()


class DelTakeover(GetsetLock):
    """setnx-del-takeover: takes an expired lock over by DEL and SETNX."""

    kinds = ("redis-single",)

    def _take_over(self, deadline: str) -> bool:
        seen = self.client.get(self.key)
        if seen is None or float(seen) >= time.time():
            return False
        self.client.delete(self.key)
        return bool(self.client.setnx(self.key, deadline))


class Seed002(GetsetLock):
    """seed002-compare: article 002 as printed, which compares the *new* time with what GETSET returned."""

    kinds = ("redis-single",)

    def _take_over(self, deadline: str) -> bool:
        seen = self.client.get(self.key)
        if seen is None or float(seen) >= time.time():
            return False
        return bool(self.client.getset(self.key, deadline) == deadline)


class Seed004(GetsetLock):
    """seed004-unlock: article 004 as printed, whose unlock deletes the key only if it has expired."""

    kinds = ("redis-single",)

    def unlock(self) -> bool:
        stamp = self.client.get(self.key)
        if stamp is not None and float(stamp) < time.time():
            self.client.delete(self.key)
        return True


class NotesProgress(TokenLock):
    """set-drops-ttl: writes down in the lock's value how far it has come, with a plain SET."""

    kinds = ("redis-single",)
    keep_ttl = False

    def try_lock(self) -> Grant | None:
        grant = super().try_lock()
        if grant is not None:
            self.client.set(self.key, self.token, keepttl=self.keep_ttl)
        return grant


class NotesProgressKeepsTtl(NotesProgress):
    """set-drops-ttl, cured."""

    keep_ttl = True


class FillsMemory(TokenLock):
    """redis-oom: not the lock's mistake; its application writes to the same server, and never deletes."""

    kinds = ("redis-single",)
    written = 0

    def try_lock(self) -> Grant | None:
        grant = super().try_lock()
        if grant is not None:
            self.written += 1
            self.client.set(f"data:{self.token}:{self.written}", b"x" * 100_000)
        return grant


class IgnoresWait(WaitLock):
    """redis-wait-ignored: calls WAIT, and does not look at its answer."""

    kinds = ("redis-sentinel",)

    def try_lock(self) -> Grant | None:
        token = uuid.uuid4().hex
        if not self.client.set(self.key, token, nx=True, px=self.ttl_ms):
            return None
        self.client.wait(self.numreplicas, self.wait_ms)
        self.token = token
        return Grant(valid_for=self.ttl)
