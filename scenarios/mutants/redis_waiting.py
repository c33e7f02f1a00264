"""Mutants of a Redis lock that wait wrongly, refuse a free key, or leave their callers without an answer."""

from __future__ import annotations

import random
import time

from harness.lock_impls.base import Grant, Indeterminate

from .redis import TokenLock


class GivesUpAtOnce(TokenLock):
    """Acquire tries once and gives up, whatever its timeout is."""

    def acquire(self, timeout: float) -> Grant | None:
        return super().acquire(0.0)


class RefusesFreeKey(TokenLock):
    """Nine of ten tries are refused without a look at the key, which is often free."""

    def acquire(self, timeout: float) -> Grant | None:
        if random.random() < 0.9:
            self.client.get(self.key)
            return None
        return super().acquire(timeout)


class SleepsThenRefuses(TokenLock):
    """A waiter sleeps for its whole timeout after its first try, and refuses without another try."""

    def acquire(self, timeout: float) -> Grant | None:
        grant = super().acquire(0.0)
        if grant is None:
            time.sleep(timeout)
        return grant


class HalfIsUnknown(TokenLock):
    """Every second acquire raises an error that leaves its outcome unknown, before it sends a command."""

    acquires = 0

    def acquire(self, timeout: float) -> Grant | None:
        self.acquires += 1
        if self.acquires % 2 == 0:
            raise Indeterminate("the pool of connections is in use")
        return super().acquire(timeout)


# Changing the key of the holder.


class OverwritesThenRefuses(TokenLock):
    """A try that finds the key taken overwrites it with SET XX, and is refused."""

    def try_lock(self) -> Grant | None:
        grant = super().try_lock()
        if grant is None:
            self.client.set(self.key, self.new_token(), xx=True, px=self.ttl_ms)
        return grant


class DeletesThenRefuses(TokenLock):
    """A try that finds the key taken reads its owner with GETDEL, which deletes it, and is refused."""

    def try_lock(self) -> Grant | None:
        grant = super().try_lock()
        if grant is None:
            self.client.getdel(self.key)
        return grant


class OverwritesAtRelease(TokenLock):
    """Release overwrites the key with SET XX GET and then compares, so a late holder ends the hold of the next."""

    def unlock(self) -> bool:
        before = self.client.set(self.key, "free", xx=True, get=True, px=1)
        return bool(before == self.token)
