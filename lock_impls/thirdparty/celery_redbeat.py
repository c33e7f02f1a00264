"""celery-redbeat's leadership of schedulers, unmodified; tested with celery-redbeat 2.4.2, celery 5.7.0, redis 8.1.0.

Its documentation promises to "prevent accidentally running multiple Beat servers": a beat acquires a lock when it
starts, and prolongs it in each pass of its loop (``tick``), before it sends the tasks that are due. If that fails it
ends with an error. This adapter takes the steps of Celery's ``Service.start`` one by one: :meth:`acquire` makes a
scheduler, sends the signal ``beat_init`` (RedBeat's receiver acquires the lock) and lets the scheduler make its first
pass; :meth:`extend` is one more pass, and :meth:`release` closes the scheduler, as a beat that is shut down does.

A beat waits for the lock without a limit; this adapter ends the wait when its time is over. ``tick`` cuts the lock's
timeout to whole seconds, so the adapter rounds the ttl up. A beat tries again every ``beat_max_loop_interval``, here
0.2 s. The schedule is empty. ``close`` does not report that the lock was lost. With ``default_timeout=True`` the loop
takes a fifth of the ttl, and RedBeat computes the timeout: five times the loop, not rounded.

Requests: ``SMEMBERS`` of the old schedule, and ``SET key token NX PX ms``, every 0.2 s while another beat has it · each
pass: ``EVALSHA`` of "if GET is mine then PEXPIRE", and two ``ZRANGEBYSCORE`` of the schedule · close: ``GET key``,
``EVALSHA`` of "if GET is mine then DEL".
Source: redbeat/schedulers.py; celery/beat.py.

Safe for: schedules whose tasks may now and then be sent twice. A beat does not look at the lock between its extension
and the tasks that it sends.

Known failures: redbeat-pexpire and redbeat-no-lock (earlier releases), redbeat-fraction (default_timeout=True),
ttl-pause-write, redis-clock-fwd, redis-restart-empty, redis-async-failover, redis-evict, lost-reply-acquire.
"""

from __future__ import annotations

import logging
import math
from functools import partial
from typing import Any, ClassVar, Final, Self

import redis
from celery import Celery, signals
from celery.beat import Service
from redbeat import RedBeatScheduler

from harness.lock_impls.base import Endpoints, Failure, Grant, Indeterminate, LockError, LockInfo
from harness.lock_impls.redis_client import ANSWER_TIMEOUT, RedisClient, known_grant, known_outcome, open_client
from harness.lock_impls.redis_failures import EXPIRES, ONE_PRIMARY, SINGLE_KEY_KINDS, expiring

LOOP_S: Final = 0.2
"""``beat_max_loop_interval``."""
PASSES: Final = 5
"""RedBeat's default for a lock's timeout, in intervals of the loop."""

logging.getLogger("celery").addHandler(logging.NullHandler())  # it logs what fails in a receiver of beat_init


class CeleryRedbeat:
    info: ClassVar = LockInfo(
        name="celery-redbeat",
        title="celery-redbeat's own lock of schedulers, unmodified",
        algorithm="SET key token NX PX ms; each pass, Lua: if get == token then pexpire; Lua: if get == token then del",
        source="celery-redbeat 2.4.2, redbeat/schedulers.py",
        safety="E",
        kinds=SINGLE_KEY_KINDS,
        answer_timeout=ANSWER_TIMEOUT,
        requires=("celery-redbeat==2.4.2", "celery==5.7.0", "redis==8.1.0"),
        library="celery-redbeat 2.4.2",
        promises="'RedBeat uses a distributed lock to prevent multiple instances running.'",
        on_death=EXPIRES,
        outage=ONE_PRIMARY,
        overtime=1.0,
        lease="ttl",
        options={"default_timeout": False},
        failures=(
            *expiring("celery-redbeat"),
            Failure(
                "redbeat-fraction",
                "the default timeout for a short loop is below a second, and each extension deletes the key",
                "harness run celery-redbeat --lock-option default_timeout=true --ttl 500ms",
            ),
        ),
    )

    scheduler: ClassVar[type[RedBeatScheduler]] = RedBeatScheduler

    def __init__(self, client: RedisClient, key: str, ttl: float, default_timeout: bool = False) -> None:
        self._client: Any = client
        self._app: Any = Celery(set_as_current=False, broker="memory://")
        self._app.conf.update(
            redbeat_redis_url="redis://",
            redbeat_key_prefix=key,
            redbeat_lock_key=key,
            result_expires=None,  # no entry of Celery's own in the schedule
            **(_loop_alone(ttl) if default_timeout else _timeout_and_loop(ttl)),
        )
        self._app.redbeat_redis = client  # it counts the requests that were not answered
        self._service: Any = None

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float, default_timeout: bool = False) -> Self:
        return cls(open_client(endpoints, decode_responses=True), key, ttl, default_timeout)

    def acquire(self, timeout: float) -> Grant | None:
        return known_grant(lambda: self._start(timeout), self._client)

    def _start(self, timeout: float) -> Grant | None:
        """Start a beat, as ``Service.start`` does. Celery logs what the receivers of ``beat_init`` raise, and goes
        on."""
        self._client.lock = partial(type(self._client).lock, self._client, blocking_timeout=timeout)
        service: Any = Service(self._app, scheduler_cls=self.scheduler)
        signals.beat_init.send(sender=service)
        if service.scheduler.lock is not None and service.scheduler.lock.local.token is None:
            return None  # its time was over
        _first_pass(service)
        self._service = service
        return Grant()

    def release(self) -> None:
        if self._service is None:
            raise LockError("no beat was started")
        with known_outcome(self._client):
            self._service.sync()
        self._service = None

    def extend(self) -> bool:
        try:
            with known_outcome(self._client):
                self._service.scheduler.tick()
        except LockError:  # redis-py's: another beat has the lock by now, or nobody
            return False
        return True


def _timeout_and_loop(ttl: float) -> dict[str, float]:
    return {"redbeat_lock_timeout": math.ceil(ttl), "beat_max_loop_interval": LOOP_S}


def _loop_alone(ttl: float) -> dict[str, float]:
    return {"beat_max_loop_interval": ttl / PASSES}


def _first_pass(service: Any) -> None:
    try:
        service.scheduler.tick()
    except AttributeError as error:  # RedBeat's: its scheduler has no lock, because an error left the receiver
        raise LockError("the scheduler has no lock") from error
    except (redis.ConnectionError, redis.TimeoutError) as error:
        raise Indeterminate("the lock was acquired, and the first pass failed") from error
