"""Locks that leaders extend, most of them wrong."""

from __future__ import annotations

from tests.workloads.context_locks import Lock
from tests.workloads.exit_locks import EXTEND


class Extends(Lock):
    """A right lock."""

    def extend(self) -> bool:
        return bool(self.redis.eval(EXTEND, 1, self.key, self.token, int(self.ttl * 1000)))


class HidesTheLoss(Extends):
    """``extend`` says nothing of what the server answers."""

    def extend(self) -> bool:
        super().extend()
        return True


class ExtendsAnyKey(Lock):
    """``extend`` prolongs the key of whoever has it."""

    def extend(self) -> bool:
        return bool(self.redis.pexpire(self.key, int(self.ttl * 1000)))


class TakesTheKeyBack(Lock):
    """``extend`` sets the key again, whoever has it."""

    def extend(self) -> bool:
        return bool(self.redis.set(self.key, self.token, px=int(self.ttl * 1000)))


class ProlongsNothing(Extends):
    """``extend`` asks for the owner, and leaves the lease as it is."""

    def extend(self) -> bool:
        return bool(self.redis.get(self.key) == self.token.encode())
