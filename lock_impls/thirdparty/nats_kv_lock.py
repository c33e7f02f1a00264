"""nats-kv-lock's ``NatsKvLock`` on NATS JetStream, unmodified; tested with nats-kv-lock 0.0.1 and nats-py 2.16.0.

Its documentation makes a bucket whose values never expire, and so does this adapter unless its option ``expires`` is
true; then the bucket's ``max_age`` is the ttl.

Requests: ``kv.create(key, owner)`` · while another client has it: ``kv.watch(key)``, until a deletion · release:
``kv.get(key)``, and ``kv.delete(key)`` if the value is the owner's.
Source: nats_kv_lock/nats_kv_lock.py; NATS' documentation, "create - aka exclusive locking".

If the holder dies, nothing frees the lock. In a bucket whose values expire, no message announces that, so a waiter
waits until its time-out, or for ever without one (nats-expiry-unseen). A release that finds another owner, or no value
at all, says nothing or raises KeyNotFoundError.

Safe for: cutting duplicate work. It has no fence: its documentation says "perhaps shouldn't be used in a production
environment".

Known failures: nats-expiry-unseen; with expires=true: ttl-pause-write, ttl-overrun.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

from nats.js.errors import KeyNotFoundError
from nats_kv_lock import NatsKvLock

from harness.lock_impls.base import Endpoints, Failure, Grant, LockError, LockInfo
from harness.lock_impls.nats_client import KINDS, OUTAGE, OVERTIME_S, NatsBucket, known_outcome, kv_key


class NatsKvLockLibrary:
    info: ClassVar = LockInfo(
        name="nats-kv-lock",
        title="nats-kv-lock's NatsKvLock, unmodified",
        algorithm="kv.create(key, owner); wait for a watched deletion; if kv.get(key) is mine then kv.delete(key).",
        source="nats-kv-lock 0.0.1, nats_kv_lock/nats_kv_lock.py",
        safety="E",
        kinds=KINDS,
        requires=("nats-kv-lock==0.0.1", "nats-py==2.16.0"),
        library="nats-kv-lock 0.0.1",
        options={"expires": False},
        lease="ttl:expires",
        promises="'A simple, distributed lock using NATS.io'; 'This does NOT guarantee order, i.e. it is an unfair "
        "lock.'",
        asynchronous=True,
        on_death="nothing",
        outage=OUTAGE,
        no_single_point=True,
        overtime=OVERTIME_S,
        failures=(
            Failure(
                "nats-expiry-unseen",
                "the holder dies, its value expires, and a waiter waits until its time-out",
                "harness run nats-kv-lock --nemesis client-crash --lock-option expires=true",
            ),
        ),
    )

    def __init__(self, endpoints: Endpoints, key: str, ttl: float, expires: bool = False) -> None:
        self._bucket = NatsBucket(endpoints, ttl if expires else 0.0)
        self._key = kv_key(key)
        self._lock: Any = None
        self._held = False

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float, expires: bool = False) -> Self:
        return cls(endpoints, key, ttl, expires)

    async def acquire(self, timeout: float) -> Grant | None:
        with known_outcome():
            lock = self._lock = self._lock or NatsKvLock(await self._bucket.open(), self._key)
            granted = await lock.acquire(timeout)
        self._held = self._held or granted
        return Grant() if granted else None

    async def release(self) -> None:
        held, self._held = self._held, False
        if not held:  # the library's release would say nothing
            raise LockError(f"{self._key} is not held by this client")
        try:
            with known_outcome():
                await self._lock.release()
        except KeyNotFoundError as error:
            raise LockError(f"{self._key} is not held any more: it has expired") from error
