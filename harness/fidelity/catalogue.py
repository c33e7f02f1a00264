"""The servers that are compared, by name."""

from __future__ import annotations

from typing import Final

from .comparison import Server
from .etcd import EtcdComparison
from .memcached import MemcachedComparison
from .mysql import MysqlComparison
from .postgres import PostgresComparison
from .redis import RedisComparison
from .zookeeper import ZooKeeperComparison

SERVERS: Final[dict[str, Server]] = {
    one.name: one
    for one in (
        RedisComparison(), MemcachedComparison(), MysqlComparison(), PostgresComparison(), ZooKeeperComparison(),
        ZooKeeperComparison(3), EtcdComparison(), EtcdComparison(3),
    )
}  # fmt: skip
