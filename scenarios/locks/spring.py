"""Spring Integration's RedisLockRegistry (Java), imitated command for command on redis-py: the simulated twins of the
scenarios spring-unlock.java and spring-unlock.unlink.java, which run the library itself.

It takes two locks in a row: one inside the program, for its threads, and one key of Redis, whose owner is the program.
A scenario's clients call from one thread and stand for two threads of a program, so the program's lock is not taken
twice.
"""

from __future__ import annotations

import threading
import time
import uuid
from typing import Any, ClassVar, Final, Self

from harness.lock_impls.base import Endpoints, Grant
from harness.lock_impls.origins import model_of
from harness.lock_impls.redis_client import COMPARE_AND_DELETE, OPTIONS, RedisClient, RedisLock, open_client

OBTAIN: Final = """
local owner = redis.call("get", KEYS[1])
if owner == ARGV[1] then
    redis.call("pexpire", KEYS[1], ARGV[2])
    return 1
elseif not owner then
    redis.call("set", KEYS[1], ARGV[1], "PX", ARGV[2])
    return 1
end
return 0
"""

COMPARE_AND_UNLINK: Final = COMPARE_AND_DELETE.replace('"del"', '"UNLINK"')


class SpringLock(RedisLock):
    """spring-unlock: if the key has expired, unlock raises an error before it releases the program's own lock, so no
    other thread of the program ever gets it (spring-projects/spring-integration#1888)."""

    origin: ClassVar = model_of(
        "the unlock of RedisLockRegistry", "Spring Integration", "4.3.1", "RedisLockRegistry.java, line 484"
    )
    kinds: ClassVar = ("redis-single",)
    keeps_local: ClassVar = True
    in_one_step: ClassVar = True

    def __init__(self, client: RedisClient, key: str, ttl: float) -> None:
        super().__init__(client, key, ttl)
        self.owner = uuid.uuid4().hex
        self._local = threading.Lock()

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float, **options: Any) -> Self:
        # Spring's client waits a minute for an answer.
        return cls(open_client(endpoints, **{**OPTIONS, "socket_timeout": 60.0}), key, ttl, **options)

    def acquire(self, timeout: float) -> Grant | None:
        until = time.monotonic() + timeout
        if not self._local.acquire(timeout=timeout):
            return None
        grant = None
        try:
            grant = super().acquire(max(0.0, until - time.monotonic()))
        finally:
            if grant is None:
                self._local.release()
        return grant

    def try_lock(self) -> Grant | None:
        began = time.monotonic()
        obtained = self.client.eval(OBTAIN, 1, self.key, self.owner, str(self.ttl_ms))
        return Grant(valid_for=self.remaining(began)) if obtained else None

    def unlock(self) -> bool:
        unlocked = False
        try:
            unlocked = self._unlock_key()
        finally:
            if unlocked or not self.keeps_local:
                self._local.release()
        return unlocked

    def _unlock_key(self) -> bool:
        if self.in_one_step:
            return bool(self.client.eval(COMPARE_AND_DELETE, 1, self.key, self.owner))
        # isAcquiredInThisProcess(), and then removeLockKey()
        return self.client.get(self.key) == self.owner and self._unlink()

    def _unlink(self) -> bool:
        """Remove the key, even if another client owns it by now."""
        return bool(self.client.unlink(self.key))


class SpringUnlinks(SpringLock):
    """spring-unlock: unlock checks whether the key is its own, and then unlinks whatever is there, in two
    commands (spring-projects/spring-integration#8699)."""

    origin: ClassVar = model_of(
        "the unlock of RedisLockRegistry", "Spring Integration", "5.4.12", "RedisLockRegistry.java, lines 305 and 332"
    )
    keeps_local: ClassVar = False
    in_one_step: ClassVar = False


class SpringUnlinksItsOwn(SpringUnlinks):
    """spring-unlock.unlink, cured as by spring-projects/spring-integration#8699: a script compares the owner before it
    unlinks."""

    origin: ClassVar = SpringUnlinks.origin.fixed("a script compares the owner before it unlinks (#8699)")

    def _unlink(self) -> bool:
        return bool(self.client.eval(COMPARE_AND_UNLINK, 1, self.key, self.owner))


class SpringReleasesBoth(SpringLock):
    """spring-unlock, cured: a script compares and deletes the key, and the program's own lock is released in any
    case."""

    origin: ClassVar = SpringLock.origin.fixed("the program's own lock is released in any case")
    keeps_local: ClassVar = False
