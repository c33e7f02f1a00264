"""Redlock clients in other languages or old versions, imitated command for command on redis-py.

The scenarios use one node, as many users do, except where the vote matters.
"""

from __future__ import annotations

import threading
import time
import uuid
from typing import ClassVar, Final

import redis

from harness.lock_impls.base import Grant
from harness.lock_impls.origins import model_of
from harness.lock_impls.redis_client import COMPARE_AND_DELETE, COMPARE_AND_EXPIRE, RedisClient, RedisLock
from harness.lock_impls.redis_token import RedisTokenLock
from harness.lock_impls.redlock import Redlock

from .redis_py import overrun

EXPIRE_OR_SET_NX: Final = """
if redis.call("get", KEYS[1]) == ARGV[1] then
    return redis.call("pexpire", KEYS[1], ARGV[2])
elseif redis.call("set", KEYS[1], ARGV[1], "PX", ARGV[2], "NX") then
    return 1
end
return 0
"""

EXPIRE_OR_SET: Final = """
local current = redis.call("get", KEYS[1])
if current == false then
    redis.call("set", KEYS[1], ARGV[1], "PX", ARGV[2])
    return 1
elseif current == ARGV[1] then
    redis.call("pexpire", KEYS[1], ARGV[2])
    return 1
end
return -1
"""


REDSYNC: Final = model_of("Extend with WithSetNXOnExtend", "redsync", "4.17.0", "mutex.go, line 259")


class ExtendsBeforeWrite(RedisTokenLock):
    """redsync-extend, cured: to check whether it still holds the lock it extends the lock on the server; a key that
    is gone means a lost lock."""

    origin: ClassVar = REDSYNC.fixed("an extension never sets the key")
    kinds: ClassVar = ("redis-single",)

    def still_valid(self) -> bool:
        return self.extend()


class RedsyncSetNxOnExtend(ExtendsBeforeWrite):
    """redsync-extend: go-redsync with ``WithSetNXOnExtend``, whose Extend sets the key again if it is missing. So an
    expired lock is "extended" even if another client held it in between (go-redsync/redsync#71, #72, #147, #149)."""

    origin: ClassVar = REDSYNC

    def __init__(self, client: RedisClient, key: str, ttl: float) -> None:
        super().__init__(client, key, ttl)
        self._expire_own = client.register_script(EXPIRE_OR_SET_NX)


class ContinueLock(RedisTokenLock):
    """rlcpp-seconds: redlock-cpp's ContinueLock, with which a program continues a lock that it holds, is a deletion
    and a new SET NX: a client that comes between the two gets the lock."""

    origin: ClassVar = model_of("ContinueLock", "redlock-cpp", "of commit f9f5618", "redlock-cpp/redlock.cpp, line 86")
    kinds: ClassVar = ("redis-single",)

    def still_valid(self) -> bool:
        self._delete_own(keys=[self.key], args=[self.token])
        return self.try_lock() is not None


REDLOCK_NET: Final = model_of(
    "the automatic extension", "RedLock.net", "2.3.2", "RedLockNet.SERedis/Lua/Extend.lua, line 3"
)


class AutoExtended(RedisLock):
    """extend-aba, cured: a timer extends the lock every half of its ttl, if its key is still there, and a flag tells
    whether the last extension succeeded."""

    origin: ClassVar = REDLOCK_NET.fixed("an extension never sets the key")
    kinds: ClassVar = ("redis-single",)
    extension: ClassVar[str] = COMPARE_AND_EXPIRE
    waits_for_timer: ClassVar = True
    token = ""
    acquired = False

    def try_lock(self) -> Grant | None:
        token, ended = uuid.uuid4().hex, threading.Event()
        if not self.client.set(self.key, token, nx=True, px=self.ttl_ms):
            return None
        self.token, self.acquired, self._ended = token, True, ended
        self._timer = threading.Thread(target=self._extend_again, args=(token, ended), daemon=True)
        self._timer.start()
        return Grant()

    def still_valid(self) -> bool:
        return self.acquired

    def unlock(self) -> bool:
        self._ended.set()
        if self.waits_for_timer:
            self._timer.join()
        self.acquired = False
        return bool(self.client.eval(COMPARE_AND_DELETE, 1, self.key, self.token))

    def _extend_again(self, token: str, ended: threading.Event) -> None:
        while not ended.wait(self.ttl / 2):
            try:
                extended = self.client.eval(self.extension, 1, self.key, token, str(self.ttl_ms)) == 1
            except redis.RedisError:
                extended = False
            if self.token == token:
                self.acquired = extended and not ended.is_set()


class RedLockNet(AutoExtended):
    """extend-aba: RedLock.net and redlock-rb extend with a script that sets the key if nobody has it. A late timer
    "extends" a lock that another client has held and released meanwhile (samcook/RedLock.net#48, #93)."""

    origin: ClassVar = REDLOCK_NET
    extension: ClassVar[str] = EXPIRE_OR_SET


class RedLockNet22(RedLockNet):
    """extend-vs-dispose: RedLock.net 2.2.0 stops its timer without waiting for an extension that is under way. That
    extension sets the key again after the release (samcook/RedLock.net, pull request 64)."""

    origin: ClassVar = model_of("Dispose", "RedLock.net", "2.2.0", "RedLockNet.SERedis/RedLock.cs, line 571")
    waits_for_timer: ClassVar = False


class RedlockNgExtends(Redlock):
    """rlng-valid: a program asks redlock-ng 2.0.4 for one more second as soon as it has the lock. ``extend(1000)``
    replaces the remaining time by a second, and ``valid`` stays True until the lock is released."""

    origin: ClassVar = model_of("extend", "redlock-ng", "2.0.4", "redlock/lock.py, line 105")
    more_s: ClassVar = 1.0
    adds: ClassVar = False
    valid = False

    def __init__(self, nodes: list[RedisClient], key: str, ttl: float) -> None:
        super().__init__(nodes, key, ttl)
        self._expire_own = nodes[0].register_script(COMPARE_AND_EXPIRE)

    def acquire(self, timeout: float) -> Grant | None:
        grant = super().acquire(timeout)
        if grant is None or grant.valid_for is None:
            return None
        self.valid, began = True, time.monotonic()
        milliseconds = round((self.more_s + (self.ttl if self.adds else 0)) * 1000)
        for node in self.nodes:
            self._expire_own(keys=[self.key], args=[self.value, milliseconds], client=node)
        return Grant(valid_for=grant.valid_for + self.more_s - (time.monotonic() - began))

    def still_valid(self) -> bool:
        return self.valid

    def release(self) -> None:
        self.valid = False
        super().release()


class RedlockNgExtendsByAdding(RedlockNgExtends):
    """rlng-valid, cured: an extension adds to the remaining time, as the parameter's name (``additional_ttl``) says."""

    origin: ClassVar = RedlockNgExtends.origin.fixed("an extension adds to the remaining time")
    adds: ClassVar = True


class Aioredlock(RedisLock):
    """aiorl-watchdog: aioredlock 0.7.3 stores its watchdogs by the name of the resource.

    During the first acquire another task of the program holds the lock, with its own time-out and without a watchdog.
    It is late, and its unlock stops the watchdog of the newer lock, which still reports itself as valid.
    """

    origin: ClassVar = model_of("unlock", "aioredlock", "0.7.3", "aioredlock/algorithm.py, line 190")
    kinds: ClassVar = ("redis-single",)
    by_resource: ClassVar = True
    _other: threading.Thread | None = None

    def __init__(self, client: RedisClient, key: str, ttl: float) -> None:
        super().__init__(client, key, ttl)
        self._watchdogs: dict[str, threading.Event] = {}
        self.token = ""

    def acquire(self, timeout: float) -> Grant | None:
        if self._other is None:
            self._other = overrun(lambda: self._set(uuid.uuid4().hex), self._unlock_late, self.ttl)
        return super().acquire(timeout)

    def try_lock(self) -> Grant | None:
        token = self._set(uuid.uuid4().hex)
        if token is None:
            return None
        self.token = token
        ended = self._watchdogs[self._named(token)] = threading.Event()
        threading.Thread(target=self._watch, args=(token, ended), daemon=True).start()
        return Grant()

    def still_valid(self) -> bool:
        return bool(self.token)

    def unlock(self) -> bool:
        token, self.token = self.token, ""
        return self._unlock(token)

    def _set(self, token: str) -> str | None:
        return token if self.client.set(self.key, token, nx=True, px=self.ttl_ms) else None

    def _named(self, token: str) -> str:
        return self.key if self.by_resource else token

    def _unlock(self, token: str) -> bool:
        watchdog = self._watchdogs.pop(self._named(token), None)
        if watchdog is not None:
            watchdog.set()
        return bool(self.client.eval(COMPARE_AND_DELETE, 1, self.key, token))

    def _unlock_late(self, token: str) -> None:
        self._unlock(token)

    def _watch(self, token: str, ended: threading.Event) -> None:
        while not ended.wait(0.6 * self.ttl):
            self.client.eval(COMPARE_AND_EXPIRE, 1, self.key, token, str(self.ttl_ms))


class AioredlockByLock(Aioredlock):
    """aiorl-watchdog, cured: a watchdog belongs to a lock, not to a name."""

    origin: ClassVar = Aioredlock.origin.fixed("a watchdog belongs to a lock, not to a name")
    by_resource: ClassVar = False
