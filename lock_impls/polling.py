"""Waiting for a busy lock by repeated tries, for locks whose service does not notify waiters."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Final

from .base import Grant

RETRY_DELAY_S: Final = 0.1
"""Mean pause between two tries for a busy lock."""


def poll(
    attempt: Callable[[], Grant | None],
    timeout: float,
    retry_delay_s: float = RETRY_DELAY_S,
    *,
    worth_another: type[Exception] | tuple[type[Exception], ...] = (),
) -> Grant | None:
    """Try at least once, and then until ``timeout`` seconds have passed.

    The pause between two tries is 0.5 to 1.5 times ``retry_delay_s``, at random. A try that raises one of
    ``worth_another`` is repeated; if the last try raises one, it is raised here.
    """
    deadline = time.monotonic() + timeout
    while True:
        failed = None
        try:
            grant = attempt()
        except worth_another as error:
            grant, failed = None, error
        if grant is not None:
            return grant
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            if failed is not None:
                raise failed
            return None
        time.sleep(min(remaining, retry_delay_s * (0.5 + random.random())))
