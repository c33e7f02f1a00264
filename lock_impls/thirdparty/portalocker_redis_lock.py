"""portalocker's ``RedisLock``, unmodified; tested with portalocker 4.4.2 and redis 8.1.0.

The holder is the only subscriber of a channel, so the lock has no lease: "ownership ends when Redis removes it". A
contender that finds other subscribers asks each for its state, and kills the connections of those that do not answer
within ``unavailable_timeout`` (1 s by default). The holder's thread answers, and notices a lost connection: then
``ensure_held`` raises, which is :meth:`still_valid` here. "After revocation, a new holder can acquire while the old
holder still runs": to refuse its writes, ``fencing=True`` draws a number for each grant. This adapter sets it;
``fencing=False`` is the library's default. By default the library also interrupts the main thread when a lock is lost
("opt-in from 5.0.0"); this adapter sets ``interrupt_on_lost=False``.

Releases before 4.2 can be tested, too (``--with portalocker==3.2.0``). They have neither of these options, and do not
notice a loss.

Requests: ``SUBSCRIBE key`` on a connection of its own · ``PUBSUB NUMSUB key``; if others subscribe, ``PUBLISH`` of a
ping and, for those that are silent, ``CLIENT LIST`` and ``CLIENT KILL ID`` · ``INCR key-fence`` · release: the
connection is closed. The ttl is ignored.
Source: portalocker/redis.py.

Safe for: correctness, if the resource refuses a number below the highest it has seen, and the one Redis keeps its data.

Known failures: pubsub-pause (the holder is paused, and a contender kills its connection), redis-restart-empty (the
subscription ends with the server, and the counter may be lost), pubsub-crowd (several contenders never kill it).
"""

from __future__ import annotations

import inspect
import logging
from dataclasses import replace
from typing import Any, ClassVar, Final

from portalocker.exceptions import LockException
from portalocker.redis import RedisLock

from harness.lock_impls.base import Endpoints, Failure, Grant, LockError, LockInfo
from harness.lock_impls.redis_client import ANSWER_TIMEOUT, RedisClient, known_grant, known_outcome, open_client

logging.getLogger("portalocker").addHandler(logging.NullHandler())  # it logs each attempt that fails
logging.getLogger("portalocker").propagate = False
OPTIONS: Final = frozenset(inspect.signature(RedisLock).parameters)
"""Options of the installed release."""


class PortalockerRedisLock:
    info: ClassVar = LockInfo(
        name="portalocker-redis-lock",
        title="portalocker's own RedisLock, unmodified",
        algorithm="The only subscriber of a channel holds; contenders ping it, and kill it if it does not answer.",
        source="portalocker 4.4.2, portalocker/redis.py",
        safety="F",
        kinds=("redis-single",),
        answer_timeout=ANSWER_TIMEOUT,
        requires=("portalocker==4.4.2", "redis==8.1.0"),
        fence=True,
        options={"fencing": True},
        library="portalocker 4.4.2",
        promises="'A Redis lock held by a pub/sub subscription. [...] Ownership ends when Redis removes it, without "
        "waiting for a lease to expire. [...] After revocation, a new holder can acquire while the old holder still "
        "runs.'",
        on_death="the server, when it notices that the connection is gone, or a contender, whose ping is not answered",
        outage="the lock is lost with its server; unavailable until the server is back",
        limits=("late-client", "server-fault"),
        failures=(
            Failure(
                "pubsub-pause",
                "the holder is paused, and a contender kills its connection",
                "harness run portalocker-redis-lock --nemesis client-pause --clients 2",
            ),
            Failure(
                "redis-restart-empty",
                "the server restarts without its data",
                "harness run portalocker-redis-lock --nemesis kill-amnesia",
            ),
        ),
    )

    def __init__(self, client: RedisClient, key: str, fencing: bool = True) -> None:
        self._client = client
        wanted: dict[str, Any] = {"interrupt_on_lost": False, "fencing": fencing}
        known = {name: value for name, value in wanted.items() if name in OPTIONS}
        self._lock: Any = RedisLock(key, connection=client, **known)
        self._held = False

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float, fencing: bool = True) -> PortalockerRedisLock:  # noqa: ARG003
        """Ignore ``ttl``: the lock lasts as long as the connection."""
        return cls(open_client(endpoints, decode_responses=True, health_check_interval=10), key, fencing)

    def acquire(self, timeout: float) -> Grant | None:
        return known_grant(lambda: self._acquire(timeout), self._client)

    def _acquire(self, timeout: float) -> Grant | None:
        try:
            self._lock.acquire(timeout=timeout)
        except LockException:  # it was held for too long, or is held by this object
            return None
        self._held = True
        return Grant(fence=getattr(self._lock, "fence_token", None))

    def release(self) -> None:
        """Release the lock. Like the end of the library's ``with``, it raises if the lock was lost."""
        held, valid, self._held = self._held, self.still_valid(), False
        if not held:
            raise LockError(f"{self._lock.channel} is not held by this client")
        with known_outcome(self._client):
            self._lock.release()
        if not valid:
            raise LockError(f"{self._lock.channel} was lost")

    def still_valid(self) -> bool:
        return self._held and not getattr(self._lock, "lost", False)


if "fencing" not in OPTIONS:  # the description is that of the tested release
    PortalockerRedisLock.info = replace(PortalockerRedisLock.info, fence=False)
