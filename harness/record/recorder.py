"""The recorder, with which an application wraps its locks."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from .wrapping import AnswerRules, AsyncRecordedLock, Client, FromAnswer, RecordedLock
from .writing import Writer


class Recorder(Writer):
    """Records the calls on locks that it wraps."""

    def wrap(
        self,
        lock: Any,
        key: str,
        *,
        valid_for: float | FromAnswer | None = None,
        fence: FromAnswer | None = None,
        granted: Callable[[Any], bool] = bool,
        refused: tuple[type[BaseException], ...] = (),
    ) -> Any:
        """Return a lock that does the same as ``lock``, and records its calls on ``key``.

        It stands for one holder: wrap each lock object by itself. ``valid_for`` is the time in seconds for which the
        lock promises a grant, counted from the return of the acquire (None: until its release). ``fence`` gives the
        token of a grant. Both may be functions of the lock and the answer of its acquire. ``granted`` says whether that
        answer is a grant. An exception means that the outcome is unknown, unless it is one of ``refused``, which mean
        that the call surely had no effect.
        """
        client = Client(self, key, AnswerRules(granted, valid_for, fence, refused))
        return AsyncRecordedLock(lock, client) if _is_async(lock) else RecordedLock(lock, client)

    def wrap_returned(self, key: Callable[[Any], str], **options: Any) -> Callable[[Callable[..., Any]], Any]:
        """Return a decorator for a function that makes locks: it wraps each lock that the function returns.

        ``key`` gives the key of a lock; ``options`` are those of :meth:`wrap`.
        """

        def decorate(make: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(make)
            def made(*arguments: Any, **named: Any) -> Any:
                lock = make(*arguments, **named)
                return self.wrap(lock, key(lock), **options)

            return made

        return decorate


def _is_async(lock: Any) -> bool:
    return hasattr(lock, "__aenter__") or inspect.iscoroutinefunction(getattr(lock, "acquire", None))
