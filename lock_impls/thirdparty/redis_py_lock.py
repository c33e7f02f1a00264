"""redis-py's own lock, ``redis.lock.Lock``, unmodified; tested with redis 8.1.0.

Its documentation promises a lock that "allows the Lock to be shared across processes and/or machines", and leaves it
"to the user to resolve deadlock issues and make sure multiple clients play nicely together". Without a ``timeout``, the
default, "it will remain locked until release() is called". This adapter sets it to the ttl, as a careful user does;
``expires=False`` leaves it out. :meth:`still_valid` is ``owned()`` and :meth:`extend` is ``reacquire()``: both ask the
server. It does not say how much of the lease is left, and acquire ignores how long an answer took.

Releases of redis-py from 2.10 on can be tested (``--with redis==2.10.6``); :mod:`.redis_py_old` has the methods that
old ones lack.

Requests: ``SET key token NX PX ms``, every 0.1 s while another client has it · ``EVALSHA`` of "if GET is mine then
DEL". redis-py repeats a request whose answer was lost, and relies on the second answer alone.
Source: redis/lock.py.

Safe for: cutting duplicate work. It has no fence.

Known failures: ttl-pause-write, ttl-overrun, redis-clock-fwd, redis-restart-empty, redis-async-failover,
redis-cluster-failover, redis-evict, lost-reply-acquire, rpy-lost-acquire, rpy-lost-release, rpy-release-error,
rpy-handoff, rpy-token-on-object.
"""

from __future__ import annotations

from functools import partial
from typing import ClassVar, Final

from redis.lock import Lock

from harness.lock_impls.base import Endpoints, Grant, LockError, LockInfo
from harness.lock_impls.contexts import Context
from harness.lock_impls.redis_client import (
    ANSWER_TIMEOUT,
    REQUIRES,
    RedisClient,
    known_grant,
    known_outcome,
    open_client,
)
from harness.lock_impls.redis_failures import EXPIRES, ONE_PRIMARY, ONE_SLOT_KINDS, expiring, overrun

from . import redis_py_old

OWNED: Final = getattr(Lock, "owned", redis_py_old.owned)
REACQUIRE: Final = getattr(Lock, "reacquire", redis_py_old.reacquire)


class RedisPyLock:
    info: ClassVar = LockInfo(
        name="redis-py-lock",
        title="redis-py's own Lock, unmodified",
        algorithm="SET key token NX PX ms; Lua: if get(key) == token then del(key).",
        source="redis 8.1.0, redis/lock.py",
        safety="E",
        kinds=ONE_SLOT_KINDS,
        answer_timeout=ANSWER_TIMEOUT,
        requires=REQUIRES,
        options={"expires": True},
        lease="ttl:expires",
        library="redis 8.1.0",
        shareable=True,  # it keeps the token in thread-local storage by default, and documents why
        promises="'A shared, distributed Lock. [...] It's left to the user to resolve deadlock issues and make sure "
        "multiple clients play nicely together.'",
        on_death=f"{EXPIRES} (nothing with expires=False, the library's default)",
        outage=ONE_PRIMARY,
        failures=(*expiring("redis-py-lock"), overrun("redis-py-lock")),
    )

    def __init__(self, client: RedisClient, key: str, ttl: float, expires: bool = True) -> None:
        self._client = client
        self._new = partial(Lock, client, key, timeout=ttl if expires else None)
        self._lock = self._new()

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float, expires: bool = True) -> RedisPyLock:
        return cls(open_client(endpoints), key, ttl, expires)

    def acquire(self, timeout: float) -> Grant | None:
        return known_grant(lambda: Grant() if self._lock.acquire(blocking_timeout=timeout) else None, self._client)

    def release(self) -> None:
        with known_outcome(self._client):
            self._lock.release()

    def context(self, timeout: float) -> Context:
        return Context(self._new(blocking_timeout=timeout), lambda: known_outcome(self._client), timeout)

    def still_valid(self) -> bool:
        with known_outcome(self._client):
            return bool(OWNED(self._lock))

    def extend(self) -> bool:
        try:
            with known_outcome(self._client):
                return bool(REACQUIRE(self._lock))
        except LockError:  # it refuses if another client owns the lock by now, or if the lock has no timeout
            return False
