"""Who is quickest: the order of services that the articles claim, held against what was measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

CLAIMED: Final = ("redis", "etcd", "zookeeper", "mysql")
SOURCE: Final = "articles 001 to 004"
CANONICAL: Final = {
    "redis": "redis-token",
    "etcd": "etcd-mutex",
    "zookeeper": "zookeeper-sequential",
    "mysql": "mysql-unique",
}
WHY: Final = (
    "the lock that the articles themselves show for each service: SET NX PX with a token, etcd's Mutex, the recipe of "
    "sequential nodes, and a row with a unique key"
)
ALIKE: Final = 0.05
"""Values that differ by no more than this share are a tie, in which the claimed order is not contradicted."""
Cost = Mapping[str, Any]


def ranking(costs: Mapping[str, Sequence[Cost]]) -> dict[str, Any]:
    """The document's ``ranking``; ``costs`` by lock. Measures for which fewer than two services have a value are left
    out, and so is a service whose lock was not compared."""
    locks = {service: lock for service, lock in CANONICAL.items() if lock in costs}
    measures = [
        _measure("acquire and release, alone, median", "ms", locks, costs, "alone", _round_ms, low=True),
        _measure("grants, contended", "a second", locks, costs, "contended", _rate, low=False),
    ]
    return {
        "claimed": list(CLAIMED),
        "source": SOURCE,
        "why_these": WHY,
        "measures": [measure for measure in measures if len(measure["values"]) > 1],
    }


def _round_ms(cost: Cost) -> float | None:
    parts = [cost["acquire_p50_s"], cost["release_p50_s"]]
    return None if None in parts else round(sum(parts) * 1000, 3)


def _rate(cost: Cost) -> float | None:
    return None if cost["acquires_per_second"] is None else round(cost["acquires_per_second"], 1)


def _measure(
    name: str,
    unit: str,
    locks: Mapping[str, str],
    costs: Mapping[str, Sequence[Cost]],
    of: str,
    value: Callable[[Cost], float | None],
    *,
    low: bool,
) -> dict[str, Any]:
    found = {
        service: value(cost)
        for service in CLAIMED
        if service in locks
        for cost in costs[locks[service]]
        if cost["name"] == of
    }
    values = {service: it for service, it in found.items() if it is not None}
    order = sorted(values, key=lambda service: values[service] if low else -values[service])
    return {
        "name": name,
        "unit": unit,
        "better": "low" if low else "high",
        "values": values,
        "locks": {service: locks[service] for service in values},
        "order": order,
        "agrees": agrees(values, low=low),
    }


def agrees(values: Mapping[str, float], *, low: bool) -> bool:
    """Is none of the services that are there clearly better than one that the articles put before it?"""
    there = [values[service] for service in CLAIMED if service in values]
    if not low:
        return all(one * (1 + ALIKE) >= two for number, one in enumerate(there) for two in there[number + 1 :])
    return all(one <= two * (1 + ALIKE) for number, one in enumerate(there) for two in there[number + 1 :])
