"""Which messages of a run are kept: those around its violations, or all of a short run."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Final

from harness.checkers.base import Violation
from harness.history import History

MARGIN_NS: Final = 500_000_000
"""Time before and after a violation, and its calls, of which messages are kept."""
FARTHEST_NS: Final = 10_000_000_000
"""A call that began earlier than this before its violation does not extend the window."""
SHORT: Final = 500
"""A run of at most this number of requests is kept as a whole. To decode them takes about 20 ms."""
MOST: Final = 100_000
"""Largest number of messages that are kept of a whole run."""
MOST_AROUND: Final = 20_000
"""Largest number of messages that are kept around violations, the earliest ones. They add about 1 MB to a report."""
Window = tuple[int, int]


def windows_of(violations: Iterable[Violation], history: History) -> tuple[Window, ...]:
    """Return the times (ns, first and last) around violations, in order and without overlaps."""
    found = sorted(_window(one, history) for one in violations)
    merged: list[Window] = []
    for first, last in found:
        if merged and first <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(last, merged[-1][1])
        else:
            merged.append((first, last))
    return tuple(merged)


def within(windows: Sequence[Window], since: int, until: int) -> bool:
    """Return whether some of the time from ``since`` to ``until`` is in a window."""
    at = bisect_right(windows, until, key=lambda window: window[0])
    return at > 0 and since <= windows[at - 1][1]


def _window(violation: Violation, history: History) -> Window:
    indices = [index for one in violation.involved for index in one.get("indices", ()) if 0 <= index < len(history)]
    times = [violation.from_ns, violation.until_ns, *(history.time[index] for index in indices)]
    first = max(min(times), violation.from_ns - FARTHEST_NS)
    last = min(max(times), violation.from_ns + FARTHEST_NS)
    return first - MARGIN_NS, last + MARGIN_NS
