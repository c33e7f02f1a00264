"""What a lock costs, from the history of a run: how long its answers take, how many grants it gives, and how much of
the time it is to be had."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from checkers import availability

from ..history import SECOND, Call, History
from ..runs import Result


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
        "availability": _availability(history),
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


def _availability(history: History) -> float | None:
    stretches = availability.stretches_of(history)
    found = None if stretches is None else availability.share(availability.served(stretches))
    return None if found is None else round(found, 6)
