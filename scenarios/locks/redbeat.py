"""RedBeat's leadership as earlier releases had it.

The releases up to 1.0.0 import ``celery.five``, which needs Python 3.10 or older; so the newest release runs with the
line that differed.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

from redbeat import RedBeatScheduler
from redbeat.schedulers import get_redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from harness.lock_impls.base import Endpoints
from harness.lock_impls.origins import model_of
from harness.lock_impls.redis_client import open_client
from harness.lock_impls.thirdparty.celery_redbeat import CeleryRedbeat


class PexpireScheduler(RedBeatScheduler):  # type: ignore[misc] # it has no types
    """Prolongs the key without a look at its owner."""

    def tick(self, *args: Any, **options: Any) -> Any:
        if self.lock:
            self.lock.extend = self._prolong
        return super().tick(*args, **options)

    def _prolong(self, timeout: float) -> None:
        get_redis(self.app).pexpire(self.lock_key, int(timeout * 1000))


class ExtendsAnyKey(CeleryRedbeat):
    """redbeat-pexpire: each pass prolongs the lock, whoever owns it."""

    origin: ClassVar = model_of(
        "the extension of the lock", "celery-redbeat", "1.0.0", "redbeat/schedulers.py, line 447; sibson/redbeat#127"
    )
    scheduler = PexpireScheduler


class ChecksOwner(CeleryRedbeat):
    """redbeat-pexpire, cured as in celery-redbeat 2.0.0."""

    origin: ClassVar = ExtendsAnyKey.origin.fixed("a script that compares the owner before it prolongs the lock")


class LocklessScheduler(RedBeatScheduler):  # type: ignore[misc] # it has no types
    """Extends the lock only if there is one."""

    def tick(self, *args: Any, **options: Any) -> Any:
        if not self.lock:
            self.lock_key = None
        return super().tick(*args, **options)


class LeadsWithoutLock(CeleryRedbeat):
    """redbeat-no-lock: a beat that could not acquire the lock goes on without one."""

    origin: ClassVar = model_of(
        "the pass of a scheduler without a lock",
        "celery-redbeat",
        "2.0.0",
        "redbeat/schedulers.py, line 464; sibson/redbeat#208, #240",
    )
    scheduler = LocklessScheduler

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float, default_timeout: bool = False) -> Self:
        """Open it as with redis-py 3: an error ends the request."""
        client = open_client(endpoints, decode_responses=True, socket_timeout=1.0, retry=Retry(NoBackoff(), 0))
        return cls(client, key, ttl, default_timeout)


class EndsWithoutLock(LeadsWithoutLock):
    """redbeat-no-lock, cured as in celery-redbeat 2.1.0."""

    origin: ClassVar = LeadsWithoutLock.origin.fixed("a pass without a lock ends the beat")
    scheduler = RedBeatScheduler
