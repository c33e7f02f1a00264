"""Locks that are wrong on purpose: each is one documented mistake, and the scenarios must notice it."""

from __future__ import annotations

import socket
import threading
import time
import uuid
from typing import Any, Self

import redlock as redlock_py

from lock_impls.base import Endpoints, Grant, Indeterminate, LockError
from lock_impls.polling import poll
from lock_impls.redis_client import Client
from lock_impls.redis_fenced import FencedLock
from lock_impls.redis_getset import GetsetLock
from lock_impls.redis_token import TokenLock
from lock_impls.redlock import Redlock


class RandomTokenFence(TokenLock):
    """random-token-cas: the owner's random value is all there is to give to the resource."""

    kinds = ("redis-single",)

    def try_lock(self) -> Grant | None:
        grant = super().try_lock()
        return None if grant is None else Grant(fence=self.token, valid_for=grant.valid_for)


class WallClockDeadline(TokenLock):
    """clock-local-deadline: the holder's own idea of its deadline is in wall-clock time."""

    kinds = ("redis-single",)
    until = 0.0

    def try_lock(self) -> Grant | None:
        grant = super().try_lock()
        self.until = time.time() + self.ttl
        return grant

    def still_valid(self) -> bool:
        return time.time() < self.until


class GetsetByValue(GetsetLock):
    """getset-loser-extends: unlocks only if the timestamp is still its own, and a loser's GETSET has changed it."""

    kinds = ("redis-single",)

    def unlock(self) -> bool:
        if self.client.get(self.key) != repr(self.deadline):
            return False
        return super().unlock()


class DelTakeover(GetsetLock):
    """setnx-del-takeover: takes an expired lock over by DEL and SETNX."""

    kinds = ("redis-single",)

    def _take_over(self, deadline: str) -> bool:
        seen = self.client.get(self.key)
        if seen is None or float(seen) >= time.time():
            return False
        self.client.delete(self.key)
        return bool(self.client.setnx(self.key, deadline))


class Seed002(GetsetLock):
    """seed002-compare: article 002 as printed, which compares the *new* time with what GETSET returned."""

    kinds = ("redis-single",)

    def _take_over(self, deadline: str) -> bool:
        seen = self.client.get(self.key)
        if seen is None or float(seen) >= time.time():
            return False
        return bool(self.client.getset(self.key, deadline) == deadline)


class Seed004(GetsetLock):
    """seed004-unlock: article 004 as printed, whose unlock deletes the key only if it has expired."""

    kinds = ("redis-single",)

    def unlock(self) -> bool:
        stamp = self.client.get(self.key)
        if stamp is not None and float(stamp) < time.time():
            self.client.delete(self.key)
        return True


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


class RedlockPy:
    """The real redlock-py 1.0.8, whose validity is a difference of wall-clock times."""

    kinds = ("redis-independent",)

    def __init__(self, connection_list: list[dict[str, Any]], key: str, ttl: float) -> None:
        self._manager = redlock_py.Redlock(connection_list)
        self._key, self._ttl = key, ttl
        self._held: Any = None

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float) -> Self:
        return cls([{"host": host, "port": port, "db": 0} for host, port in endpoints.addresses], key, ttl)

    def acquire(self, timeout: float) -> Grant | None:
        def attempt() -> Grant | None:
            self._held = self._manager.lock(self._key, int(self._ttl * 1000)) or None
            return None if self._held is None else Grant(valid_for=self._held.validity / 1000)

        return poll(attempt, timeout)

    def release(self) -> None:
        self._manager.unlock(self._held)


class ForgetsErrors(TokenLock):
    """Reports a lost answer as "not acquired": what a harness must not do either."""

    kinds = ("redis-single",)

    def acquire(self, timeout: float) -> Grant | None:
        try:
            return super().acquire(timeout)
        except (LockError, Indeterminate):
            return None


class StaleFence(FencedLock):
    """rds-fenced-get: reads the shared counter for a token instead of keeping what its own grant got."""

    kinds = ("redis-single",)

    def try_lock(self) -> Grant | None:
        grant = super().try_lock()
        return None if grant is None else Grant(fence=7, valid_for=grant.valid_for)
