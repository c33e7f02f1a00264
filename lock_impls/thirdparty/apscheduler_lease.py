"""APScheduler 4's lease on a schedule, in its data store on PostgreSQL, unmodified; tested with APScheduler 4.0.0a6
(a pre-release), SQLAlchemy 2.0.58 and asyncpg 0.32.0.

Its documentation promises that a schedule is processed by one of several schedulers that share a data store. A
scheduler acquires the schedules that are due, adds a job for each, and releases them with their next time, while a task
of its own prolongs their leases every half of ``lease_duration``. This adapter takes these steps with the library's
``AsyncScheduler`` and ``SQLAlchemyDataStore``: :meth:`acquire` is ``acquire_schedules``, the renewal calls
``extend_acquired_schedule_leases``, and :meth:`release` is ``release_schedules``. The client's critical section is the
time in which a scheduler adds jobs. Each key is a data store in a schema of its own with one schedule, which is always
due.

A scheduler looks at the lease when it acquires, and by its own clock. It adds its jobs without a look at the lease, and
``release_schedules`` does not report that another scheduler has the schedule by then ("TODO: actually check which rows
were updated?"). :meth:`still_valid` asks the data store, which the library's own loop does not do.

Statements: each a transaction: ``UPDATE schedules SET acquired_by, acquired_until WHERE id IN (SELECT id ... WHERE
acquired_until < now FOR UPDATE SKIP LOCKED) RETURNING`` · ``UPDATE schedules SET acquired_until WHERE acquired_by =
mine`` · ``UPDATE schedules SET acquired_by = NULL WHERE id = k AND acquired_by = mine``. ``now`` is the scheduler's.
The data store repeats a statement whose connection was lost.
Source: apscheduler/_schedulers/async_.py, _process_schedules; apscheduler/datastores/sqlalchemy.py.

The library requires a later release of tenacity than other locks allow, so it is never installed beside them. It
imports sniffio, which it does not require.

Safe for: schedules whose jobs may now and then run twice.

Known failures: aps-pause, aps-clock, late-acquire.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Final, Self

with contextlib.suppress(ModuleNotFoundError):  # then only the description is read
    from apscheduler import AsyncScheduler, ConflictPolicy, RetrySettings, ScheduleResult
    from apscheduler.datastores.sqlalchemy import SQLAlchemyDataStore
    from apscheduler.triggers.interval import IntervalTrigger

import tenacity
from sqlalchemy import URL, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import create_async_engine

from harness.lock_impls.base import Endpoints, Failure, Grant, Indeterminate, LockError, LockInfo
from harness.lock_impls.postgres_client import KINDS, Unreachable

RETRY_S: Final = 0.1
"""Time between two tries for a schedule that another scheduler has. The library waits for an event, or for the time of
the next schedule."""
PATIENCE_S: Final = 3.0
"""For how long the data store repeats a statement; by default a minute."""
LEAST_START_S: Final = 3.0
"""Shortest time in which a scheduler may try to start."""
TIMEOUTS: Final = {"timeout": 2.0, "command_timeout": 2.0}
"""asyncpg's limits for connecting and for an answer (s), which by default are a minute and none."""
_RUN: Final = "harness run apscheduler-lease --cluster docker"

for _name in ("apscheduler", "sqlalchemy"):
    logging.getLogger(_name).addHandler(logging.NullHandler())


ONE_AT_A_TIME: Final = "SELECT pg_advisory_xact_lock(hashtextextended(:key, 0))"


def first_of(error: Exception) -> BaseException:
    """Return the first error of a group, which a scheduler that cannot start raises, or the error itself."""
    found: BaseException = error
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found


def job() -> None:
    """The job of the schedule; it is never run."""


class ApschedulerLease:
    info: ClassVar = LockInfo(
        name="apscheduler-lease",
        title="APScheduler 4's own lease on a schedule on PostgreSQL, unmodified",
        algorithm="UPDATE schedules SET acquired_by, acquired_until WHERE acquired_until < the scheduler's own time",
        source="APScheduler 4.0.0a6, apscheduler/datastores/sqlalchemy.py",
        safety="E",
        kinds=KINDS,
        requires=("APScheduler==4.0.0a6", "SQLAlchemy==2.0.58", "asyncpg==0.32.0", "sniffio>=1.3", "pg8000>=1.29"),
        library="APScheduler 4.0.0a6",
        promises="'Each scheduler [...] will attempt to acquire schedules and jobs from the data store', and "
        "lease_duration is the 'maximum amount of time that the scheduler can keep a lock on a schedule or task'.",
        containers_only="the simulated PostgreSQL lacks the types of its tables",
        asynchronous=True,
        on_death="expiry: other schedulers take a schedule whose lease is over by their own clocks",
        outage="nobody acquires a schedule until the server is back or a standby is promoted",
        failures=(
            Failure("aps-pause", "a scheduler is paused for longer than the lease, and goes on",
                    f"{_RUN} --nemesis client-pause"),
            Failure("aps-clock", "another scheduler's clock is ahead by more than the lease",
                    f"{_RUN} --nemesis clock-offset"),
        ),
    )  # fmt: skip

    def __init__(self, endpoints: Endpoints, key: str, ttl: float) -> None:
        (host, port), *_ = endpoints.addresses
        self._engine = create_async_engine(
            URL.create("postgresql+asyncpg", endpoints.user, endpoints.password, host, port, endpoints.database),
            connect_args=dict(TIMEOUTS),
        )
        self._key = key
        self._lease = timedelta(seconds=ttl)
        self._identity = uuid.uuid4().hex
        self._scheduler: Any = None
        self._schedule: Any = None
        self._renewal: asyncio.Task[None] | None = None

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float) -> Self:
        return cls(endpoints, key, ttl)

    async def acquire(self, timeout: float) -> Grant | None:
        if self._schedule is not None:
            raise LockError(f"{self._key} is held by this scheduler")
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        while True:
            failed = None
            try:
                grant = await self._try(max(LEAST_START_S, deadline - loop.time()))
            except Unreachable as error:
                grant, failed = None, error
            left = deadline - loop.time()
            if grant is not None:
                return grant
            if left <= 0 and failed is not None:
                raise failed
            if left <= 0:
                return None
            await asyncio.sleep(min(left, RETRY_S))

    async def _try(self, patience: float) -> Grant | None:
        await self._start(patience)
        found = await self._store(lambda store: store.acquire_schedules(self._identity, self._lease, 1))
        if not found:
            return None
        (self._schedule,) = found
        self._renewal = asyncio.create_task(self._renew())
        return Grant(valid_for=max(0.0, (self._schedule.acquired_until - datetime.now(UTC)).total_seconds()))

    async def release(self) -> None:
        schedule, self._schedule = self._schedule, None
        if schedule is None:
            raise LockError(f"{self._key} is not held by this scheduler")
        await self._end_renewal()
        result = ScheduleResult(
            schedule_id=schedule.id,
            task_id=schedule.task_id,
            trigger=schedule.trigger,
            last_fire_time=schedule.next_fire_time,
            next_fire_time=schedule.next_fire_time,  # always due
        )
        await self._store(lambda store: store.release_schedules(self._identity, [result]))

    async def still_valid(self) -> bool:
        """Ask the data store for the schedule's lease; it is over by this scheduler's clock, or not."""
        if self._schedule is None:
            return False
        try:
            (row,) = await self._store(lambda store: store.get_schedules({self._schedule.id}))
        except (LockError, Indeterminate):
            return False
        return bool(row.acquired_by == self._identity and row.acquired_until > datetime.now(UTC))

    async def _renew(self) -> None:
        """Prolong the lease as the loop of the library's scheduler does, which an error ends."""
        while True:
            await asyncio.sleep(self._lease.total_seconds() / 2)
            await self._scheduler.data_store.extend_acquired_schedule_leases(
                self._identity, {self._schedule.id}, self._lease
            )

    async def _end_renewal(self) -> None:
        renewal, self._renewal = self._renewal, None
        if renewal is not None:
            renewal.cancel()
            await asyncio.gather(renewal, return_exceptions=True)

    async def _start(self, patience: float) -> None:
        """Create the tables, and the schedule, if this scheduler has not done so yet, one scheduler at a time: of two
        that create the tables at once one gets an error. Raises Unreachable if it could not, for any reason."""
        if self._scheduler is not None:
            return
        limits: Any = tenacity  # not every release of it has types
        store = SQLAlchemyDataStore(
            self._engine, schema=self._key, retry_settings=RetrySettings(stop=limits.stop_after_delay(PATIENCE_S))
        )
        scheduler = AsyncScheduler(store, identity=self._identity, lease_duration=self._lease)
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(patience), self._engine.begin() as connection:
                    await connection.execute(text(ONE_AT_A_TIME), {"key": self._key})
                    await stack.enter_async_context(scheduler)
                    await scheduler.add_schedule(
                        job, IntervalTrigger(days=1, start_time=datetime(2020, 1, 1, tzinfo=UTC)), id=self._key,
                        conflict_policy=ConflictPolicy.do_nothing,
                    )  # fmt: skip
            except Exception as error:  # whatever it is, no lease was requested yet
                raise Unreachable(f"cannot start: {first_of(error)}") from error
            stack.pop_all()  # it runs until its process ends
        self._scheduler = scheduler

    async def _store(self, call: Any) -> Any:
        """Return the result of a call of the data store; raises LockError if the server refused it, or
        Indeterminate."""
        try:
            return await call(self._scheduler.data_store)
        except DBAPIError as error:
            state = getattr(error.orig, "sqlstate", None)
            raise (LockError if state and not error.connection_invalidated else Indeterminate)(str(error)) from error
        except OSError as error:
            raise Indeterminate(f"{type(error).__name__}: {error}") from error
