"""sherlock's ``RedisLock`` (0.4.1, unmodified) with leases that its documentation allows but its script cannot
handle."""

from __future__ import annotations

from typing import ClassVar

import sherlock

from harness.lock_impls.origins import use_of
from harness.lock_impls.redis_client import RedisClient
from harness.lock_impls.thirdparty.sherlock_redis import SherlockRedis


class NeverExpires(SherlockRedis):
    """sherlock-forever: ``expire=None``, for a lock that does not expire."""

    origin: ClassVar = use_of(
        "sherlock", "0.4.1", "locks that never expire (expire=None)", "sherlock/lock.py; py-sherlock/sherlock#37"
    )

    def __init__(self, client: RedisClient, key: str, ttl: float) -> None:
        super().__init__(client, key, ttl)
        self._lock = sherlock.RedisLock(key, client=client, expire=None, retry_interval=0.1)


class FloatLease(SherlockRedis):
    """sherlock-float: ``expire`` is documented as a float, but Redis takes whole seconds."""

    origin: ClassVar = use_of("sherlock", "0.4.1", "leases that are floats", "sherlock/lock.py")

    def __init__(self, client: RedisClient, key: str, ttl: float) -> None:
        super().__init__(client, key, ttl)
        self._lock = sherlock.RedisLock(key, client=client, expire=float(ttl), retry_interval=0.1)
