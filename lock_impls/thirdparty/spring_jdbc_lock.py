"""Spring Integration's JdbcLockRegistry (Java, MySQL or PostgreSQL), unmodified; tested with spring-integration-jdbc
7.1.2 on Java 17, Spring 7.0 and HikariCP.

Its documentation promises a lock that "can be shared between different application instances", which expires after a
time to live (10 s by default, the ttl here); an unlock of an expired lock raises ConcurrentModificationException. It
asks for no synchronised clocks.

A row of INT_LOCK says who has the lock and when it expires: ``UPDATE ... WHERE CLIENT_ID=me OR EXPIRED_AFTER<now``,
then ``INSERT`` if there is no such row; a waiter asks again every 100 ms; unlock is ``DELETE WHERE CLIENT_ID=me``.
*now* is the application's clock (``LocalDateTime.now(ZoneOffset.UTC)``), and no setting takes the database's instead.
Before the row a client takes a ReentrantLock of its registry, for its program's threads. The waiting time of a caller
is measured by the *wall* clock. Any error of a transient kind is answered by another try, for as long as it takes.

The options are those of :mod:`.spring_redis_lock`. Source: JdbcLockRegistry.java, DefaultLockRepository.java.

Safe for: cutting duplicate work.

Known failures: ttl-pause-write, ttl-overrun, spring-jdbc-skew.
"""

from __future__ import annotations

from typing import ClassVar

from harness.lock_impls.base import Failure, LockInfo
from harness.lock_impls.java import LANGUAGE, LEASE, RUN, RUNTIME, SPRING_JDBC
from harness.lock_impls.program import ProgramLock


class SpringJdbcLock(ProgramLock):
    info: ClassVar = LockInfo(
        name="spring-jdbc-lock",
        title="Spring Integration's JdbcLockRegistry, unmodified",
        algorithm="ReentrantLock, then UPDATE INT_LOCK WHERE mine or EXPIRED_AFTER < now, or INSERT; unlock is DELETE.",
        source=f"{SPRING_JDBC}, DefaultLockRepository.java",
        safety="E",
        kinds=("mysql-single", "mysql-replicated", "postgres"),
        reentrant=True,
        options={"new_threads": False, "answer_timeout": 1.0},
        on_death=LEASE,
        outage="unavailable until the server is back",
        lease="ttl",
        language=LANGUAGE,
        library=SPRING_JDBC,
        promises="a lock of all instances of an application, until it expires; unlock reports that it has expired",
        runtime=RUNTIME,
        failures=(
            Failure(
                "ttl-pause-write",
                "the holder is paused for longer than the ttl",
                "harness run spring-jdbc-lock --cluster docker --nemesis client-pause",
            ),
            Failure(
                "ttl-overrun",
                "the work takes longer than the ttl",
                "harness run spring-jdbc-lock --cluster docker --hold 3s",
            ),
        ),
    )
    command: ClassVar = RUN
