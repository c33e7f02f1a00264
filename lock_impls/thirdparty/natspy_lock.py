"""natspy-lock's ``NatsLock`` on NATS JetStream, unmodified; tested with natspy-lock 0.2.0 and nats-py 2.16.0.

``NatsLock.init`` makes a bucket whose values expire after ``max_ttl``, which this adapter sets to the ttl, with one
replica (the library offers no other). A task watches all keys of the bucket. :meth:`acquire` waits until that task has
seen a deletion, and then tries again.

Requests: ``kv.create(key, b"")`` · release: ``kv.purge(key)``, unconditionally.
Source: natspy_lock/lock.py.

No message announces that a value has expired, so clients that have seen a key wait for a deletion that never comes
(natspy-dead-holder). A release deletes the key whoever has it (natspy-foreign-purge). A ``wait`` of 0 means for ever,
and so does one that has run out after a try: this adapter asks for at least 0.2 s. The example in its README passes
``nc.jetstream()`` to ``init``, which needs ``nc``.

Safe for: cutting duplicate work among clients that never die and never work longer than the max_ttl. It has no fence.

Known failures: natspy-dead-holder, natspy-foreign-purge, ttl-pause-write, ttl-overrun.
"""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar, Final, Self

from natspy_lock import NatsLock

from harness.lock_impls.base import Endpoints, Failure, Grant, LockInfo
from harness.lock_impls.nats_client import CONNECT_S, KINDS, OVERTIME_S, NatsBucket, known_outcome, kv_key

LEAST_WAIT_S: Final = 0.2
"""The library waits for ever after a try that took longer than the ``wait``."""


class NatspyLock:
    info: ClassVar = LockInfo(
        name="natspy-lock",
        title="natspy-lock's NatsLock, unmodified",
        algorithm="kv.create(key, b'') in a bucket with max_age; wait for a watched deletion; kv.purge(key).",
        source="natspy-lock 0.2.0, natspy_lock/lock.py",
        safety="E",
        kinds=KINDS,
        requires=("natspy-lock==0.2.0", "nats-py==2.16.0"),
        library="natspy-lock 0.2.0",
        lease="ttl",
        promises="'natspy-lock is a distributed lock library using nats.'",
        asynchronous=True,
        on_death="expiry, which waiters do not notice: the value is deleted when it is older than max_ttl",
        outage="unavailable while the one server with the bucket is down",
        overtime=OVERTIME_S,
        failures=(
            Failure(
                "natspy-dead-holder",
                "the holder dies, and clients that wait for its deletion wait for ever",
                "harness run natspy-lock --nemesis client-crash",
            ),
            Failure(
                "natspy-foreign-purge",
                "a late holder's release deletes the next holder's key",
                "harness run natspy-lock --hold 4s",
            ),
        ),
    )

    def __init__(self, endpoints: Endpoints, key: str, ttl: float) -> None:
        self._bucket = NatsBucket(endpoints, ttl)
        self._key = kv_key(key)
        self._ttl = ttl
        self._lock: Any = None

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float) -> Self:
        return cls(endpoints, key, ttl)

    async def acquire(self, timeout: float) -> Grant | None:
        with known_outcome():
            await asyncio.wait_for(self._init(), CONNECT_S)
            self._lock = NatsLock.get_lock(self._key, max(timeout, LEAST_WAIT_S))
            await self._lock.acquire()
        return Grant() if self._lock.locked() else None

    async def release(self) -> None:
        with known_outcome():
            await asyncio.wait_for(self._init(), CONNECT_S)
            await (self._lock or NatsLock.get_lock(self._key)).release()

    async def _init(self) -> None:
        await NatsLock.init(await self._bucket.client(), self._bucket.name, self._ttl)
