"""List of all conformance checks, and a runner that yields their results."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

from harness.errors import unknown_name

from . import lock_checks, network_loss_checks, protocol_checks
from .check_context import Check, CheckContext
from .program import CheckFailed, CheckSkipped, CheckTooSlow
from .testbed import ConformanceSettings, Testbed

CHECKS: Final[tuple[Check, ...]] = (
    protocol_checks.OPENS,
    *protocol_checks.FIRST,
    *lock_checks.CHECKS,
    protocol_checks.IN_ORDER,
    *network_loss_checks.CHECKS,
    lock_checks.DIES,
    *protocol_checks.LAST,
)
"""All checks in order. All others depend on the first."""
CheckVerdict = Literal["holds", "failed", "skipped", "unknown"]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Result of a check. ``seen`` and ``expected`` are set if it failed, ``why`` if it was skipped or is unknown."""

    name: str
    proves: str
    verdict: CheckVerdict
    seconds: float
    seen: tuple[str, ...] = ()
    expected: str = ""
    why: str = ""


def chosen(names: Sequence[str]) -> tuple[Check, ...]:
    """Return the checks with these names in the usual order, all if ``names`` is empty. Raise UsageError for an
    unknown name."""
    known = [check.name for check in CHECKS]
    for name in names:
        if name not in known:
            raise unknown_name("check", name, known)
    return tuple(check for check in CHECKS if not names or check.name in names)


def run(
    testbed: Testbed,
    settings: ConformanceSettings,
    checks: Sequence[Check] = CHECKS,
    on_start: Callable[[Check], None] = lambda _: None,
) -> Generator[CheckResult, None, None]:
    """Run checks and yield each result; closing the generator kills all programs. If the first check fails, the others
    are not run."""
    context = CheckContext(testbed, settings)
    try:
        for check in checks:
            on_start(check)
            result = _result(context, check)
            if result.verdict == "failed":
                context.clear()
            yield result
            if check is CHECKS[0] and result.verdict == "failed":
                return
    finally:
        context.clear()


def _result(context: CheckContext, check: Check) -> CheckResult:
    began, result = time.monotonic(), partial(CheckResult, check.name, check.proves)
    try:
        check.run(context)
    except CheckFailed as failed:
        return result("failed", time.monotonic() - began, failed.seen, failed.expected)
    except CheckSkipped as skipped:
        return result("skipped", time.monotonic() - began, why=str(skipped))
    except CheckTooSlow as slow:
        return result("unknown", time.monotonic() - began, why=str(slow))
    return result("holds", time.monotonic() - began)
