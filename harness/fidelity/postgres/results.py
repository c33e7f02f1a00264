"""Results of steps, as both sides of the comparison have them."""

from __future__ import annotations

from typing import Final, NamedTuple

from harness.protocols.postgres_answers import CLOSED

STILL_WAITS: Final = "still waits"
"""Answer to a step of a session whose earlier statement waits: the step does nothing."""
REQUESTED: Final = "requested"
RESTARTED: Final = "restarted"
DEADLOCK_TIMEOUT: Final = "1ms"
SHORT: Final = "300ms"
"""A time-out that ends within its step: longer than a statement takes that does not wait."""
LONG: Final = "1000s"
"""A time-out that does not end within the sequence."""
IDLE_SETTINGS: Final = ("idle_session_timeout", "idle_in_transaction_session_timeout")


class StepResult(NamedTuple):
    """``answer`` is "" if the statement waits; ``ended`` are the answers to statements that have waited until this
    step, and the last messages of sessions that the server has closed, by session."""

    answer: str
    ended: dict[int, str]

    def text(self) -> str:
        late = [f"session {number}: {answer}" for number, answer in sorted(self.ended.items())]
        return " | ".join([self.answer or "waits", *late])

    def closes(self, number: int) -> bool:
        """Return whether the server has closed another session in this step."""
        return self.ended.get(number, "").endswith(CLOSED)
