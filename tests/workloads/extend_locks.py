"""A lock whose holder can extend it, and wrong ones, plain and with coroutines."""

from __future__ import annotations

from typing import Any

from tests.workloads.context_locks import AsyncLock, NotAcquired
from tests.workloads.context_locks import Lock as ContextLock

OWN = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) else return 0 end"


class Lock(ContextLock):
    """A right lock: ``extend`` prolongs the lease of its own token, and raises if that is gone."""

    @property
    def ttl_ms(self) -> int:
        return int(self.ttl * 1000)

    def extend(self) -> None:
        if not self.redis.eval(OWN, 1, self.key, self.token, self.ttl_ms):
            raise NotAcquired(self.key)


class ExtendsAnyKey(Lock):
    """``extend`` prolongs the key of whoever holds it."""

    def extend(self) -> None:
        if not self.redis.pexpire(self.key, self.ttl_ms):
            raise NotAcquired(self.key)


class TakesTheKeyBack(Lock):
    """``extend`` writes the key whatever it is, so it revives a lease that has ended."""

    def extend(self) -> None:
        self.redis.set(self.key, self.token, px=self.ttl_ms)


class SetsAFreeKey(Lock):
    """``extend`` writes the key if it is free, although another client may have held it in between."""

    def extend(self) -> None:
        if not self.redis.set(self.key, self.token, nx=True, px=self.ttl_ms):
            super().extend()


class HidesTheLoss(Lock):
    """``extend`` says nothing if the lock is lost."""

    def extend(self) -> None:
        self.redis.eval(OWN, 1, self.key, self.token, self.ttl_ms)


class ProlongsNothing(Lock):
    """``extend`` only looks for the key."""

    def extend(self) -> None:
        if self.redis.get(self.key) != self.token.encode():
            raise NotAcquired(self.key)


class NeverExtends(Lock):
    """``extend`` compares the token with the wrong type, so it always says that the lock is lost."""

    def extend(self) -> None:
        if self.redis.get(self.key) != self.token:
            raise NotAcquired(self.key)


class AsyncExtends(AsyncLock):
    """A right lock with coroutines."""

    async def extend(self) -> None:
        if not await self.redis.eval(OWN, 1, self.key, self.token, int(self.ttl * 1000)):
            raise NotAcquired(self.key)


class AsyncHidesTheLoss(AsyncLock):
    """``extend`` says nothing if the lock is lost."""

    async def extend(self) -> None:
        await self.redis.eval(OWN, 1, self.key, self.token, int(self.ttl * 1000))


class WithArguments(ContextLock):
    """``extend`` adds time to a lease, or replaces it, as in redis-py."""

    def extend(self, additional_time: float, replace_ttl: bool = False) -> Any:
        assert replace_ttl
        return bool(self.redis.eval(OWN, 1, self.key, self.token, int(additional_time * 1000)))


class NeedsMore(ContextLock):
    """``extend`` has a parameter that the harness does not know."""

    def extend(self, owner: str) -> bool:
        raise NotImplementedError(owner)
