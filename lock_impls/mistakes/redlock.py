"""Redlocks that are wrong on purpose: each is one documented mistake, and the scenarios must notice it."""

from __future__ import annotations

import socket
import threading
import time
import uuid
from typing import Any, Self

from lock_impls.base import Endpoints, Grant
from lock_impls.redis_client import Client
from lock_impls.redlock import Redlock


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


class NoElapsedCheck(Redlock):
    """nrl-expired: does not look at the time again before it says "held"."""

    def _try_lock(self, value: str, maybe_set: set[int]) -> Grant | None:
        answers = [self._set(node, value) for node in self.nodes]
        if answers.count(True) >= self.quorum:
            self.value = value
            return Grant(valid_for=self.ttl)
        undo(self, value)
        return None


class FixedDelay(Redlock):
    """rl-split-vote: every client starts with another node, and all retry after the same fixed delay."""

    def __init__(self, nodes: list[Client], key: str, ttl: float) -> None:
        super().__init__(nodes, key, ttl)
        turn = int(socket.gethostname()[1:]) % len(nodes)
        self.nodes = nodes[turn:] + nodes[:turn]

    def acquire(self, timeout: float) -> Grant | None:
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            time.sleep(0.2 - time.monotonic() % 0.2)
            grant = self._try_lock(uuid.uuid4().hex, set())
            if grant is not None:
                return grant
        return None


class BailOut(Redlock):
    """rl-orphan-minority: asks all nodes at once and returns at the quorum, with slow requests still on their way."""

    def _try_lock(self, value: str, maybe_set: set[int]) -> Grant | None:
        answers: list[bool | None] = []
        done = threading.Event()

        def ask(node: Client) -> None:
            answers.append(self._set(node, value))
            if answers.count(True) >= self.quorum or len(answers) == len(self.nodes):
                done.set()

        for node in self.nodes:
            threading.Thread(target=ask, args=(node,), daemon=True).start()
        done.wait()
        if answers.count(True) >= self.quorum:
            self.value = value
            return Grant(valid_for=self.ttl)
        undo(self, value)
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
