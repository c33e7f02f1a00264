"""Redlocks that are wrong on purpose: each is one documented mistake, and the scenarios must notice it."""

from __future__ import annotations

import socket
import time
import uuid
from typing import Any, Final, Self

from lock_impls.base import Endpoints, Grant
from lock_impls.redis_client import Client
from lock_impls.redlock import Redlock

TICK_S: Final = 1.0


class MintedFence(Redlock):
    """Not a mistake: Redlock with a token from a counter outside the vote (on the first node, which no scenario
    hurts)."""

    def acquire(self, timeout: float) -> Grant | None:
        grant = super().acquire(timeout)
        if grant is None:
            return None
        return Grant(fence=int(self.nodes[0].incr(f"fence:{self.key}")), valid_for=grant.valid_for)


def undo(lock: Redlock, value: str) -> None:
    for node in lock.nodes:
        lock._delete(node, value)


class FixedDelay(Redlock):
    """rl-split-vote: every client starts with another node, and all retry after the same fixed delay, here until the
    next whole second, so that what happened to one of them before does not put it out of step."""

    def __init__(self, nodes: list[Client], key: str, ttl: float) -> None:
        super().__init__(nodes, key, ttl)
        turn = int(socket.gethostname()[1:]) % len(nodes)
        self.nodes = nodes[turn:] + nodes[:turn]

    def acquire(self, timeout: float) -> Grant | None:
        deadline = time.monotonic() + timeout
        while (pause := TICK_S - time.monotonic() % TICK_S) < deadline - time.monotonic():
            time.sleep(pause)
            grant = self._try_lock(uuid.uuid4().hex, set())
            if grant is not None:
                return grant
        time.sleep(max(0.0, deadline - time.monotonic()))
        return None


class WholeSeconds(Redlock):
    """rlcpp-seconds: redlock-cpp measures the time a vote took in whole seconds, and waits long for each node."""

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float, **options: Any) -> Self:
        return cls([Client(host=h, port=p, decode_responses=True) for h, p in endpoints.addresses], key, ttl)

    def _try_lock(self, value: str, maybe_set: set[int]) -> Grant | None:
        began = int(time.time())
        answers = [self._set(node, value) for node in self.nodes]
        validity = self.ttl - (int(time.time()) - began) - 0.012
        if answers.count(True) >= self.quorum and validity > 0:
            self.value = value
            return Grant(valid_for=validity)
        undo(self, value)
        return None
