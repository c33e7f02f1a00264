"""The known differences between the simulated Redis and a real one: their titles in ``docs/fidelity/redis.md``."""

from __future__ import annotations

from typing import Final

from harness.fidelity.comparison import AnswerPair, Step

CURSORS: Final = "Cursors of SCAN"


def known(step: Step, answers: AnswerPair) -> str:
    """Return the title of a known difference, "" if it is not known."""
    words = [str(word).lower() for word in step[1:]]
    errors = ": -" in answers.real or ": -" in answers.simulated
    if words[:1] == ["scan"] and words[1:2] != ["0"] and not errors:
        return CURSORS
    return ""
