"""Redlocks with documented mistakes, one class for each, for scenarios."""

from __future__ import annotations

import time
from typing import Any, ClassVar, Self

from harness.lock_impls.base import Endpoints, Grant
from harness.lock_impls.origins import mistake, model_of, variant_of
from harness.lock_impls.redis_client import RedisClient
from harness.lock_impls.redlock import Redlock


class CounterFence(Redlock):
    """Not a mistake: Redlock with a token from a counter outside the vote (on the first node, which no scenario
    harms)."""

    origin: ClassVar = variant_of("redlock", "fencing tokens from a counter outside the vote")

    def acquire(self, timeout: float) -> Grant | None:
        grant = super().acquire(timeout)
        if grant is None:
            return None
        return Grant(fence=int(self.nodes[0].incr(f"fence:{self.key}")), valid_for=grant.valid_for)


def undo(lock: Redlock, value: str) -> None:
    """Delete the keys of a lost vote on all nodes."""
    for node in lock.nodes:
        lock._delete(node, value)


class SkipsTimeCheck(Redlock):
    """rl-pause-inflight, nrl-expired: the catalogue's Redlock without its check of the elapsed time."""

    origin: ClassVar = mistake(
        "a majority that counts however long the vote took",
        "Kleppmann, 'How to do distributed locking', 2016, and node-redlock 5.0.0-beta.2",
    )

    def in_time(self, validity: float) -> bool:
        return True


class WholeSeconds(Redlock):
    """rlcpp-seconds: redlock-cpp measures the duration of a vote in whole seconds, and waits long for each node."""

    origin: ClassVar = model_of("Lock", "redlock-cpp", "of commit f9f5618", "redlock-cpp/redlock.cpp, line 149")

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float, **options: Any) -> Self:
        return cls([RedisClient(host=h, port=p, decode_responses=True) for h, p in endpoints.addresses], key, ttl)

    def _try_lock(self, value: str, maybe_set: set[int]) -> Grant | None:
        began = self.now()
        answers = [self._set(node, value) for node in self.nodes]
        validity = self.ttl - (self.now() - began) - 0.012
        if answers.count(True) >= self.quorum and validity > 0:
            self.value = value
            return Grant(valid_for=validity)
        undo(self, value)
        return None

    def now(self) -> float:
        """Return the time by which the vote is measured, s."""
        return int(time.time())


class Milliseconds(WholeSeconds):
    """rlcpp-seconds, cured: the vote is measured as exactly as the clock allows."""

    origin: ClassVar = WholeSeconds.origin.fixed("the vote is measured in milliseconds")

    def now(self) -> float:
        return time.time()
