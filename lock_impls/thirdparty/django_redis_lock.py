"""django-redis' ``cache.lock``, unmodified; tested with django-redis 7.0.0, Django 5.2.19 and redis 8.1.0.

Its documentation promises "Redis distributed named locks" with the interface of ``threading.Lock``: a ``cache.lock`` is
redis-py's ``Lock`` (:mod:`.redis_py_lock`) with a key that has the cache's prefix and version. Without a ``timeout``,
the default, the key stays until it is released; this adapter sets it to the ttl.

Requests: ``SET :1:key token NX PX ms``, every 0.1 s while another client has it · ``EVALSHA`` of "if GET is mine then
DEL".
Source: django_redis/client/default.py, redis/lock.py.

Safe for: cutting duplicate work. It has no fence.

Known failures: those of redis-py-lock.
"""

from __future__ import annotations

from typing import Any, ClassVar

from django.conf import settings
from django_redis.cache import RedisCache

from harness.lock_impls.base import Endpoints, Grant, LockInfo
from harness.lock_impls.redis_client import RedisClient, known_grant, known_outcome
from harness.lock_impls.redis_failures import EXPIRES, ONE_PRIMARY, expiring, overrun

if not settings.configured:
    settings.configure()


class DjangoRedisLock:
    info: ClassVar = LockInfo(
        name="django-redis-lock",
        title="django-redis' own cache.lock, unmodified",
        algorithm="SET key token NX PX ms; Lua: if get(key) == token then del(key).",
        source="django-redis 7.0.0, django_redis/client/default.py",
        safety="E",
        kinds=("redis-single",),
        requires=("django-redis==7.0.0", "Django==5.2.19", "redis==8.1.0"),
        library="django-redis 7.0.0",
        promises="'It supports Redis distributed named locks.'",
        on_death=f"{EXPIRES} (nothing without a timeout, the library's default)",
        outage=ONE_PRIMARY,
        failures=(*expiring("django-redis-lock", replicated=False), overrun("django-redis-lock")),
    )

    def __init__(self, cache: Any, key: str, ttl: float) -> None:
        self._client: RedisClient = cache.client.get_client(write=True)
        self._lock = cache.lock(key, timeout=ttl)

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float) -> DjangoRedisLock:
        host, port = endpoints.addresses[0]
        options = {"REDIS_CLIENT_CLASS": f"{RedisClient.__module__}.{RedisClient.__qualname__}"}
        return cls(RedisCache(f"redis://{host}:{port}/0", {"OPTIONS": options}), key, ttl)

    def acquire(self, timeout: float) -> Grant | None:
        return known_grant(lambda: Grant() if self._lock.acquire(blocking_timeout=timeout) else None, self._client)

    def release(self) -> None:
        with known_outcome(self._client):
            self._lock.release()

    def still_valid(self) -> bool:
        with known_outcome(self._client):
            return bool(self._lock.owned())
