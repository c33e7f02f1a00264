"""Cluster kinds: what is the same of them on every backend."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

REDIS_PORT: Final = 6379
SENTINEL_PORT: Final = 26379
SENTINELS: Final = 3
SERVICE: Final = "mymaster"
QUORUM: Final = 2
DOWN_AFTER_MS: Final = 1000
FAILOVER_TIMEOUT_MS: Final = 5000
ACCOUNT: Final = "harness"
"""User, password and database, where servers have such."""
BOTH: Final = frozenset({"sim", "docker"})


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of cluster. ``family`` names the modules that build it: ``sim_<family>`` and ``docker_<family>``, as far
    as it is there on these ``backends``; ``watchers`` are hosts that look after servers: sentinels, or a manager."""

    family: str
    port: int
    about: str
    nodes: int = 1
    watchers: int = 0
    backends: frozenset[str] = BOTH


KINDS: Final[dict[str, Kind]] = {
    "redis-single": Kind("redis", REDIS_PORT, "a Redis"),
    "redis-independent": Kind("redis", REDIS_PORT, "Redis servers that know nothing of each other", 5),
    "redis-sentinel": Kind("redis", REDIS_PORT, "a Redis, its replicas, and sentinels", 3, SENTINELS),
    "mysql-single": Kind("mysql", 3306, "a MariaDB"),
    "mysql-replicated": Kind("mysql", 3306, "a MariaDB, its replica, and a manager that promotes it", 2, 1),
    "memcached": Kind("memcached", 11211, "a memcached"),
    "zookeeper": Kind("zookeeper", 2181, "a ZooKeeper ensemble", 3),
    "etcd": Kind("etcd", 2379, "an etcd cluster", 3),
    "chubby": Kind("chubby", 2400, "a Chubby cell, which exists only as a simulation", 5, 0, frozenset({"sim"})),
    "hazelcast": Kind("hazelcast", 5701, "Hazelcast members with a CP group", 3, 0, frozenset({"docker"})),
}


def kinds(backend: str | None = None) -> list[str]:
    """The names of all kinds, or of those that a backend can build."""
    return sorted(name for name, kind in KINDS.items() if backend is None or backend in kind.backends)


def default_nodes(kind: str) -> int:
    return KINDS[kind].nodes


def servers(nodes: int) -> list[str]:
    """Names of the servers."""
    return [f"n{number + 1}" for number in range(nodes)]


def sentinels(kind: str) -> list[str]:
    """Names of the hosts that look after the servers, where the kind has them."""
    return [f"s{number + 1}" for number in range(KINDS[kind].watchers)]


def clients(count: int) -> list[str]:
    """Names of the clients."""
    return [f"c{number}" for number in range(count)]


def host_names(kind: str, nodes: int, count: int) -> list[str]:
    """The names of all hosts of a cluster of this kind with ``count`` clients, before it is built."""
    return [*servers(nodes), *sentinels(kind), *clients(count)]
