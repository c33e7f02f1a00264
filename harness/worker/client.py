"""One logical client: it calls the lock and the protected resource, and records each call with its outcome and time.

This code runs where the client runs (on a simulated host or in a container), so it uses the client's clocks.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, ClassVar, Final, NoReturn, Protocol

from harness.clusters.base import RecordEntry
from harness.errors import Ending, Interruption, LockFailed, ProcessEnds

from .interfaces import ClientSettings, Grant, Lock, LockContext
from .recorded_calls import error_text
from .resource import ResourceClient
from .resource_calls import ResourceCalls

LONGEST_LEASE_S: Final = 1e9
"""Longest lease of a grant: its end in nanoseconds must fit a history."""


class BodyFailed(Exception):
    """Raised by the body of a ``with`` of the harness, to see whether the lock is released."""


class Workload(Protocol):
    """The operations of each client in a run. A class with these methods, in a file of its own, adds a workload.

    Optional attributes: ``locks = False`` if its clients never acquire; ``updates = True`` if its critical sections
    read and change the resource, so that a run in which too few of them do so tests nothing;
    ``shared = True`` if they acquire shared;
    ``methods`` if they call optional methods of the lock, such as ``("context",)``; ``rare = True`` if hunts use it for
    each lock with these methods, less often than the usual workloads;
    ``leases`` is the longest time for which its clients plan to hold a lock, in leases, if they renew them;
    ``threads`` is the number of threads of each client that share the lock's objects, and each run the workload;
    ``ends_processes = True`` if they call :meth:`Client.end_process`;
    ``schedule`` if the workload brings faults: dicts with the fields of a FaultSpec, where ``"1.5 ttl"`` means a
    multiple of the lock's ttl. A plan that has a fault of the same kind does without the schedule.
    """

    name: ClassVar[str]

    @staticmethod
    def stock(settings: ClientSettings, duration: float) -> dict[str, Any]:
        """Return the initial values of the resources by name; others start at 0. ``duration`` is in seconds."""

    @staticmethod
    def run(client: Client) -> None:
        """Run one client until ``client.over()``."""


class Client(ResourceCalls):
    """One client. ``process`` is its number; ``refused`` is the exception class for a call that did not happen."""

    def __init__(
        self,
        *,
        node: str,
        process: int,
        settings: ClientSettings,
        open_lock: Callable[[str], Lock],
        end_loop: Callable[[], None],
        refused: type[Exception],
        resource: ResourceClient,
        record: RecordEntry,
        deadline_ns: int,
        rng: Random,
        checkpoint: Callable[[], None],
    ) -> None:
        super().__init__(
            resource,
            node=node,
            process=process,
            settings=settings,
            refused=refused,
            record=record,
            checkpoint=checkpoint,
        )
        self.rng = rng
        self.hold = settings.holds.get(node, settings.hold)
        self._open_lock = open_lock
        self._end_loop = end_loop
        self._deadline_ns = deadline_ns
        self._locks: dict[str, Lock] = {}
        self._valid_until: dict[str, float | None] = {}
        self._leases: dict[str, float] = {}
        self._reliance: dict[str, float] = {}
        self._relied_until: dict[str, float] = {}
        self._entered: set[str] = set()
        """Keys whose lock the client holds by ``with``."""
        self._held: list[str] = []
        """Keys that the client has acquired and not begun to release, other than by ``with``."""
        self._acquires = 0

    # Time.

    def over(self) -> bool:
        """Return True if the time limit is reached or the client has made all of its acquires."""
        limit = self.settings.ends.get(self.node, self.settings.sections or math.inf)
        return self._acquires >= limit or time.monotonic_ns() >= self._deadline_ns

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    # The lock.

    def acquire(
        self, key: str, timeout: float | None = None, *, shared: bool = False, lease_share: float | None = None
    ) -> Grant | None:
        """Acquire the lock; return None if it is not held or the outcome is unknown.

        Waits for ``timeout`` seconds (default: the plan's), but never beyond the end of the run. ``shared`` calls the
        lock's ``acquire_shared``. With ``lease_share`` the client relies on the lock for this share of its lease only,
        and for as long again after each :meth:`extend` in time."""
        wait = self._longest_wait(timeout)
        mode = {"shared": True} if shared else {}
        self._acquires += 1
        self._enter("acquire", key, {"timeout": wait, **mode})
        try:
            lock = self._lock(key)
            grant = _optional(lock, "acquire_shared")(wait) if shared else lock.acquire(wait)
            if grant is not None:
                _check_grant(grant)
        except BaseException as error:  # noqa: BLE001 - _raised decides what is an outcome
            self._raised("acquire", key, error)
            return None
        if grant is None:
            self._leave("fail", "acquire", key, error="busy")
            return None
        (self._shared.add if shared else self._shared.discard)(key)
        self._granted(key, grant, {**mode, **self._relied_on(key, grant, lease_share)})
        self._held.append(key)
        return grant

    def _longest_wait(self, timeout: float | None) -> float:
        longest = self.settings.acquire_wait if timeout is None else timeout
        return min(longest, max(0.0, (self._deadline_ns - time.monotonic_ns()) / 1e9))

    def _relied_on(self, key: str, grant: Grant, lease_share: float | None) -> dict[str, float]:
        """Begin to rely on a lock; return what the history says about that."""
        self._leases[key] = self.settings.ttl if grant.valid_for is None else grant.valid_for
        if lease_share is None:
            self._relied_until.pop(key, None)
            return {}
        self._reliance[key] = lease_share * self._leases[key]
        self._relied_until[key] = time.monotonic() + self._reliance[key]
        return {"relies_for": self._reliance[key]}

    def lease(self, key: str) -> float:
        """Return the length (s) of the lease of the last grant: what it said, or else the plan's ttl."""
        return self._leases[key]

    def relies(self, key: str) -> bool:
        """Return whether the client relies on the lock still (see :meth:`acquire`)."""
        return time.monotonic() < self._relied_until.get(key, math.inf)

    def can_extend(self, key: str) -> bool:
        """Return whether the lock, which must have been acquired before, has ``extend``."""
        return callable(getattr(self._locks[key], "extend", None))

    def extend(self, key: str) -> bool | None:
        """Prolong the lease; return whether the lock said that it is still held. None if it raised."""
        self._enter("extend", key)
        invoked = time.monotonic()
        try:
            extended = bool(_optional(self._locks[key], "extend")())
        except BaseException as error:  # noqa: BLE001 - _raised decides what is an outcome
            self._raised("extend", key, error)
            return None
        self._leave("ok", "extend", key, {"extended": extended, **(self._prolonged(key, invoked) if extended else {})})
        return extended

    def _prolonged(self, key: str, invoked: float) -> dict[str, float]:
        """Rely on the lock for longer from the time ``invoked``; return what the history says about that."""
        now = time.monotonic()
        if self._valid_until.get(key) is not None:
            self._valid_until[key] = now + self._leases[key]
        if key not in self._relied_until or not self.relies(key):
            return {}
        self._relied_until[key] = invoked + self._reliance[key]
        return {"relies_for": self._relied_until[key] - now}

    def _granted(self, key: str, grant: Grant, more: dict[str, Any]) -> None:
        started = time.monotonic()
        self._valid_until[key] = None if grant.valid_for is None else started + grant.valid_for
        self._leave("ok", "acquire", key, {"fence": grant.fence, "valid_for": grant.valid_for, **more})

    def within(
        self, key: str, body: Callable[[str, Grant], None], timeout: float | None = None, *, fails: bool = False
    ) -> bool:
        """Run ``body`` in ``with lock:``, and return whether it ran. With ``fails`` it raises at its end.

        ``__enter__`` is recorded as an acquire, and ``__exit__`` as a release."""
        wait = self._longest_wait(timeout)
        self._acquires += 1
        ended: BaseException | None = None
        try:
            context: LockContext = _optional(self._lock(key), "context")(wait)
        except BaseException as error:  # noqa: BLE001 - _raised decides what is an outcome
            self._enter("acquire", key, {"timeout": wait, "context": True})
            self._raised("acquire", key, error)
            return False
        self._enter("acquire", key, {"timeout": max(wait, context.limit), "context": True})
        call = "acquire"
        try:
            with context as grant:
                _check_grant(grant)
                call = ""
                self._entered.add(key)
                refused = {"acquired": False} if context.acquired is False else {}
                self._granted(key, grant, {"context": True, **refused})
                ended = self._ended(partial(body, key, grant), fails=fails)
                self._enter("release", key, {"interrupted": True} if isinstance(ended, Interruption) else None)
                call = "release"
                if ended is not None:
                    raise ended
        except BaseException as error:
            if not call:
                raise
            if error is not ended:
                self._raised(call, key, error)
                return call == "release"
        finally:
            self._entered.discard(key)
        self._leave("ok", "release", key)
        return True

    @staticmethod
    def _ended(body: Callable[[], None], *, fails: bool) -> BaseException | None:
        """Run the body of a ``with``; return the exception with which it ends, None if there is none."""
        try:
            body()
        except Interruption as error:
            return error
        return BodyFailed() if fails else None

    def check(self, key: str) -> bool:
        """Return whether the lock is still held, by its own check or by the lease; True for ``trusting`` clients."""
        if self.settings.discipline == "trusting":
            return True
        self._enter("check", key)
        # In a ``with`` another object of the lock may have been entered, so only the lease can be asked.
        ask = None if key in self._entered else getattr(self._locks[key], "still_valid", None)
        try:
            valid = bool(ask()) if ask is not None else self._by_own_clock(key)
        except BaseException as error:  # noqa: BLE001 - _raised decides what is an outcome
            self._raised("check", key, error)
            return False
        self._leave("ok", "check", key, {"valid": valid})
        return valid

    def _by_own_clock(self, key: str) -> bool:
        until = self._valid_until.get(key)
        return until is None or time.monotonic() < until

    def release(self, key: str, *, idle: bool = False, elsewhere: bool = False, interrupted: bool = False) -> bool:
        """Release the lock; return whether the outcome is known. ``idle``: the client knows that it holds nothing, so
        the answer "released" is no claim that it has held the lock until now. ``elsewhere``: another thread releases
        it, and if the lock refuses that, this one. ``interrupted``: an exception has ended the critical section."""
        if key in self._held:
            self._held.remove(key)
        flags = {"idle": idle, "elsewhere": elsewhere, "interrupted": interrupted}
        how = {name: True for name, it in flags.items() if it}
        self._enter("release", key, how or None)
        process, refusal = self.process, None
        try:
            lock = self._lock(key)
            refusal = _raised_elsewhere(lock.release) if elsewhere else None
            if refusal is not None or not elsewhere:
                lock.release()
        except BaseException as error:  # noqa: BLE001 - _raised decides what is an outcome
            self._raised("release", key, error)
            return self.process == process
        self._leave("ok", "release", key, None if refusal is None else {"refused": error_text(refusal)})
        return True

    def release_all(self) -> None:
        """Release what the client holds after an interruption, the last first."""
        while self._held:
            self.release(self._held[-1], interrupted=True)

    def _lock(self, key: str) -> Lock:
        lock = self._locks.get(key)
        if lock is None:
            lock = self._locks[key] = self._open_lock(key)
        return lock

    # The process.

    def end_process(self, ending: Ending) -> NoReturn:
        """Begin to end this client's process; raises what ends it. The history then has an entry ``exit``, with the
        names of the threads for which the interpreter waits. When the process is gone, the run starts it again."""
        threads = [
            one.name for one in threading.enumerate() if not one.daemon and one is not threading.current_thread()
        ]
        self._event("exit", {"host": self.node, "by": ending, "threads": threads})
        end = ProcessEnds(ending)
        if end.cleans_up:
            self._end_loop()  # as asyncio.run does, which ends before the main thread
        raise end

    def counts(self, key: str) -> bool:
        """Return whether the lock, which must have been acquired before, has a counter of its own."""
        return callable(getattr(self._locks[key], "increment", None))

    def add(self, key: str) -> tuple[int, int] | None:
        """Add one to the counter of the lock's own service. Return the values read and written, or None if the call
        failed or its outcome is unknown."""
        self._enter("add", key)
        try:
            seen, written = map(int, _optional(self._locks[key], "increment")())
        except BaseException as error:  # noqa: BLE001 - _raised decides what is an outcome
            self._raised("add", key, error)
            return None
        self._leave("ok", "add", key, {"seen": seen, "written": written})
        return seen, written


def _raised_elsewhere(call: Callable[[], None]) -> Exception | None:
    """Make a call in another thread, and return what it raises. Raises LockFailed if the thread ends otherwise."""
    ended: list[Exception | None] = []

    def run() -> None:
        try:
            call()
        except Exception as error:  # noqa: BLE001 - the caller judges it
            ended.append(error)
        else:
            ended.append(None)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join()
    if not ended:
        raise LockFailed("a call of the lock ended the thread that made it")
    return ended[0]


def _optional(lock: Lock, name: str) -> Callable[..., Any]:
    """Return an optional method of the lock; raises TypeError if it has none."""
    method: Callable[..., Any] | None = getattr(lock, name, None)
    if method is None:
        raise TypeError(f"the lock has no {name}()")
    return method


def _check_grant(grant: Grant) -> None:
    """Raise TypeError for a grant that a history cannot hold, as a user's own lock may return."""
    if not isinstance(grant.fence, int | str | None) or isinstance(grant.fence, bool):
        raise TypeError(f"a fence must be an int, a str or None, got {type(grant.fence).__name__}")
    valid = grant.valid_for
    if valid is not None and not (isinstance(valid, int | float) and abs(valid) <= LONGEST_LEASE_S):
        raise TypeError(f"valid_for must be None or at most {LONGEST_LEASE_S:g} seconds, got {valid!r}")
