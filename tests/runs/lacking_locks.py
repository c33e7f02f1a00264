"""Sound locks that need what a simulated server lacks and the real one has."""

from __future__ import annotations

import uuid
from typing import Any

import consul
import etcd3
import pg8000.dbapi
import pymemcache
import pymysql
import redis
from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError
from kazoo.security import make_digest_acl


class _RedisLock:
    def __init__(self, redis: redis.Redis, key: str, ttl: float) -> None:
        self.redis, self.key, self.ttl = redis, key, ttl
        self.token = uuid.uuid4().hex

    def acquire(self) -> bool:
        return bool(self.redis.set(self.key, self.token, nx=True, px=int(self.ttl * 1000)))

    def release(self) -> None:
        raise NotImplementedError


class ReleasesByFunction(_RedisLock):
    """Releases with a Redis function."""

    CODE = (
        "#!lua name=locks\n"
        "redis.register_function('unlock', function(keys, args)\n"
        "  if redis.call('get', keys[1]) == args[1] then return redis.call('del', keys[1]) end\n"
        "end)"
    )

    def release(self) -> None:
        client: Any = self.redis
        try:
            client.fcall("unlock", 1, self.key, self.token)
        except redis.ResponseError:
            client.function_load(self.CODE, replace=True)
            client.fcall("unlock", 1, self.key, self.token)


class ReleasesByStreamInScript(_RedisLock):
    """Records each release in a stream, in the script that releases."""

    CODE = (
        "if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end\n"
        "redis.call('xadd', 'audit', '*', 'released', ARGV[1])\n"
        "return redis.call('del', KEYS[1])"
    )

    def release(self) -> None:
        self.redis.eval(self.CODE, 1, self.key, self.token)


class _SqlLock:
    """A lock of a session. ``servers`` has (host, port) of each."""

    ACQUIRE = ""
    RELEASE = ""

    def __init__(self, servers: list[tuple[str, int]], key: str, ttl: float) -> None:
        self.address, self.key = servers[0], key
        self.connection: Any = None

    def connect(self, **login: Any) -> Any:
        raise NotImplementedError

    def acquire(self) -> bool:
        if self.connection is None:
            host, port = self.address
            self.connection = self.connect(host=host, port=port, user="harness", password="harness", database="harness")
        return bool(self._select(self.ACQUIRE))

    def release(self) -> None:
        self._select(self.RELEASE)

    def _select(self, statement: str) -> Any:
        cursor = self.connection.cursor()
        cursor.execute(statement, (self.key,))
        return cursor.fetchone()[0]


class ReleasesByCase(_SqlLock):
    """Releases a MySQL lock with CASE."""

    kinds = ("mysql-single",)
    ACQUIRE = "SELECT GET_LOCK(%s, 0)"
    RELEASE = "SELECT CASE WHEN IS_USED_LOCK(%s) = CONNECTION_ID() THEN RELEASE_ALL_LOCKS() ELSE 0 END"

    def connect(self, **login: Any) -> Any:
        return pymysql.connect(**login)


class ReleasesWithTransaction(_SqlLock):
    """Reads the number of the transaction in which it releases a PostgreSQL lock."""

    kinds = ("postgres",)
    ACQUIRE = "SELECT pg_try_advisory_lock(hashtext(%s))"
    RELEASE = "SELECT pg_advisory_unlock(hashtext(%s)), txid_current()"

    def connect(self, **login: Any) -> Any:
        connection = pg8000.dbapi.connect(**login)
        connection.autocommit = True
        return connection


class UsesMetaCommands:
    """Acquires with a meta command of memcached."""

    kinds = ("memcached",)

    def __init__(self, servers: list[tuple[str, int]], key: str, ttl: float) -> None:
        self.client, self.key = pymemcache.Client(servers[0]), key

    def acquire(self) -> bool:
        return bool(self.client.raw_command(f"ms {self.key} 1 ME\r\n1") == b"HD")

    def release(self) -> None:
        self.client.delete(self.key)


class ListsAlarms:
    """Acquires only if etcd has no alarm."""

    kinds = ("etcd",)

    def __init__(self, servers: list[tuple[str, int]], key: str, ttl: float) -> None:
        host, port = servers[0]
        self.client, self.key = etcd3.client(host=host, port=port), key

    def acquire(self) -> bool:
        return not list(self.client.list_alarms()) and bool(self.client.put_if_not_exists(self.key, "1"))

    def release(self) -> None:
        self.client.delete(self.key)


class ListsNodes:
    """Acquires only if Consul has a node."""

    kinds = ("consul",)

    def __init__(self, servers: list[tuple[str, int]], key: str, ttl: float) -> None:
        host, port = servers[0]
        self.client, self.key = consul.Consul(host, port), key

    def acquire(self) -> bool:
        return bool(self.client.catalog.nodes()) and bool(self.client.kv.put(self.key, "1", cas=0))

    def release(self) -> None:
        self.client.kv.delete(self.key)


class ProtectsItsNode:
    """Gives its node an access control list of its own."""

    kinds = ("zookeeper",)

    def __init__(self, servers: list[tuple[str, int]], key: str, ttl: float) -> None:
        self.hosts, self.key = ",".join(f"{host}:{port}" for host, port in servers), key
        self.client: KazooClient | None = None

    def acquire(self) -> bool:
        if self.client is None:
            self.client = KazooClient(self.hosts)
            self.client.start()
        acl = [make_digest_acl("user", "password", all=True)]
        try:
            self.client.create(f"/{self.key}", ephemeral=True, acl=acl)
        except NodeExistsError:
            return False
        return True

    def release(self) -> None:
        assert self.client is not None
        self.client.delete(f"/{self.key}")
