"""Locks with plain methods whose calls are interrupted: a sound one, and wrong ones that fail under that alone."""

from __future__ import annotations

import os
import time
from typing import Any, Self

DELETE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"


class NotAcquired(Exception):
    pass


class TokenLock:
    """A correct lock, as a user writes it. A release can be repeated after an error."""

    def __init__(self, redis: Any, name: str, ttl: float) -> None:
        self.redis, self.name, self.ttl = redis, name, ttl
        self.token = ""

    def acquire(self, timeout: float = 1.0) -> bool:
        token, until = os.urandom(8).hex(), time.monotonic() + timeout
        while not self.redis.set(self.name, token, nx=True, px=int(self.ttl * 1000)):
            if time.monotonic() >= until:
                return False
            time.sleep(0.02)
        self.token = token
        return True

    def release(self) -> None:
        self.redis.eval(DELETE, 1, self.name, self.token)

    def __enter__(self) -> Self:
        if not self.acquire():
            raise NotAcquired(self.name)
        return self

    def __exit__(self, *raised: object) -> None:
        self.release()


class GrantsWhenInterrupted(TokenLock):
    """Its acquire swallows the exception, and says that the lock is held."""

    def acquire(self, timeout: float = 1.0) -> bool:
        try:
            return super().acquire(timeout)
        except KeyboardInterrupt:
            return True


class DeletesWhenInterrupted(TokenLock):
    """Its interrupted acquire cleans up by deleting the key, whoever owns it."""

    def acquire(self, timeout: float = 1.0) -> bool:
        try:
            return super().acquire(timeout)
        except BaseException:
            self.redis.delete(self.name)
            raise


class ForgetsItsToken(TokenLock):
    """Its release forgets the token first, so nobody can release the lock after an interrupted release."""

    def release(self) -> None:
        token, self.token = self.token, ""
        if not token:
            raise NotAcquired(self.name)
        if self.redis.get(self.name) == token.encode():
            self.redis.eval(DELETE, 1, self.name, token)


class StaysWhenInterrupted(TokenLock):
    """It is not released after Ctrl-C in the body of ``with``."""

    def __exit__(self, *raised: object) -> None:
        if not isinstance(raised[1], KeyboardInterrupt):
            self.release()
