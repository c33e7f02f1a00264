"""redis-py's own lock, ``redis.lock.Lock``, unmodified; tested with redis 8.1.0.

Its documentation promises a lock that "allows the Lock to be shared across processes and/or machines", and leaves it
"to the user to resolve deadlock issues and make sure multiple clients play nicely together". Without a ``timeout``, its
default, "it will remain locked until release() is called". This adapter gives it the ttl, as a careful user does;
``expires=False`` leaves it out. :meth:`still_valid` is ``owned()`` and :meth:`extend` is ``reacquire()``: both ask the
server. How much of the lease is left it does not say, and acquire does not look at the time that an answer took.

Requests: ``SET key token NX PX ms``, every 0.1 s while another has it · ``EVALSHA`` of "if GET is mine then DEL".
redis-py sends a request again whose answer was lost, and takes the second answer for the whole truth.
Source: redis/lock.py.

Safe for: cutting duplicate work. It has no fence.
Known failures: ttl-pause-write, ttl-overrun, redis-clock-fwd, redis-restart-empty, redis-async-failover, redis-evict,
lost-reply-acquire, rpy-lost-acquire, rpy-lost-release, rpy-release-error, rpy-handoff, rpy-token-on-object.
"""

from __future__ import annotations

from typing import ClassVar

from redis.lock import Lock

from lock_impls.base import Endpoints, Grant, LockError, LockInfo
from lock_impls.redis_client import SINGLE_KEY_KINDS, Client, known_grant, known_outcome, open_client
from lock_impls.redis_failures import EXPIRES, ONE_PRIMARY, expiring, overrun


class RedisPyLock:
    info: ClassVar = LockInfo(
        name="redis-py-lock",
        title="redis-py's own Lock, unmodified",
        algorithm="SET key token NX PX ms; Lua: if get(key) == token then del(key).",
        source="redis 8.1.0, redis/lock.py",
        safety="E",
        kinds=SINGLE_KEY_KINDS,
        options={"expires": True},
        library="redis 8.1.0",
        promises="'A shared, distributed Lock. [...] It's left to the user to resolve deadlock issues and make sure "
        "multiple clients play nicely together.'",
        on_death=f"{EXPIRES} (nothing with expires=False, which is the library's default)",
        outage=ONE_PRIMARY,
        failures=(*expiring("redis-py-lock"), overrun("redis-py-lock")),
    )

    def __init__(self, client: Client, key: str, ttl: float, expires: bool = True) -> None:
        self._client = client
        self._lock = Lock(client, key, timeout=ttl if expires else None)

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float, expires: bool = True) -> RedisPyLock:
        return cls(open_client(endpoints), key, ttl, expires)

    def acquire(self, timeout: float) -> Grant | None:
        return known_grant(lambda: Grant() if self._lock.acquire(blocking_timeout=timeout) else None, self._client)

    def release(self) -> None:
        with known_outcome(self._client):
            self._lock.release()

    def still_valid(self) -> bool:
        with known_outcome(self._client):
            return bool(self._lock.owned())

    def extend(self) -> bool:
        try:
            with known_outcome(self._client):
                return bool(self._lock.reacquire())
        except LockError:  # it says so for a lock that is another's by now, or that has no timeout
            return False
