"""Rank services by measured speed, and compare the order with the one that the articles claim for four of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from harness.documents.comparison import ComparedCost, Ranking, RankingMeasure

CLAIMED: Final = ("redis", "etcd", "zookeeper", "mysql")
SOURCE: Final = "articles 001 to 004"
CANONICAL: Final = {
    "redis": "redis-token",
    "etcd": "etcd-mutex",
    "zookeeper": "zookeeper-sequential",
    "mysql": "mysql-unique",
    "memcached": "memcached-token",
    "postgres": "postgres-advisory",
    "consul": "consul-session",
    "nats": "nats-kv",
    "hazelcast": "hazelcast-fenced",
}
"""The lock that stands for each service."""
WHY: Final = (
    "the lock that the articles show for Redis (SET NX PX with a token), etcd (its Mutex), ZooKeeper (the recipe of "
    "sequential nodes) and MySQL (a row with a unique key); for the services that they do not rank, ADD with a token "
    "(memcached), pg_advisory_lock (PostgreSQL), a key of a session (Consul), a bucket of keys (NATS), and FencedLock "
    "(Hazelcast)"
)
ALIKE: Final = 0.05
"""Relative difference up to which two values are a tie, which does not contradict the claimed order."""


def ranking(costs: Mapping[str, Sequence[ComparedCost]]) -> Ranking:
    """Return the document's ``ranking`` of ``costs`` by lock. Measures that fewer than two services have a value for
    are left out, and so are services whose lock was not compared."""
    locks = {service: lock for service, lock in CANONICAL.items() if lock in costs}
    measures = [
        _measure("acquire and release without contention, median", "ms", locks, costs, "alone", _round_ms, low=True),
        _measure("grants under contention", "per second", locks, costs, "contended", _rate, low=False),
    ]
    usable = tuple(measure for measure in measures if len(measure.values) > 1)
    return Ranking(claimed=CLAIMED, source=SOURCE, why_these=WHY, measures=usable)


def _round_ms(cost: ComparedCost) -> float | None:
    if cost.acquire_p50_s is None or cost.release_p50_s is None:
        return None
    return round((cost.acquire_p50_s + cost.release_p50_s) * 1000, 3)


def _rate(cost: ComparedCost) -> float | None:
    return None if cost.acquires_per_second is None else round(cost.acquires_per_second, 1)


def _measure(
    name: str,
    unit: str,
    locks: Mapping[str, str],
    costs: Mapping[str, Sequence[ComparedCost]],
    of: str,
    value: Callable[[ComparedCost], float | None],
    *,
    low: bool,
) -> RankingMeasure:
    found = {service: value(cost) for service, lock in locks.items() for cost in costs[lock] if cost.name == of}
    values = {service: it for service, it in found.items() if it is not None}
    return RankingMeasure(
        name=name,
        unit=unit,
        better="low" if low else "high",
        values={**values},
        locks={service: locks[service] for service in values},
        order=tuple(sorted(values, key=lambda service: values[service] if low else -values[service])),
        agrees=agrees(values, low=low),
    )


def agrees(values: Mapping[str, float], *, low: bool) -> bool:
    """Return True if no service is clearly better than one that the articles rank above it."""
    there = [values[service] for service in CLAIMED if service in values]
    if not low:
        return all(one * (1 + ALIKE) >= two for number, one in enumerate(there) for two in there[number + 1 :])
    return all(one <= two * (1 + ALIKE) for number, one in enumerate(there) for two in there[number + 1 :])
