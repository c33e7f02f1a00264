"""RedBeat's leadership as it was up to celery-redbeat 1.0.0.

Those releases import ``celery.five``, which needs Python 3.10 or older; so the newest release runs with the
line that differed.
"""

from __future__ import annotations

from typing import Any, ClassVar

from redbeat import RedBeatScheduler
from redbeat.schedulers import get_redis

from harness.lock_impls.origins import model_of
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
