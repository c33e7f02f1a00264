"""What a lock costs, from the history of a run: how long its answers take, how many grants it gives, and how much of
the time it is to be had."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from .history import SECOND, Call, History
from .runs import Result

SHORTEST_WINDOW: Final = 1.0
"""Seconds in which a lock that is to be had is granted to somebody; longer where sections are."""


def cost(name: str, result: Result, folder: str | None) -> dict[str, Any]:
    """One entry of a lock's ``costs``; latencies in seconds, of calls that succeeded."""
    history, plan = result.history, result.plan
    acquires, releases = _took(history.calls("acquire")), _took(history.calls("release"))
    return {
        "name": name,
        "clients": plan.clients,
        "acquires_per_second": round(len(acquires) / plan.time_limit, 6),
        "acquire_p50_s": quantile(acquires, 0.5),
        "acquire_p99_s": quantile(acquires, 0.99),
        "release_p50_s": quantile(releases, 0.5),
        "availability": availability(history, plan.time_limit, max(SHORTEST_WINDOW, 2 * plan.hold)),
        "run": folder,
    }


def no_cost(name: str, clients: int) -> dict[str, Any]:
    """The entry of a run that was not made, or broke."""
    unknown = ("acquires_per_second", "acquire_p50_s", "acquire_p99_s", "release_p50_s", "availability", "run")
    return {"name": name, "clients": clients, **dict.fromkeys(unknown)}


def _took(calls: Sequence[Call]) -> list[float]:
    return [(call.done.time - call.invoke.time) / SECOND for call in calls if call.done and call.outcome == "ok"]


def quantile(values: Sequence[float], share: float) -> float | None:
    """The smallest value that this share of them does not exceed; None of none."""
    return round(float(np.quantile(values, share, method="inverted_cdf")), 9) if values else None


def availability(history: History, seconds: float, window: float) -> float | None:
    """The share of the run's windows of so many seconds in which somebody was granted a lock; None if nobody asked."""
    calls = history.calls("acquire")
    if not calls:
        return None
    granted = {
        int((call.done.time - history.origin) / SECOND / window) for call in calls if call.done and call.outcome == "ok"
    }
    whole = max(1, int(seconds / window))
    return round(len({number for number in granted if number < whole}) / whole, 6)
