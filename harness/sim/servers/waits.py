"""A wait of a SQL statement, as the simulated database servers have it: for a lock, for a time, or for another server.

A statement runs as a generator that yields its waits, and its session resumes it when the wait has ended.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum


class WaitOutcome(Enum):
    """End of a wait."""

    GRANTED = "granted"
    TIMEOUT = "timeout"
    DEADLOCK = "deadlock"
    KILLED = "killed"


class Wait:
    """One wait of a statement. ``limit_ns`` is None for no limit; ``ended`` is set once, by the first :meth:`end`."""

    __slots__ = ("abandon", "checks_client", "ended", "limit_ns", "on_end")

    def __init__(self, limit_ns: int | None, abandon: Callable[[], None] = lambda: None) -> None:
        self.limit_ns = limit_ns
        self.abandon = abandon
        """Called when the wait ends without a grant."""
        self.ended: WaitOutcome | None = None
        self.checks_client = False
        """True if the server notices during the wait, within a second, that the client has disconnected."""
        self.on_end: Callable[[], None] = lambda: None

    def end(self, outcome: WaitOutcome) -> None:
        """End the wait, unless it has ended already."""
        if self.ended is None:
            self.ended = outcome
            if outcome is not WaitOutcome.GRANTED:
                self.abandon()
            self.on_end()
