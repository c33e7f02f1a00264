"""Mutants of a Redis lock that break what it promises: fencing tokens, re-entry, an order of service, sharing."""

from __future__ import annotations

import random
from typing import ClassVar

from harness.lock_impls.base import Grant, LockInfo
from harness.lock_impls.polling import poll

from .redis import TokenLock


def promises(**claims: bool) -> LockInfo:
    """Return the description of a mutant that claims more than mutual exclusion, and documents no failure."""
    return LockInfo(
        name="mutant",
        title="a wrong lock",
        algorithm="",
        source="harness.scenarios.mutants",
        safety="E",
        kinds=("redis-single",),
        limits=(),
        **claims,  # type: ignore[arg-type]
    )


# Fencing tokens, re-entry and order.


class Fenced(TokenLock):
    """Not a mutant: grants have a number, which a script counts together with SET."""

    info: ClassVar = promises(fence=True)

    def granted(self) -> Grant:
        return Grant(fence=self.fence(), valid_for=self.ttl)

    def fence(self) -> int | None:
        return int(self.client.incr(f"{self.key}:fence"))


class ConstantFence(Fenced):
    """The fencing token is the same for each grant."""

    def fence(self) -> int | None:
        return 1


class DecreasingFence(Fenced):
    """The fencing token decreases with each grant."""

    def fence(self) -> int | None:
        return int(self.client.decr(f"{self.key}:fence"))


class EqualFences(Fenced):
    """Two grants in succession have the same fencing token: it is counted in each second one."""

    def fence(self) -> int | None:
        return int(self.client.incr(f"{self.key}:fence")) // 2


class TextFence(Fenced):
    """The fencing token is a random text, which a resource cannot compare with others."""

    def granted(self) -> Grant:
        return Grant(fence=self.new_token(), valid_for=self.ttl)


class NullFence(Fenced):
    """The lock promises fencing tokens, and its grants have none."""

    def fence(self) -> int | None:
        return None


class FenceOfItsOwn(Fenced):
    """Each client counts its own grants, so the tokens of two clients have no order."""

    grants = 0

    def fence(self) -> int | None:
        self.grants += 1
        return self.grants


class RandomFence(Fenced):
    """The fencing token is a random number, so the tokens of later grants are not greater."""

    def fence(self) -> int | None:
        return random.getrandbits(40)


class InnerReleaseFrees(TokenLock):
    """The holder may acquire again, but holds are not counted, so the first release frees the key."""

    info: ClassVar = promises(reentrant=True)

    def try_lock(self) -> Grant | None:
        if self.token and self.client.get(self.key) == self.token:
            return self.granted()
        return super().try_lock()


class RefusesItsHolder(TokenLock):
    """The lock promises that its holder can acquire again, and refuses it."""

    info: ClassVar = promises(reentrant=True)


class LastComesFirst(TokenLock):
    """The lock promises the order of arrival, and serves the last in the queue first."""

    info: ClassVar = promises(queue=True)

    def acquire(self, timeout: float) -> Grant | None:
        queue, ticket = f"{self.key}:queue", self.new_token()
        self.client.rpush(queue, ticket)
        grant = poll(lambda: self._in_turn(queue, ticket), timeout)
        if grant is None:
            self.client.lrem(queue, 0, ticket)
        return grant

    def _in_turn(self, queue: str, ticket: str) -> Grant | None:
        if self.client.lindex(queue, -1) != ticket:
            return None
        grant = self.try_lock()
        if grant is not None:
            self.client.lrem(queue, 0, ticket)
        return grant


# Sharing.


class ReadersAdmitWriters(TokenLock):
    """A writer does not look for readers, so it holds the lock together with them."""

    shared = False

    def acquire_shared(self, timeout: float) -> Grant | None:
        grant = poll(self._try_shared, timeout)
        self.shared = grant is not None
        return grant

    def _try_shared(self) -> Grant | None:
        if self.client.exists(self.key):
            return None
        self.client.incr(f"{self.key}:readers")
        return Grant()

    def unlock(self) -> bool:
        if not self.shared:
            return super().unlock()
        self.shared = False
        return int(self.client.decr(f"{self.key}:readers")) >= 0


class ReadersIgnoreWriter(ReadersAdmitWriters):
    """A reader does not look for a writer, so it holds the lock together with one."""

    def try_lock(self) -> Grant | None:
        return None if int(self.client.get(f"{self.key}:readers") or 0) else super().try_lock()

    def _try_shared(self) -> Grant | None:
        self.client.incr(f"{self.key}:readers")
        return Grant()
