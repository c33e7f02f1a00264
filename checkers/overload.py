"""Violations of time limits in a run whose programs waited for a processor, because the machine had too few.

The cluster states the waits in the ``stop`` entry (``processor_waits``). A lock that had to wait is late for no fault
of its own. So a violation counts only if it remains when the plan's slack is longer by the longest time that one thread
waited within :data:`WINDOW_NS`. Violations that depend on no limit, such as two holders, do not change.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import msgspec

from harness.history import SECOND, History
from harness.history.lock_keys import changed_history
from harness.wording import in_seconds

from .base import Verdict

WINDOW_NS: Final = 5 * SECOND
"""A limit, with its slack, is a few seconds."""
FEW_NS: Final = SECOND // 10
"""Waits that are shorter in sum are usual on every machine."""
Check = Callable[[History], Verdict]


def longest_wait_ns(history: History) -> int:
    """Return the longest time for which a thread may have waited for a processor within :data:`WINDOW_NS`, or at a
    stretch if that was longer; 0 if it was short, or is not known.

    The samples of a window may be of different threads, so their sum is an upper bound for one of them. The kernel
    counts a wait at its end, so one sample may have a wait that began before the window."""
    longest = total = 0
    window: deque[tuple[int, int]] = deque()
    for stop in history.nemesis("stop"):
        for at, wait in stop.value.get("processor_waits", ()):
            window.append((at, wait))
            total += wait
            while window[0][0] <= at - WINDOW_NS:
                total -= window.popleft()[1]
            longest = max(longest, wait, min(total, WINDOW_NS))
    return longest if longest >= FEW_NS else 0


def despite_waits(history: History, wait_ns: int, verdict: Verdict, check: Check) -> Verdict:
    """Return the verdict with the violations that remain with a slack that is longer by ``wait_ns``; unknown if there
    are none."""
    found = check(_with_longer_slack(history, wait_ns))
    if found.valid is False:
        return replace(verdict, evidence=found.evidence, explanation=found.explanation)
    return Verdict(
        None,
        f"{verdict.explanation}; but programs of this run waited for a processor for up to {in_seconds(wait_ns)}, "
        "and a slack that is longer by that excuses it: use a machine with more processors, or run less beside it",
        (),
        verdict.stats,
    )


def _with_longer_slack(history: History, longer_ns: int) -> History:
    ops = list(history)
    for at, op in enumerate(ops):
        if op.process < 0 and op.f == "start" and op.value.get("slack") is not None:
            settings = {**op.value, "slack": op.value["slack"] + longer_ns / SECOND}
            ops[at] = msgspec.structs.replace(op, value=settings)
    return changed_history(history, ops)
