"""All checks, one after the other, and what came of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

from ..errors import unknown_name
from . import holding, losing, speaking
from .bench import Bench, Settings
from .program import Failed, Skipped, TooSlow
from .stage import Check, Stage

CHECKS: Final[tuple[Check, ...]] = (
    speaking.OPENS, *speaking.FIRST, *holding.CHECKS, speaking.IN_ORDER, *losing.CHECKS, holding.DIES, *speaking.LAST,
)  # fmt: skip
"""The first is what all others need."""
Verdict = Literal["holds", "failed", "skipped", "unknown"]


@dataclass(frozen=True, slots=True)
class Result:
    """``seen`` and ``expected`` are there if it failed; ``why`` if it was skipped, or is unknown."""

    name: str
    proves: str
    verdict: Verdict
    seconds: float
    seen: tuple[str, ...] = ()
    expected: str = ""
    why: str = ""


def chosen(names: Sequence[str]) -> tuple[Check, ...]:
    """The checks of these names in their usual order, or all if there are none; raises UsageError."""
    known = [check.name for check in CHECKS]
    for name in names:
        if name not in known:
            raise unknown_name("check", name, known)
    return tuple(check for check in CHECKS if not names or check.name in names)


def run(
    bench: Bench, settings: Settings, checks: Sequence[Check] = CHECKS, begins: Callable[[Check], None] = lambda _: None
) -> Generator[Result, None, None]:
    """Each result as it is there; all programs are ended when it is closed. One that does not even open is not tried
    further."""
    stage = Stage(bench, settings)
    try:
        for check in checks:
            begins(check)
            result = _result(stage, check)
            if result.verdict == "failed":
                stage.clear()
            yield result
            if check is CHECKS[0] and result.verdict == "failed":
                return
    finally:
        stage.clear()


def _result(stage: Stage, check: Check) -> Result:
    began, result = time.monotonic(), partial(Result, check.name, check.proves)
    try:
        check.run(stage)
    except Failed as failed:
        return result("failed", time.monotonic() - began, failed.seen, failed.expected)
    except Skipped as skipped:
        return result("skipped", time.monotonic() - began, why=str(skipped))
    except TooSlow as slow:
        return result("unknown", time.monotonic() - began, why=str(slow))
    return result("holds", time.monotonic() - began)
