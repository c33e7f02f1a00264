"""Hazelcast's FencedLock, as hazelcast-python-client has it: kept by a CP session, and every grant has a larger fence.

Calls: ``try_lock(timeout)`` → a fence, or 0 when busy · ``unlock()``. The client's heartbeats keep the session alive;
the members close it, and free the lock, when they have heard none for its time-to-live (a setting of theirs).
Source: article 003; Hazelcast's manual, "FencedLock" and "CP Sessions".

FencedLock belongs to a thread of a client. Here it belongs to this object, whatever thread calls it: each has a client
(and so a session) of its own, and one thread that makes all its calls. Where nobody knows what became of a call, the
client is given up, and with its session ends whatever it may hold.

Safe for: correctness, together with a resource that refuses a number below the highest it has seen. By itself it has
two holders whenever the first stands still for longer than its session lives, and when the wall clock of the member
that leads the CP group jumps forward by more than that (seen on 5.3.8).
Known failures: hz-lock (saved by the fence).
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

from lock_impls.base import Endpoints, Failure, Grant, Indeterminate, LockError, LockInfo

CONNECT_S: Final = 3.0
PATIENCE_S: Final = 3.0
"""For an answer, beyond the time that the call itself may wait. The client's own is 120 s."""
REFUSALS: Final = (LockOwnershipLostError, IllegalMonitorStateError, LockAcquireLimitReachedError)
"""The members' words for: that did not happen."""
T = TypeVar("T")


class _Session:
    """A client with its CP session, the lock on it, and the one thread that is the lock's owner."""

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
        """What the operation on the lock gives; raises its errors, and TimeoutError."""
        asked: Future[T] = self._thread.submit(operation, self._lock)
        return asked.result(within)

    def give_up(self) -> None:
        """Close the session in the background, as far as somebody hears of it."""
        self._thread.shutdown(wait=False)
        threading.Thread(target=self._client.shutdown, daemon=True).start()


class FencedLock:
    info: ClassVar = LockInfo(
        name="hazelcast-fenced",
        title="Hazelcast FencedLock",
        algorithm="Raft-replicated lock of a CP session with heartbeats; try_lock(timeout) returns a growing fence.",
        source="hazelcast-python-client 5.7.0; article 003; Hazelcast's manual, 'FencedLock' and 'CP Sessions'",
        safety="F",
        kinds=("hazelcast",),
        library="hazelcast-python-client 5.7.0",
        promises="'A linearizable, distributed lock', 'during crash-stop failures and network partitions'; after a "
        "partition it is 'available on at most one side'.",
        fence=True,
        reentrant=True,
        on_death="the session's time-to-live (5 s here) after its last heartbeat",
        overtime=4.0,  # a session lives that long, whatever the ttl
        outage="kept by the majority; two of three members lost are a CP group lost",
        no_single_point=True,
        failures=(
            Failure(
                "hz-lock",
                "a client that stands still longer than its session lives goes on as if it held the lock",
                "harness run hazelcast-fenced --nemesis client-pause --ttl 6s",
            ),
        ),
    )

    def __init__(self, addresses: list[str], cluster: str, key: str) -> None:
        self.addresses = addresses
        self.cluster = cluster
        self.key = key
        self._session: _Session | None = None

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float, **options: Any) -> Self:  # noqa: ARG003
        """``ttl`` is not the lock's to choose: the session's is set on the members."""
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
        """Asks the members (a pause right after it goes unnoticed all the same)."""
        try:
            return self._session is not None and bool(self._call(_is_mine, PATIENCE_S))
        except (LockError, Indeterminate):
            return False

    def _call(self, operation: Callable[[Any], T], within: float) -> T:
        if self._session is None:
            try:
                self._session = _Session(self.addresses, self.cluster, self.key)
            except HazelcastError as error:  # no lock was asked for
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
    """Without the stack of the member that said it."""
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
