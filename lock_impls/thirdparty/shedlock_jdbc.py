"""ShedLock's JdbcTemplateLockProvider (Java, MySQL or PostgreSQL), unmodified; tested with
shedlock-provider-jdbc-template 7.10.1 on Java 17, Spring 7.0 and HikariCP.

Its documentation promises that a scheduled task is "executed at most once at the same time", provided that no task runs
for longer than lockAtMostFor (which is the ttl here), and it "assumes that clocks on the nodes are more or less in
sync". It "strongly" recommends ``usingDbTime()``, which is off by default: that is the option ``db_time``.

A row for each lock says until when it is locked. To lock, a client inserts the row, or updates it ``WHERE lock_until <=
now``; both times come from the application's clock, with ``db_time`` from the database. To unlock it sets
``lock_until`` to now ``WHERE locked_by = me``, and does not report whether it found the row. ``locked_by`` is the name
of the host. Before 7.0.0 unlock had no condition on ``locked_by``.

ShedLock does not wait: ``docker/java`` asks again every 50 ms. The option ``answer_timeout`` is how long the driver
waits for an answer, in seconds; by default the drivers wait for ever. Source: JdbcTemplateStorageAccessor.java,
SqlStatementsSource.java.

Safe for: cutting duplicate work.

Known failures: ttl-pause-write, ttl-overrun, shedlock-skew, shedlock-unlock-foreign (before 7.0.0).
"""

from __future__ import annotations

from typing import ClassVar

from harness.lock_impls.base import Failure, LockInfo
from harness.lock_impls.java import LANGUAGE, LEASE, RUN, RUNTIME, SHEDLOCK_JDBC
from harness.lock_impls.program import ProgramLock


class ShedLockJdbc(ProgramLock):
    info: ClassVar = LockInfo(
        name="shedlock-jdbc",
        title="ShedLock's JdbcTemplateLockProvider, unmodified",
        algorithm="INSERT (name, lock_until), or UPDATE WHERE lock_until <= now; unlock sets lock_until = now.",
        source=f"{SHEDLOCK_JDBC}, JdbcTemplateStorageAccessor.java",
        safety="E",
        kinds=("mysql-single", "mysql-replicated", "postgres"),
        options={"db_time": False, "answer_timeout": 1.0},
        on_death=LEASE,
        outage="unavailable until the server is back",
        language=LANGUAGE,
        library=SHEDLOCK_JDBC,
        promises=(
            "a task runs at most once at the same time, if none takes longer than lockAtMostFor and the clocks are "
            "more or less in sync (usingDbTime needs no clocks)"
        ),
        runtime=RUNTIME,
        failures=(
            Failure(
                "ttl-pause-write",
                "the holder is paused for longer than lockAtMostFor",
                "harness run shedlock-jdbc --cluster docker --nemesis client-pause",
            ),
            Failure(
                "ttl-overrun",
                "the task takes longer than lockAtMostFor",
                "harness run shedlock-jdbc --cluster docker --hold 3s",
            ),
        ),
    )
    command: ClassVar = RUN
