"""Redisson (Java), imitated command for command on redis-py. All but rds-renew-outlives are the simulated twins of the
scenarios rds-*.java, which run the library itself.

Its lock is a hash of owner and count with an expiry, which a thread renews every third of that time; see
:mod:`harness.lock_impls.redis_reentrant`.
"""

from __future__ import annotations

import threading
import time
import uuid
from typing import Any, ClassVar, Final, Self

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from harness.lock_impls.base import Endpoints, Grant, LockError
from harness.lock_impls.origins import model_of
from harness.lock_impls.polling import poll
from harness.lock_impls.redis_client import COMPARE_AND_DELETE, RedisClient, RedisLock, known_outcome, open_client
from harness.lock_impls.redis_fenced import LOCK_AND_COUNT
from harness.lock_impls.redis_reentrant import ENTER, LEAVE, RedisReentrantLock

RENEW: Final = """
if redis.call("hexists", KEYS[1], ARGV[1]) == 1 then
    redis.call("pexpire", KEYS[1], ARGV[2])
    return 1
end
return 0
"""


WATCHDOG: Final = model_of("the watchdog", "Redisson", "3.13.6", "RedissonLock.java, line 290")


class RLock(RedisReentrantLock):
    """Not a mistake: ``lock()`` without a lease; a thread renews it until it is unlocked, despite errors."""

    origin: ClassVar = WATCHDOG.fixed("the watchdog goes on after an error, and stops before the unlock")
    kinds: ClassVar = ("redis-single",)
    goes_on: ClassVar = True
    stops_first: ClassVar = True

    def __init__(self, client: RedisClient, key: str, ttl: float) -> None:
        super().__init__(client, key, ttl)
        self._ended = threading.Event()

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float, **options: Any) -> Self:
        # Without redis-py's own retries, so that a connection error is not hidden.
        client = open_client(endpoints, socket_timeout=0.3, socket_connect_timeout=0.3, retry=Retry(NoBackoff(), 0))
        return cls(client, key, ttl, **options)

    def try_lock(self) -> Grant | None:
        # the owner is a program and a thread; here each critical section has its own thread
        self.owner = uuid.uuid4().hex
        if super().try_lock() is None:
            return None
        self._ended = threading.Event()
        threading.Thread(target=self._renew, args=(self.owner, self._ended), daemon=True).start()
        return Grant()

    def unlock(self) -> bool:
        if self.stops_first:
            self._ended.set()
        unlocked = super().unlock()
        self._ended.set()
        return unlocked

    def _renew(self, owner: str, ended: threading.Event) -> None:
        while not ended.wait(self.ttl / 3):
            try:
                if self.client.eval(RENEW, 1, self.key, owner, str(self.ttl_ms)) != 1:
                    return
            except redis.RedisError:
                if not self.goes_on:
                    return


class RenewalStops(RLock):
    """rds-renew-stops: after a renewal that failed with an error no other is scheduled (Redisson before 3.14.0:
    redisson/redisson#3194, #775)."""

    origin: ClassVar = WATCHDOG
    goes_on: ClassVar = False


class RenewalOutlives(RLock):
    """rds-renew-outlives: the renewal is cancelled only after a successful unlock. If the unlock fails, nobody holds
    the lock but it is renewed for ever (redisson/redisson#1602, #1626, #7272)."""

    origin: ClassVar = model_of("unlock", "Redisson", "3.8.0", "RedissonLock.java, line 481")
    stops_first: ClassVar = False


class MultiLock:
    """rds-multilock: ``RedissonMultiLock.tryLock(-1, lease)`` before 3.11.1.

    While it collects its locks, each has a lease of twice the waiting time, which is -2 ms if that is -1. So each key
    is gone as soon as it is set, and every client gets all of them (redisson/redisson#2172).
    """

    origin: ClassVar = model_of("RedissonMultiLock.tryLock", "Redisson", "3.11.0", "RedissonMultiLock.java, line 64")
    kinds: ClassVar = ("redis-independent",)

    def __init__(self, nodes: list[RedisClient], key: str, ttl: float) -> None:
        self.nodes, self.key, self.lease_ms = nodes, key, round(ttl * 1000)
        self.owner = uuid.uuid4().hex

    def meanwhile_ms(self) -> int:
        """Lease of each lock until all are collected."""
        return -1 * 2

    def acquire(self, timeout: float) -> Grant | None:
        with known_outcome(*self.nodes):
            return poll(self._try_lock, timeout)

    def _try_lock(self) -> Grant | None:
        began = time.monotonic()
        for number, node in enumerate(self.nodes):
            if not node.eval(ENTER, 1, self.key, self.owner, str(self.meanwhile_ms())):
                self._leave(self.nodes[:number])
                return None
        for node in self.nodes:
            node.pexpire(self.key, self.lease_ms)
        return Grant(valid_for=began + self.lease_ms / 1000 - time.monotonic())

    def release(self) -> None:
        with known_outcome(*self.nodes):
            if not self._leave(self.nodes):
                raise LockError(f"{self.key} is not held by this client on any node")

    def _leave(self, nodes: list[RedisClient]) -> bool:
        left = [node.eval(LEAVE, 1, self.key, self.owner, str(self.lease_ms)) for node in nodes]
        return any(left)

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float) -> Self:
        return cls([RedisClient(host=host, port=port) for host, port in endpoints.addresses], key, ttl)


class MultiLock311(MultiLock):
    """rds-multilock, cured as in 3.11.1: without a waiting time the locks have their own lease from the start."""

    origin: ClassVar = MultiLock.origin.fixed("without a waiting time the locks have their own lease (3.11.1)")

    def meanwhile_ms(self) -> int:
        return self.lease_ms


class FencedGet(RedisLock):
    """rds-fenced-get: ``RFencedLock.lock()`` and then ``getToken()``, which is a plain GET of the counter: a late
    holder reads the number of the next owner."""

    origin: ClassVar = model_of("RFencedLock.getToken", "Redisson", "4.7.0", "RedissonFencedLock.java, line 63")
    kinds: ClassVar = ("redis-single",)
    at_once: ClassVar = False
    token = ""

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float, **options: Any) -> Self:
        # so that it waits for late answers
        return cls(open_client(endpoints, socket_timeout=60.0), key, ttl, **options)

    def try_lock(self) -> Grant | None:
        began, token, counter = time.monotonic(), uuid.uuid4().hex, f"{self.key}:fence"
        number = self.client.eval(LOCK_AND_COUNT, 2, self.key, counter, token, str(self.ttl_ms))
        if number is None:
            return None
        self.token = token
        return Grant(
            fence=int(number if self.at_once else self.client.get(counter) or 0), valid_for=self.remaining(began)
        )

    def unlock(self) -> bool:
        return bool(self.client.eval(COMPARE_AND_DELETE, 1, self.key, self.token))


class FencedAtOnce(FencedGet):
    """rds-fenced-get, cured: ``lockAndGetToken()`` returns the number that the lock was acquired with."""

    origin: ClassVar = FencedGet.origin.fixed("lockAndGetToken returns the number of the own grant")
    at_once: ClassVar = True
