"""Call a lock of another library as a :class:`harness.lock_impls.base.Lock`: convert its results and errors.

``acquire`` gets its waiting time by name (``blocking_timeout timeout wait wait_s``), and ``blocking=True`` if it has
that parameter too (for a try without waiting: only ``blocking=False``). An ``acquire`` that cannot wait is called
repeatedly. Its result: a :class:`Grant` is passed on, any other true value is a grant without fence and validity, and a
false value means not acquired.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from .base import CountsUnanswered, Grant, Indeterminate, LockError
from .contexts import Context, LockContext
from .polling import poll

REFUSAL_NAMES: Final = ("NotAcquired", "LockNotOwned", "NotOwned", "LockError", "ReleaseUnlocked")
"""Parts of exception class names by which libraries refuse a call of a client that does not hold the lock."""
PROLONGING_REFUSALS: Final = (*REFUSAL_NAMES, "ExtendUnlocked", "TooManyExtensions")
"""The same for calls that prolong a lease."""
WAIT_NAMES: Final = ("blocking_timeout", "timeout", "wait", "wait_s")

Construct = Callable[[Callable[[], Any]], Any]
"""A function that calls the given one, which creates a lock, and returns the lock."""
Manager = Callable[[float], tuple[Any, float]]
"""For the time (s) for which ``with`` should wait: returns the lock's context manager and the time for which it may."""


class ForeignLock:
    """Converts another library's results and errors into those of the Lock protocol."""

    def __init__(
        self,
        lock: Any,
        clients: tuple[CountsUnanswered, ...],
        construct: Construct,
        manager: Manager | None,
        prolong: Callable[[Any], Any] | None = None,
    ) -> None:
        self._lock = lock
        self._clients = clients
        self._parameters = inspect.signature(lock.acquire).parameters
        if manager is not None:
            self.context = partial(self._context, construct, manager)
        if prolong is not None:
            self.extend = partial(self._extend, prolong)

    def acquire(self, timeout: float) -> Grant | None:
        before = self._unanswered()
        grant = self._wait(timeout)
        if grant is None and self._unanswered() > before:
            raise Indeterminate("not acquired, but an earlier answer was lost: it may be held by this very client")
        return grant

    def _wait(self, timeout: float) -> Grant | None:
        has_blocking = "blocking" in self._parameters
        wait_name = next((name for name in WAIT_NAMES if name in self._parameters), None)
        if wait_name is None or (has_blocking and timeout <= 0):
            once = {"blocking": False} if has_blocking else {}
            return poll(lambda: self._try(once), timeout)
        return self._try({wait_name: timeout, **({"blocking": True} if has_blocking else {})})

    def _try(self, arguments: Mapping[str, Any]) -> Grant | None:
        with self._outcome():
            answer = self._lock.acquire(**arguments)
        return answer if isinstance(answer, Grant) else Grant() if answer else None

    def release(self) -> None:
        with self._outcome(refusals=REFUSAL_NAMES):
            self._lock.release()

    def _extend(self, prolong: Callable[[Any], Any]) -> bool:
        try:
            with self._outcome(refusals=PROLONGING_REFUSALS):
                answer = prolong(self._lock)
        except LockError:  # the library says that the lock is lost
            return False
        return answer is None or bool(answer)

    def _context(self, construct: Construct, manager: Manager, timeout: float) -> LockContext:
        def make() -> Context:
            lock, limit = manager(timeout)
            if isinstance(lock, Context):
                return lock
            return Context(lock, lambda: self._outcome(refusals=REFUSAL_NAMES), limit)

        context: LockContext = construct(make)
        return context

    @contextmanager
    def _outcome(self, refusals: tuple[str, ...] = ()) -> Iterator[None]:
        before = self._unanswered()
        try:
            yield
        except (LockError, Indeterminate, MemoryError):  # out of memory is no outcome of a call
            raise
        except Exception as error:
            text = f"{type(error).__name__}: {error}"[:300]
            refused = any(part in type(error).__name__ for part in refusals)
            if refused and self._unanswered() == before:
                raise LockError(text) from error
            raise Indeterminate(text) from error

    def _unanswered(self) -> int:
        return sum(client.unanswered for client in self._clients)


class OwnOpenLock(ForeignLock):
    """A class with its own ``open``: its optional methods mean what ours mean, so they are passed on."""

    def __init__(
        self, lock: Any, clients: tuple[CountsUnanswered, ...], construct: Construct, manager: Manager | None
    ) -> None:
        super().__init__(lock, clients, construct, manager)
        for name in ("acquire_shared", "extend", "still_valid", "increment"):
            if callable(getattr(lock, name, None)):
                setattr(self, name, getattr(lock, name))
