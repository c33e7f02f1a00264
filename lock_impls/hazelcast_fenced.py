"""Hazelcast's FencedLock through hazelcast-python-client: a CP session keeps the lock, and every grant has a larger
fence.

Calls: ``try_lock(timeout)`` → a fence, or 0 when busy · ``unlock()``. The client's heartbeats keep the session alive.
The members close it, and free the lock, when they have received none for its time-to-live (a setting of the members).
Source: article 003; Hazelcast's manual, "FencedLock" and "CP Sessions".

A FencedLock belongs to a thread of a client. Here it belongs to this object, whatever thread calls it: each object has
its own client (and so its own session) and one thread that makes all its calls. If the outcome of a call is unknown,
the client is closed; its session then ends, together with any lock that it may hold.

Safe for: correctness, if the resource refuses a number below the highest it has seen. Without that there can be two
holders, in two cases: the first is paused for longer than its session lives, or the wall clock of the member that leads
the CP group jumps forward by more than that (observed on 5.3.8).

Known failures: hz-lock (covered by the fence).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as Unanswered
from typing import Any, ClassVar, Final, Self, TypeVar

from hazelcast.client import HazelcastClient
from hazelcast.errors import (
    HazelcastError,
    IllegalMonitorStateError,
    LockAcquireLimitReachedError,
    LockOwnershipLostError,
)

from .base import Endpoints, Failure, Grant, Indeterminate, LockError, LockInfo

CONNECT_S: Final = 3.0
PATIENCE_S: Final = 3.0
"""Additional time for an answer, beyond the waiting time of the call. The client's own value is 120 s."""
REFUSALS: Final = (LockOwnershipLostError, IllegalMonitorStateError, LockAcquireLimitReachedError)
"""Errors by which the members say that the operation did not happen."""
T = TypeVar("T")


class _CpSession:
    """A client with its CP session, the lock in it, and the one thread that owns the lock."""

    def __init__(self, addresses: list[str], cluster: str, key: str) -> None:
        self._thread = ThreadPoolExecutor(1, f"hazelcast {key}")
        self._client = HazelcastClient(
            cluster_name=cluster,
            cluster_members=addresses,
            cluster_connect_timeout=CONNECT_S,
            invocation_timeout=PATIENCE_S,
            heartbeat_interval=1.0,
            heartbeat_timeout=PATIENCE_S,
        )
        try:
            self._lock = self._client.cp_subsystem.get_lock(key).blocking()
        except BaseException:
            self.give_up()
            raise

    def call(self, operation: Callable[[Any], T], within: float) -> T:
        """Run ``operation`` on the lock in the owner's thread and return its result; raises its errors, and
        TimeoutError."""
        asked: Future[T] = self._thread.submit(operation, self._lock)
        return asked.result(within)

    def give_up(self) -> None:
        """Close the client in the background; the session ends when the members hear of it, or expires."""
        self._thread.shutdown(wait=False)
        threading.Thread(target=self._client.shutdown, daemon=True).start()


class HazelcastFencedLock:
    info: ClassVar = LockInfo(
        name="hazelcast-fenced",
        title="Hazelcast FencedLock",
        algorithm="Raft-replicated lock of a CP session with heartbeats; try_lock(timeout) returns a growing fence.",
        source="hazelcast-python-client 5.7.0; article 003; Hazelcast's manual, 'FencedLock' and 'CP Sessions'",
        safety="F",
        kinds=("hazelcast",),
        requires=("hazelcast-python-client==5.7.0",),
        library="hazelcast-python-client 5.7.0",
        promises="'A linearizable, distributed lock', 'during crash-stop failures and network partitions'; after a "
        "partition it is 'available on at most one side'.",
        fence=True,
        reentrant=True,
        on_death="expiry: the session's time-to-live (5 s here) after its last heartbeat",
        overtime=4.0,  # the session's time-to-live does not depend on the ttl
        outage="none while a majority is up; if two of three members are lost, the CP group is lost",
        no_single_point=True,
        failures=(
            Failure(
                "hz-lock",
                "a client is paused for longer than its session lives, and goes on as if it held the lock",
                "harness run hazelcast-fenced --nemesis client-pause --ttl 6s",
            ),
        ),
    )

    def __init__(self, addresses: list[str], cluster: str, key: str) -> None:
        self.addresses = addresses
        self.cluster = cluster
        self.key = key
        self._session: _CpSession | None = None

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float, **options: Any) -> Self:  # noqa: ARG003
        """Ignore ``ttl``: the members set the session's time-to-live."""
        addresses = [f"{host}:{port}" for host, port in endpoints.addresses]
        return cls(addresses, endpoints.account, key, **options)

    def acquire(self, timeout: float) -> Grant | None:
        fence = self._call(lambda lock: lock.try_lock(timeout), timeout + PATIENCE_S)
        return Grant(fence=int(fence)) if fence else None

    def release(self) -> None:
        if self._session is None:
            raise LockError(f"{self.key} is not held: its session was given up")
        self._call(lambda lock: lock.unlock(), PATIENCE_S)

    def still_valid(self) -> bool:
        """Ask the members. A pause right after the answer goes unnoticed."""
        try:
            return self._session is not None and bool(self._call(_is_mine, PATIENCE_S))
        except (LockError, Indeterminate):
            return False

    def _call(self, operation: Callable[[Any], T], within: float) -> T:
        if self._session is None:
            try:
                self._session = _CpSession(self.addresses, self.cluster, self.key)
            except HazelcastError as error:  # no lock was requested yet
                raise LockError(_text(error)) from error
        try:
            return self._session.call(operation, within)
        except REFUSALS as error:
            raise LockError(_text(error)) from error
        except (HazelcastError, Unanswered) as error:
            self._session.give_up()
            self._session = None
            raise Indeterminate(_text(error)) from error


def _is_mine(lock: Any) -> bool:
    return bool(lock.is_locked_by_current_thread())


def _text(error: Exception) -> str:
    """Describe an error without the stack trace of the member."""
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
