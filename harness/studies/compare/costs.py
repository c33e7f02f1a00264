"""Cost of a lock, computed from the history of a run: latencies, grants a second, and availability."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.checkers import availability
from harness.documents.comparison import ComparedCost
from harness.history import SECOND, Call, History
from harness.run.verdicts.judging import Result


def cost(name: str, result: Result, folder: str | None) -> ComparedCost:
    """Return one entry of a lock's ``costs``. Latencies are in seconds, of successful calls only."""
    history, plan = result.history, result.plan
    acquires, releases = _took(history.calls("acquire")), _took(history.calls("release"))
    return ComparedCost(
        name=name,
        clients=plan.clients,
        acquires_per_second=round(len(acquires) / plan.time_limit, 6),
        acquire_p50_s=quantile(acquires, 0.5),
        acquire_p99_s=quantile(acquires, 0.99),
        release_p50_s=quantile(releases, 0.5),
        availability=_availability(history),
        run=folder,
    )


def no_cost(name: str, clients: int) -> ComparedCost:
    """Return the entry of a run that was not made or failed."""
    return ComparedCost(name=name, clients=clients)


def _took(calls: Sequence[Call]) -> list[float]:
    return [(call.done.time - call.invoke.time) / SECOND for call in calls if call.done and call.outcome == "ok"]


def quantile(values: Sequence[float], share: float) -> float | None:
    """Return the smallest value that is at least as large as this ``share`` of the values; None if there are none."""
    return round(float(np.quantile(values, share, method="inverted_cdf")), 9) if values else None


def _availability(history: History) -> float | None:
    stretches = availability.stretches_of(history)
    found = None if stretches is None else availability.share(availability.served(stretches))
    return None if found is None else round(found, 6)
