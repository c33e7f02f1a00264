"""Handling of SIGINT and SIGTERM in commands that execute many runs."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def sigterm_interrupts() -> Iterator[None]:
    """Raise KeyboardInterrupt in the main thread on SIGTERM as on SIGINT; do nothing in other threads.

    SIGINT needs a handler too, because a shell starts background commands with SIGINT ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, signal.default_int_handler) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


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
