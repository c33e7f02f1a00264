"""``with lock:`` and ``async with lock:`` as a client enters them, whatever the lock's own context manager is.

Python runs the body of ``with`` whenever ``__enter__`` returns. Some libraries ignore the answer of their own
``acquire`` there, so the body runs although the lock was not acquired. A :class:`Context` therefore observes that call.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol

from .base import Grant

UNLIMITED: Final = 1e8
"""Limit (s) of an ``__enter__`` that waits for as long as its library likes."""


class LockContext(Protocol):
    """What a client needs of ``with lock:``, besides entering and leaving it.

    ``limit`` is the time (s) for which ``__enter__`` may wait. ``acquired`` is False if the lock's own ``acquire``
    failed and the body runs nevertheless, and None if no such call was observed.
    """

    @property
    def limit(self) -> float: ...
    @property
    def acquired(self) -> bool | None: ...
    def __enter__(self) -> Grant: ...
    def __exit__(self, *raised: Any) -> bool | None: ...


class Context:
    """A context manager, plain or asynchronous, around that of a lock; a :class:`LockContext`.

    ``outcome`` translates the errors of entering and leaving, as those of ``acquire`` and ``release``. ``grant`` reads
    what a plain lock grants once it is entered, such as its fencing token; if it raises, the lock is left again.
    """

    def __init__(
        self,
        manager: Any,
        outcome: Callable[[], AbstractContextManager[None]],
        limit: float = UNLIMITED,
        grant: Callable[[], Grant] | None = None,
    ) -> None:
        self.limit = limit
        self.acquired: bool | None = None
        self._manager = manager
        self._outcome = outcome
        self._grant = grant

    def __enter__(self) -> Grant:
        """Enter the lock's context. The result is the lock's own Grant, or else one that states nothing."""
        with _Observed(self), self._outcome():
            entered = self._manager.__enter__()
            if self._grant is None:
                return _granted(entered)
            try:
                return self._grant()
            except BaseException:
                self._manager.__exit__(*sys.exc_info())
                raise

    async def __aenter__(self) -> Grant:
        with _Observed(self), self._outcome():
            return _granted(await self._manager.__aenter__())

    def __exit__(self, *raised: Any) -> bool | None:
        with self._outcome():
            left: bool | None = self._manager.__exit__(*raised)
        return left

    async def __aexit__(self, *raised: Any) -> bool | None:
        with self._outcome():
            left: bool | None = await self._manager.__aexit__(*raised)
        return left


class AwaitedContext:
    """A :class:`LockContext` of a lock whose methods are coroutines. ``call`` awaits what a function returns, in the
    event loop of the lock, as the call of that name: a fault can cancel entering as ``acquire``, leaving as
    ``release``."""

    def __init__(self, call: Callable[[str, Callable[[], Any]], Any], context: Context) -> None:
        self._call = call
        self._context = context

    @property
    def limit(self) -> float:
        return self._context.limit

    @property
    def acquired(self) -> bool | None:
        return self._context.acquired

    def __enter__(self) -> Grant:
        entered: Grant = self._call("acquire", self._context.__aenter__)
        return entered

    def __exit__(self, *raised: Any) -> bool | None:
        left: bool | None = self._call("release", lambda: self._context.__aexit__(*raised))
        return left


class _Observed:
    """Observes the calls of ``acquire`` while a lock's context is entered, by an attribute of the lock's object.

    Nothing is observed if the object takes no attribute.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._lock = context._manager
        self._set = False

    def __enter__(self) -> None:
        self._context.acquired = None
        acquire = getattr(self._lock, "acquire", None)
        if callable(acquire):
            try:
                self._lock.acquire = self._noting(acquire)
            except (AttributeError, TypeError):
                return
            self._set = True

    def __exit__(self, *raised: Any) -> None:
        if self._set:
            del self._lock.acquire

    def _noting(self, acquire: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            self._context.acquired = False  # unless it returns
            answer = acquire(*args, **kwargs)
            if inspect.isawaitable(answer):
                return awaited(answer)
            self._context.acquired = bool(answer)
            return answer

        async def awaited(answer: Any) -> Any:
            result = await answer
            self._context.acquired = bool(result)
            return result

        return call


def _granted(entered: object) -> Grant:
    return entered if isinstance(entered, Grant) else Grant()


def enters(cls: type) -> bool:
    """Return whether objects of a lock's class can be used in ``with`` or ``async with``."""
    return any(callable(getattr(cls, name, None)) for name in ("__enter__", "__aenter__"))
