"""Redis: one server, independent servers, a primary with replicas and sentinels, or a Redis Cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from harness.clusters.server_options import one_of, option, wrong_value
from harness.errors import UsageError
from harness.sim.servers.redis.config import POLICIES, memory_size

from .kind import Kind
from .releases import release_option

REDIS_PORT: Final = 6379
SENTINEL_PORT: Final = 26379
SENTINELS: Final = 3
SERVICE: Final = "mymaster"
QUORUM: Final = 2
DOWN_AFTER_MS: Final = 1000
FAILOVER_TIMEOUT_MS: Final = 5000
NODE_TIMEOUT_MS: Final = 2000
"""Default ``cluster-node-timeout`` of a Redis Cluster. With it a replica is promoted 3.6 to 4.1 s after its primary's
death."""
NODES_FILE: Final = "/var/lib/lock-harness-nodes.conf"
"""Where a node of a Redis Cluster keeps its identity and what it knows of the others. It is beside the data, so a node
that lost its data is still the same node."""
NEWEST_FILES: Final = ("appendonlydir/*.incr.aof", "appendonly.aof")
"""Files with a server's newest data in its data folder; the latter before Redis 7."""
PERSISTENCE: Final = {
    "sim": ("always", "no"),
    "docker": ("always", "everysec", "no"),
    "ssh": ("always", "everysec", "no"),
}
"""Values of ``persistence`` by backend, the default first: when Redis syncs its append-only file (``no``: it has
none)."""


def _persistence(name: str, value: Any, backend: str) -> Any:
    if value == "everysec" and backend == "sim":
        raise UsageError(
            "server_options: persistence 'everysec' needs real servers (--cluster docker): "
            "simulated servers have no disk"
        )
    return one_of(*PERSISTENCE[backend])(name, value, backend)


def _size(name: str, value: Any, backend: str) -> int:
    del backend
    size = memory_size(str(value))
    if size is None:
        raise wrong_value(name, "a size such as '3mb'", value)
    return size


def server_settings(options: Mapping[str, Any], port: int, folder: str) -> list[str]:
    """Return the lines of the configuration of a real server, which keeps its data in ``folder``."""
    persistence = options.get("persistence", "always")
    return [
        f"port {port}", "bind 0.0.0.0", "protected-mode no", f"dir {folder}", 'save ""',
        f"appendonly {'no' if persistence == 'no' else 'yes'}",
        f"appendfsync {'always' if persistence == 'no' else persistence}",
        f"maxmemory {options.get('maxmemory', 0)}",
        f"maxmemory-policy {options.get('maxmemory_policy', 'noeviction')}",
        f"replica-priority {options.get('replica_priority', 100)}",
        "repl-diskless-sync-delay 0", "repl-timeout 5", "repl-ping-replica-period 1",
    ]  # fmt: skip


def cluster_settings(options: Mapping[str, Any]) -> list[str]:
    """Return the lines that make a real server a node of a Redis Cluster."""
    return [
        "cluster-enabled yes", f"cluster-config-file {NODES_FILE}",
        f"cluster-node-timeout {options.get('cluster_node_timeout', NODE_TIMEOUT_MS)}",
    ]  # fmt: skip


_OPTIONS: Final = {
    "release": release_option("redis"),
    "persistence": _persistence,
    "maxmemory": _size,
    "maxmemory_policy": one_of(*POLICIES),
    "replica_priority": option("a whole number from 0", lambda value: type(value) is int and value >= 0),
}
_CLUSTER_OPTIONS: Final = {
    **{name: rule for name, rule in _OPTIONS.items() if name != "replica_priority"},  # for sentinels only
    "cluster_node_timeout": option(
        "a whole number of milliseconds from 100", lambda value: type(value) is int and value >= 100
    ),
}
_FAMILY: Final[dict[str, Any]] = {
    "family": "redis",
    "rank": 1,
    "port": REDIS_PORT,
    "options": _OPTIONS,
    "packages": ("redis", "lupa"),  # the simulator runs scripts with Lua itself
    "floods": "harness.clusters.redis_flood:RedisFloods",
    "one_command_per_message": True,
}
_SERVERS: Final[dict[str, Any]] = {
    **_FAMILY,
    "sim": "harness.clusters.sim.services.redis:RedisServers",
    "docker": "harness.clusters.docker.services.redis:RedisServers",
    "servers": "harness.clusters.servers.services.redis:RedisServer",
    "ssh": "harness.clusters.ssh.services.redis:RedisServers",
}
SINGLE: Final = Kind(name="redis-single", about="a Redis", **_SERVERS)
INDEPENDENT: Final = Kind(
    name="redis-independent",
    about="independent Redis servers without replication",
    nodes=5,
    majority=True,
    **_SERVERS,
)
SENTINEL: Final = Kind(
    name="redis-sentinel",
    about="a Redis, its replicas, and sentinels",
    nodes=3,
    sentinels=SENTINELS,
    sim="harness.clusters.sim.services.redis:SentinelServers",
    docker="harness.clusters.docker.services.redis:SentinelServers",
    servers="harness.clusters.servers.services.redis:SentinelRedis",
    redirects=True,
    **_FAMILY,
)
CLUSTER: Final = Kind(
    name="redis-cluster",
    about="a Redis Cluster of three primaries, each with a replica",
    nodes=6,
    docker="harness.clusters.docker.services.redis_cluster:ClusterServers",
    redirects=True,
    **{**_FAMILY, "options": _CLUSTER_OPTIONS, "floods": ""},  # a flood's keys belong to all nodes
)
