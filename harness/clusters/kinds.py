"""Cluster kinds: what is the same of them on every backend."""

from __future__ import annotations

from typing import Final

REDIS_PORT: Final = 6379
SENTINEL_PORT: Final = 26379
SENTINELS: Final = 3
SERVICE: Final = "mymaster"
QUORUM: Final = 2
DOWN_AFTER_MS: Final = 1000
FAILOVER_TIMEOUT_MS: Final = 5000

_NODES: Final = {"redis-single": 1, "redis-independent": 5, "redis-sentinel": 3}


def kinds() -> list[str]:
    return sorted(_NODES)


def default_nodes(kind: str) -> int:
    return _NODES[kind]


def servers(nodes: int) -> list[str]:
    """Names of the servers."""
    return [f"n{number + 1}" for number in range(nodes)]


def sentinels(kind: str) -> list[str]:
    """Names of the sentinels, where the kind has them."""
    return [f"s{number + 1}" for number in range(SENTINELS)] if kind == "redis-sentinel" else []


def clients(count: int) -> list[str]:
    """Names of the clients."""
    return [f"c{number}" for number in range(count)]


def host_names(kind: str, nodes: int, count: int) -> list[str]:
    """The names of all hosts of a cluster of this kind with ``count`` clients, before it is built."""
    return [*servers(nodes), *sentinels(kind), *clients(count)]
