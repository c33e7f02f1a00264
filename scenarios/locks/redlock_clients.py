"""Redlock clients in other languages, imitated command for command on redis-py.

The scenarios use one node, as many users do.
"""

from __future__ import annotations

import threading
import uuid
from typing import ClassVar, Final

import redis

from harness.lock_impls.base import Grant
from harness.lock_impls.origins import model_of
from harness.lock_impls.redis_client import COMPARE_AND_DELETE, COMPARE_AND_EXPIRE, RedisClient, RedisLock
from harness.lock_impls.redis_token import RedisTokenLock

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
