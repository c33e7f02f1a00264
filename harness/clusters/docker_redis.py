"""Real Redis servers, and sentinels where the kind has them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from .base import Address
from .docker_keys import Eye
from .docker_kinds import ASK, RealServers, reading
from .kinds import (
    DOWN_AFTER_MS,
    FAILOVER_TIMEOUT_MS,
    QUORUM,
    REDIS_PORT,
    SENTINEL_PORT,
    SENTINELS,
    SERVICE,
)

READINGS: Final = 5
# Every start of a program: its configuration is written when it has none, that is at first and after a loss of data.
_START: Final = """
[ -s /data/conf ] || printf "%s" "$CONF" > /data/conf
exec "$@" /data/conf $FLAGS
"""


class Family(RealServers):
    """See :class:`harness.clusters.docker_kinds.RealServers`."""

    @classmethod
    def abilities(cls, kind: str) -> set[str]:
        return {"evict"} | ({"failover", "peers"} if kind == "redis-sentinel" else set())

    @property
    def stages(self) -> list[list[str]]:
        """A sentinel that starts before the replicas are linked learns of them only ten seconds later."""
        return super().stages

    def port(self, host: str) -> int:
        return SENTINEL_PORT if self.roles[host] == "sentinel" else REDIS_PORT

    def address(self) -> Address:
        role = "sentinel" if self.kind == "redis-sentinel" else "server"
        there = [name for name, of in self.roles.items() if of == role]
        return Address(self.kind, tuple((self.addresses[name], self.port(name)) for name in there))

    def program(self, host: str) -> tuple[list[str], dict[str, str]]:
        """Command and environment."""
        sentinel = self.roles[host] == "sentinel"
        conf = self._sentinel() if sentinel else self._server(host)
        command = ["sh", "-c", _START, "start", "redis-server"]
        return command, {"CONF": "\n".join(conf) + "\n", "FLAGS": "--sentinel" if sentinel else ""}

    def _server(self, host: str) -> list[str]:
        options = self.options
        persistence = options.get("persistence", "always")
        conf = [
            f"port {REDIS_PORT}", "bind 0.0.0.0", "protected-mode no", "dir /data", 'save ""',
            f"appendonly {'no' if persistence == 'no' else 'yes'}",
            f"appendfsync {'always' if persistence == 'no' else persistence}",
            f"maxmemory {options.get('maxmemory', 0)}",
            f"maxmemory-policy {options.get('maxmemory_policy', 'noeviction')}",
            f"replica-priority {options.get('replica_priority', 100)}",
            "repl-diskless-sync-delay 0", "repl-timeout 5", "repl-ping-replica-period 1",
        ]  # fmt: skip
        if self.kind == "redis-sentinel" and host != "n1":
            conf.append(f"replicaof {self.addresses['n1']} {REDIS_PORT}")
        return conf

    def _sentinel(self) -> list[str]:
        return [
            f"port {SENTINEL_PORT}", "bind 0.0.0.0", "protected-mode no", "dir /data",
            f"sentinel monitor {SERVICE} {self.addresses['n1']} {REDIS_PORT} {QUORUM}",
            f"sentinel down-after-milliseconds {SERVICE} {DOWN_AFTER_MS}",
            f"sentinel failover-timeout {SERVICE} {FAILOVER_TIMEOUT_MS}",
            f"sentinel parallel-syncs {SERVICE} 1",
        ]  # fmt: skip

    # Questions.

    def _client(self, host: str) -> redis.Redis:
        return redis.Redis(
            host=self.addresses[host],
            port=self.port(host),
            socket_timeout=ASK,
            socket_connect_timeout=ASK,
            retry=Retry(NoBackoff(), 0),
            decode_responses=True,
        )

    def _ask(self, host: str, question: Callable[[redis.Redis], Any]) -> Any:
        """The answer, None if there was none."""
        try:
            with self.gate.open(), self._client(host) as client:
                return question(client)
        except (redis.RedisError, OSError):
            return None

    def answers(self, host: str) -> bool:
        return bool(self._ask(host, lambda client: client.ping()))

    def size(self, host: str) -> int | None:
        """How many keys, None if it does not say."""
        if self.roles[host] == "sentinel":
            return None
        size: int | None = self._ask(host, lambda client: client.dbsize())
        return size

    def clock(self, host: str) -> int | None:
        """ns that the host's wall clock is ahead of this machine's, as the server says itself; the reading that took
        least time. None if it does not answer."""
        read = self._info_clock if self.roles[host] == "sentinel" else self._time_clock

        def readings(client: redis.Redis) -> int:
            read(client)  # makes the connection
            return min((reading(lambda: read(client)) for _ in range(READINGS)), key=lambda found: found[0])[1]

        offset: int | None = self._ask(host, readings)
        return offset

    @staticmethod
    def _time_clock(client: redis.Redis) -> int:
        seconds, microseconds = client.time()
        return int(seconds) * 1_000_000_000 + int(microseconds) * 1000

    @staticmethod
    def _info_clock(client: redis.Redis) -> int:
        info: Any = client.info("server")
        return int(info["server_time_usec"]) * 1000

    def primary(self) -> str | None:
        """What most sentinels name."""
        if self.kind != "redis-sentinel":
            return None
        named = [self._named(host) for host, role in self.roles.items() if role == "sentinel"]
        known = [name for name in named if name is not None]
        return max(known, key=known.count) if known else None

    def _named(self, sentinel: str) -> str | None:
        found = self._ask(sentinel, lambda client: client.sentinel_get_master_addr_by_name(SERVICE))
        ips = {ip: host for host, ip in self.addresses.items()}
        return ips.get(found[0]) if found else None

    def eye(self, host: str) -> Callable[[], Eye]:
        from .docker_redis_keys import RedisEye

        return partial(RedisEye, self.addresses[host], self.port(host))

    def version(self) -> str:
        """What the servers say they are."""
        told: Any = self._ask("n1", lambda client: client.info("server"))
        return f"redis {told['redis_version']}" if told else ""

    def ready(self, host: str) -> bool:
        if self.roles[host] == "sentinel":
            return bool(self._ask(host, lambda client: _knows_all(client, self._peers())))
        if self.kind == "redis-sentinel":
            return bool(self._ask(host, lambda client: _replicates(client, primary=host == "n1", peers=self._peers())))
        return self.answers(host)

    def _peers(self) -> int:
        return sum(role == "server" for role in self.roles.values()) - 1


def _replicates(client: redis.Redis, *, primary: bool, peers: int) -> bool:
    """Linked, and acknowledging: WAIT counts a replica only a second after it is online."""
    if primary:
        client.set("lock-harness:probe", "1")
        linked = client.execute_command("WAIT", peers, 50) == peers  # type: ignore[no-untyped-call]
        client.delete("lock-harness:probe")
        return bool(linked)
    info: Any = client.info("replication")
    return bool(info.get("master_link_status") == "up")


def _knows_all(client: redis.Redis, replicas: int) -> bool:
    about: Any = client.sentinel_master(SERVICE)
    wanted = {"num-other-sentinels": SENTINELS - 1, "num-slaves": replicas, "flags": "master"}
    return all(about[name] == value for name, value in wanted.items())
