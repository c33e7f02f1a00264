"""Handling of SIGINT and SIGTERM in commands that execute runs."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

FORCED_EXIT_INTERRUPTS: Final = 3
"""Number of interrupts after which a command ends without removing its containers."""


@contextlib.contextmanager
def interrupts_handled(handler: Callable[[int, Any], Any]) -> Iterator[None]:
    """Call ``handler`` with the number on SIGINT and SIGTERM in the main thread; do nothing in other threads."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


def sigterm_interrupts() -> contextlib.AbstractContextManager[None]:
    """Raise KeyboardInterrupt in the main thread on SIGTERM as on SIGINT; do nothing in other threads.

    SIGINT needs a handler too, because a shell starts background commands with SIGINT ignored.
    """
    return interrupts_handled(signal.default_int_handler)


@contextlib.contextmanager
def interrupts_delayed() -> Iterator[None]:
    """Deliver SIGINT and SIGTERM when the block is left, so that they do not cut a removal short. Of several signals
    the first is delivered; the third raises KeyboardInterrupt at once (see :data:`FORCED_EXIT_INTERRUPTS`)."""
    noted: list[int] = []

    def handler(number: int, _: Any) -> None:
        noted.append(number)
        if len(noted) >= FORCED_EXIT_INTERRUPTS:
            raise KeyboardInterrupt

    try:
        with interrupts_handled(handler):
            yield
    finally:
        if noted:
            signal.raise_signal(noted[0])


@contextlib.contextmanager
def sigint_noted() -> Iterator[Callable[[], bool]]:
    """Note SIGINT instead of raising KeyboardInterrupt, which a lock's code could catch; the result says whether it
    came."""
    noted: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: noted.append(number))
    try:
        yield lambda: bool(noted)
    finally:
        signal.signal(signal.SIGINT, before)
