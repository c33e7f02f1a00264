"""One logical client: it calls the lock and the protected resource, and records each call with its outcome and time.

This code runs where the client runs (on a simulated host or in a container), so it uses the client's clocks.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from random import Random
from typing import Any, ClassVar, Final, Protocol

from harness.clusters.base import RecordEntry
from harness.errors import HostEnded, LockFailed
from harness.history import OpType

from .resource import Rejected, Request, ResourceClient, ResourceReply, Token

MAX_ERROR_LENGTH: Final = 300
"""Characters of an error that are recorded in the history."""


class Grant(Protocol):
    """A granted lock; see harness.lock_impls.base.Grant."""

    @property
    def fence(self) -> Token: ...

    @property
    def valid_for(self) -> float | None: ...


class Lock(Protocol):
    """The lock as the client uses it; see harness.lock_impls.base.Lock."""

    def acquire(self, timeout: float) -> Grant | None: ...

    def release(self) -> None: ...


class LockContext(Protocol):
    """``with lock:``; see harness.lock_impls.contexts.LockContext."""

    @property
    def limit(self) -> float: ...

    @property
    def acquired(self) -> bool | None: ...

    def __enter__(self) -> Grant: ...

    def __exit__(self, *raised: Any) -> bool | None: ...


class BodyFailed(Exception):
    """Raised by the body of a ``with`` of the harness, to see whether the lock is released."""


class ClientSettings(Protocol):
    """The settings of a plan that a client needs; durations in seconds."""

    @property
    def keys(self) -> int: ...
    @property
    def clients(self) -> int: ...
    @property
    def hold(self) -> float: ...
    @property
    def rest(self) -> float: ...
    @property
    def acquire_wait(self) -> float: ...
    @property
    def discipline(self) -> str: ...
    @property
    def holds(self) -> dict[str, float]: ...
    @property
    def sections(self) -> int: ...
    @property
    def ends(self) -> dict[str, int]: ...


class Workload(Protocol):
    """The operations of each client in a run. A class with these methods, in a file of its own, adds a workload.

    Optional attributes: ``locks = False`` if its clients never acquire; ``shared = True`` if they acquire shared;
    ``methods`` if they call optional methods of the lock, such as ``("context",)``;
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


class Client:
    """One client. ``process`` is its number; ``refused`` is the exception class for a call that did not happen."""

    def __init__(
        self,
        *,
        node: str,
        process: int,
        settings: ClientSettings,
        open_lock: Callable[[str], Lock],
        refused: type[Exception],
        resource: ResourceClient,
        record: RecordEntry,
        deadline_ns: int,
        rng: Random,
        checkpoint: Callable[[], None],
    ) -> None:
        self.node = node
        self.process = process
        self.settings = settings
        self.rng = rng
        self.hold = settings.holds.get(node, settings.hold)
        self._open_lock = open_lock
        self._refused = refused
        self._resource = resource
        self._record = record
        self._deadline_ns = deadline_ns
        self._checkpoint = checkpoint
        self._locks: dict[str, Lock] = {}
        self._valid_until: dict[str, float | None] = {}
        self._shared: set[str] = set()
        self._entered: set[str] = set()
        """Keys whose lock the client holds by ``with``."""
        self._acquires = 0

    # Time.

    def over(self) -> bool:
        """Return True if the time limit is reached or the client has made all of its acquires."""
        limit = self.settings.ends.get(self.node, self.settings.sections or math.inf)
        return self._acquires >= limit or time.monotonic_ns() >= self._deadline_ns

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    # The lock.

    def acquire(self, key: str, timeout: float | None = None, *, shared: bool = False) -> Grant | None:
        """Acquire the lock; return None if it is not held or the outcome is unknown.

        Waits for ``timeout`` seconds (default: the plan's), but never beyond the end of the run. ``shared`` calls the
        lock's ``acquire_shared``."""
        wait = self._longest_wait(timeout)
        mode = {"shared": True} if shared else {}
        self._acquires += 1
        self._enter("acquire", key, {"timeout": wait, **mode})
        try:
            lock = self._lock(key)
            grant = _shared(lock)(wait) if shared else lock.acquire(wait)
            if grant is not None:
                _check_grant(grant)
        except BaseException as error:  # noqa: BLE001 - _raised decides what is an outcome
            self._raised("acquire", key, error)
            return None
        if grant is None:
            self._leave("fail", "acquire", key, error="busy")
            return None
        (self._shared.add if shared else self._shared.discard)(key)
        self._granted(key, grant, mode)
        return grant

    def _longest_wait(self, timeout: float | None) -> float:
        longest = self.settings.acquire_wait if timeout is None else timeout
        return min(longest, max(0.0, (self._deadline_ns - time.monotonic_ns()) / 1e9))

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
        try:
            context = _context(self._lock(key))(wait)
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
                body(key, grant)
                self._enter("release", key)
                call = "release"
                if fails:
                    raise BodyFailed
        except BodyFailed:
            pass
        except BaseException as error:
            if not call:
                raise
            self._raised(call, key, error)
            return call == "release"
        finally:
            self._entered.discard(key)
        self._leave("ok", "release", key)
        return True

    def check(self, key: str) -> bool:
        """Return whether the lock is still held, by its own check or by the lease; True for ``trusting`` clients."""
        if self.settings.discipline == "trusting":
            return True
        self._enter("check", key)
        # In a ``with`` another object of the lock may have been entered, so only the lease can be asked.
        ask = None if key in self._entered else getattr(self._locks[key], "still_valid", None)
        try:
            valid = bool(ask()) if ask is not None else self._by_own_clock(key)
        except BaseException as error:  # noqa: BLE001
            self._raised("check", key, error)
            return False
        self._leave("ok", "check", key, {"valid": valid})
        return valid

    def _by_own_clock(self, key: str) -> bool:
        until = self._valid_until.get(key)
        return until is None or time.monotonic() < until

    def release(self, key: str) -> None:
        self._enter("release", key)
        try:
            self._locks[key].release()
        except BaseException as error:  # noqa: BLE001
            self._raised("release", key, error)
            return
        self._leave("ok", "release", key)

    def _lock(self, key: str) -> Lock:
        lock = self._locks.get(key)
        if lock is None:
            lock = self._locks[key] = self._open_lock(key)
        return lock

    def counts(self, key: str) -> bool:
        """Return whether the lock, which must have been acquired before, has a counter of its own."""
        return callable(getattr(self._locks[key], "increment", None))

    def add(self, key: str) -> tuple[int, int] | None:
        """Add one to the counter of the lock's own service. Return the values read and written, or None if the call
        failed or its outcome is unknown."""
        self._enter("add", key)
        increment = getattr(self._locks[key], "increment", None)
        try:
            if increment is None:
                raise TypeError("the lock has no increment()")
            seen, written = map(int, increment())
        except BaseException as error:  # noqa: BLE001
            self._raised("add", key, error)
            return None
        self._leave("ok", "add", key, {"seen": seen, "written": written})
        return seen, written

    # Calls of the resource. Each returns None if it was refused or had no answer.

    def read(self, key: str, grant: Grant) -> Any:
        """Return the resource's value. The request says whether the client holds the lock shared."""
        shared = key in self._shared
        asked = {"fence": grant.fence, **({"shared": True} if shared else {})}
        reply = self._access(asked, Request("read", key, grant.fence, shared=shared), lambda r: {"value": r.value})
        return None if reply is None else reply.value

    def write(self, key: str, grant: Grant, value: Any) -> Any:
        """Write ``value`` and return it."""
        asked = {"fence": grant.fence, "value": value}
        reply = self._access(asked, Request("write", key, grant.fence, value))
        return None if reply is None else reply.value

    def take(self, key: str, grant: Grant) -> int | None:
        """Sell one unit and return the number left."""
        asked = {"fence": grant.fence, "n": 1}
        reply = self._access(asked, Request("take", key, grant.fence), lambda r: {"left": r.value})
        return None if reply is None else reply.value

    def mark(self, key: str, grant: Grant) -> int | None:
        """Mark as processed and return how often that has been done so far."""
        request = Request("mark", key, grant.fence)
        reply = self._access({"fence": grant.fence}, request, lambda r: {"times": r.value})
        return None if reply is None else reply.value

    def look(self, key: str) -> tuple[Any, int] | None:
        """Read without a lock; return the value and its version."""
        answer = self._access({"fence": None}, Request("read", key), lambda r: {"value": r.value, "version": r.version})
        return None if answer is None else (answer.value, answer.version)

    def swap(self, key: str, value: Any, version: int) -> Any:
        """Write without a lock if the version is unchanged; return the value written."""
        request = Request("cas", key, None, value, version)
        reply = self._access({"value": value, "version": version}, request)
        return None if reply is None else reply.value

    def _access(
        self,
        asked: dict[str, Any],
        request: Request,
        told: Callable[[ResourceReply], dict[str, Any]] = lambda _: {},
    ) -> ResourceReply | None:
        """Access the resource and record it; the history gets ``asked``, and what ``told`` returns for the reply."""
        f, key = request.op, request.key
        self._enter(f, key, asked)
        try:
            reply = self._resource.call(request)
        except Rejected as error:
            self._leave("fail", f, key, error=str(error))
            return None
        except OSError as error:
            self._raised(f, key, error)
            return None
        self._leave("ok", f, key, {**told(reply), "arrival": reply.arrival})
        return reply

    # Entries.

    def _enter(self, f: str, key: str, value: Any = None) -> None:
        self._entry("invoke", f, key, value)

    def _leave(self, type_: OpType, f: str, key: str, value: Any = None, error: str | None = None) -> None:
        self._entry(type_, f, key, value, error)

    def _raised(self, f: str, key: str, error: BaseException) -> None:
        """Record ``fail`` if the lock said that the call did not happen, ``info`` (unknown outcome) otherwise.

        After ``info`` the client continues under a new process number, as in Jepsen. Raises LockFailed for an
        exception that is no outcome of a call: it would end the process of a real client.
        """
        if isinstance(error, HostEnded | LockFailed):
            raise error
        if isinstance(error, MemoryError) or not isinstance(error, Exception):
            raise LockFailed(f"{f} of the lock raised {type(error).__name__}, which ends a process") from error
        text = f"{type(error).__name__}: {error}"[:MAX_ERROR_LENGTH].encode(errors="backslashreplace").decode()
        if isinstance(error, self._refused):
            self._leave("fail", f, key, error=text)
            return
        self._leave("info", f, key, error=text)
        if f != "read":  # a read changes nothing, so its unknown outcome does not matter
            self.process += self.settings.clients

    def _entry(self, type_: OpType, f: str, key: str, value: Any = None, error: str | None = None) -> None:
        self._record(
            time=time.monotonic_ns(),
            wall=time.time_ns(),
            process=self.process,
            type_=type_,
            f=f,
            key=key,
            value=value,
            error=error,
            node=self.node,
        )
        self._checkpoint()


def _shared(lock: Lock) -> Callable[[float], Grant | None]:
    """Return the lock's method for shared acquires; raises TypeError if it has none."""
    acquire: Callable[[float], Grant | None] | None = getattr(lock, "acquire_shared", None)
    if acquire is None:
        raise TypeError("the lock has no acquire_shared()")
    return acquire


def _context(lock: Lock) -> Callable[[float], LockContext]:
    """Return the lock's method for ``with``; raises TypeError if it has none."""
    context: Callable[[float], LockContext] | None = getattr(lock, "context", None)
    if context is None:
        raise TypeError("the lock cannot be used in 'with'")
    return context


def _check_grant(grant: Grant) -> None:
    """Raise TypeError for a grant that a history cannot hold, as a user's own lock may return."""
    if not isinstance(grant.fence, int | str | None) or isinstance(grant.fence, bool):
        raise TypeError(f"a fence must be an int, a str or None, got {type(grant.fence).__name__}")
    valid = grant.valid_for
    if valid is not None and not (isinstance(valid, int | float) and math.isfinite(valid)):
        raise TypeError(f"valid_for must be seconds or None, got {valid!r}")
