"""A lock on a NATS JetStream key-value bucket: a key that is created if it is absent, and expires by the bucket's age.

Requests: ``kv.create(key, token)``, a publish that JetStream refuses unless the key's last revision is 0 (or that of a
deletion); every 0.1 s while another client has it, since no message announces that a value has expired · the revision
is the fence: the number of the message in the bucket's stream · :meth:`NatsKvLock.extend`: ``kv.update(key, token,
last=revision)`` · release: ``kv.delete(key, last=revision)``. After a request without an answer the token of the stored
value tells whose it is.
Source: NATS' documentation, "Key/Value Store", "create - aka exclusive locking"; nats-py 2.16.0, nats/js/kv.py.

The lease is the bucket's ``max_age``, so all keys of a bucket have the same. A server compares its own clock with the
time at which the bucket's leader stored the value. A clock that jumps forward did not end a lease early (observed with
2.15.2): the server looks for old values when a timer says that the oldest is due, which does not follow the wall clock.

Safe for: correctness, if the resource refuses a number below the highest it has seen, and the servers lose nothing.

Known failures: ttl-pause-write, ttl-overrun (the fence covers these), nats-power-loss (unless the servers sync each
write; the fence does not help, since a bucket that was lost numbers its messages from 1 again).
"""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from typing import ClassVar, Final, Self

from nats.js.errors import APIError, KeyNotFoundError, KeyWrongLastSequenceError
from nats.js.kv import KeyValue

from .base import Endpoints, Failure, Grant, Indeterminate, LockError, LockInfo
from .nats_client import KINDS, OUTAGE, OVERTIME_S, REQUIRES, NatsBucket, Unanswered, answered, kv_key

RETRY_S: Final = 0.1
"""Mean pause between two tries for a busy lock."""
PATIENCE_S: Final = 3.0
"""Time for which a request is repeated until its outcome is known."""


class NatsKvLock:
    """``fence`` and ``revision`` are not None while the lock is held: the revision of the grant, and that of the last
    renewal."""

    info: ClassVar = LockInfo(
        name="nats-kv",
        title="NATS JetStream key-value lock",
        algorithm="kv.create(key, token) in a bucket with max_age; kv.delete(key, last=revision).",
        source="NATS' documentation, 'Key/Value Store'; nats-py 2.16.0",
        safety="F",
        kinds=KINDS,
        requires=REQUIRES,
        fence=True,
        asynchronous=True,
        on_death="expiry: the value is deleted when it is older than the bucket's max_age",
        outage=OUTAGE,
        no_single_point=True,
        overtime=OVERTIME_S,
        answer_timeout=1.0,
        failures=(
            Failure("ttl-overrun", "the work takes longer than the bucket's max_age", "harness run nats-kv --hold 4s"),
            Failure(
                "ttl-pause-write",
                "the holder is paused for longer than the bucket's max_age",
                "harness run nats-kv --nemesis client-pause",
            ),
        ),
    )

    def __init__(self, endpoints: Endpoints, key: str, ttl: float) -> None:
        self.bucket = NatsBucket(endpoints, ttl)
        self.key = kv_key(key)
        self.ttl = ttl
        self.fence: int | None = None
        self.revision: int | None = None
        self._token = b""
        self._deadline = 0.0

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float) -> Self:
        return cls(endpoints, key, ttl)

    # The Lock protocol.

    async def acquire(self, timeout: float) -> Grant | None:
        until = time.monotonic() + timeout
        patience = max(until, time.monotonic() + PATIENCE_S)
        token, began, unanswered = uuid.uuid4().hex.encode(), time.monotonic(), False
        while True:
            began, revision, failed = began if unanswered else time.monotonic(), None, None
            try:
                revision = await self._try(token, unanswered)
            except (Unanswered, LockError) as error:  # LockError: no server serves the bucket now
                unanswered, failed = unanswered or isinstance(error, Unanswered), error
            if revision is not None:
                self._token, self.fence, self.revision = token, revision, revision
                self._deadline = began + self.ttl
                return Grant(fence=revision, valid_for=max(0.0, self._deadline - time.monotonic()))
            remaining = (until if failed is None else patience) - time.monotonic()
            if remaining <= 0:
                break
            await asyncio.sleep(min(remaining, RETRY_S * (0.5 + random.random())))
        if unanswered:
            raise Indeterminate(f"{self.key}: a request to create it was not answered")
        if failed is not None:
            raise failed
        return None

    async def release(self) -> None:
        revision, self.fence, self.revision = self.revision, None, None
        if revision is None:
            raise LockError(f"{self.key} is not held by this client")
        kv, unanswered, until = await self.bucket.open(), False, time.monotonic() + PATIENCE_S
        while True:
            try:
                with answered():
                    await kv.delete(self.key, last=revision)
                return
            except APIError as error:
                if not unanswered:
                    raise LockError(f"{self.key} is not held any more: {error.description}") from error
                if time.monotonic() < self._deadline:
                    return  # the value had not expired, so the unanswered request has deleted it
                raise Indeterminate(f"{self.key}: deleted by an unanswered request, or expired") from error
            except (Unanswered, LockError) as error:
                unanswered = unanswered or isinstance(error, Unanswered)
                if time.monotonic() >= until:
                    raise (Indeterminate if unanswered else LockError)(str(error)) from error
            await asyncio.sleep(RETRY_S)

    async def extend(self) -> bool:
        if self.revision is None:
            return False
        kv, began, until = await self.bucket.open(), time.monotonic(), time.monotonic() + PATIENCE_S
        while True:
            try:
                with answered():
                    self.revision = await kv.update(self.key, self._token, last=self.revision)
                break
            except KeyWrongLastSequenceError:
                revision = await self._stored(kv, self._token)
                if revision is None:
                    self.fence = self.revision = None
                    return False
                self.revision = revision  # an unanswered renewal was executed
                break
            except Unanswered as error:
                if time.monotonic() >= until:
                    raise Indeterminate(str(error)) from error
            await asyncio.sleep(RETRY_S)
        self._deadline = began + self.ttl
        return True

    async def still_valid(self) -> bool:
        """Decide by this client's monotonic clock, without a request."""
        return self.fence is not None and time.monotonic() < self._deadline

    # Requests.

    async def _try(self, token: bytes, unanswered: bool) -> int | None:
        """Return the revision if the key has this token now, None if another client has the key. ``unanswered``: an
        earlier request with this token may have been executed. A bucket that the servers have lost is made again, as a
        process that starts would do it."""
        kv = await self.bucket.open()
        try:
            with answered():
                return await kv.create(self.key, token)
        except LockError:
            self.bucket.forget()
            raise
        except KeyWrongLastSequenceError:
            return await self._stored(kv, token) if unanswered else None

    async def _stored(self, kv: KeyValue, token: bytes) -> int | None:
        """Return the revision of the key's value if that is the token."""
        try:
            with answered():
                entry = await kv.get(self.key)
        except KeyNotFoundError:
            return None
        return entry.revision if entry.value == token else None
