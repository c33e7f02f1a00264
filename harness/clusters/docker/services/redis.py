"""Redis servers in containers, with sentinels if the kind has them: configuration, probes and readiness."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar, Final

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from harness.clusters.base import ClusterEndpoints
from harness.clusters.docker.commands import RedisCommands
from harness.clusters.docker.containers.server_tools import SHELL
from harness.clusters.docker.kinds import ANSWER_S, RealPeers, RealServers, reading
from harness.clusters.key_watch import KeyReader
from harness.clusters.kinds.redis import (
    DOWN_AFTER_MS,
    FAILOVER_TIMEOUT_MS,
    NEWEST_FILES,
    QUORUM,
    REDIS_PORT,
    SENTINEL_PORT,
    SENTINELS,
    SERVICE,
    server_settings,
)

READINGS: Final = 5
# Runs at every start: the configuration is written if missing, which is at first and after a loss of data. A loss of
# power must leave it, and a full disk no part of it: Redis would run with its defaults and answer nobody.
_START: Final = """
[ -e /data/conf ] || {
    printf "%s" "$CONF" > /data/conf.new && sync /data/conf.new && mv /data/conf.new /data/conf && sync /data || exit
}
exec "$(command -v redis-server || command -v valkey-server || echo redis-server)" /data/conf $FLAGS
"""


class RedisServers(RealServers):
    """Independent servers. See :class:`harness.clusters.docker.kinds.RealServers`."""

    COMMANDS = RedisCommands
    PROGRAMS: ClassVar[Mapping[str, str]] = {"server": "redis-server"}
    NEWEST = NEWEST_FILES

    def program(self, host: str) -> tuple[list[str], dict[str, str]]:
        return self._command(self._server(host))

    @staticmethod
    def _command(conf: list[str], flags: str = "") -> tuple[list[str], dict[str, str]]:
        """Return (command, environment) of a program with this configuration."""
        command = [*SHELL, "-c", _START]
        return command, {"CONF": "\n".join(conf) + "\n", "FLAGS": flags}

    def _server(self, host: str) -> list[str]:  # noqa: ARG002 - a replica's differs
        return server_settings(self.options, REDIS_PORT, "/data")

    def look(self, host: str) -> list[str]:
        return ["redis-cli", "-p", str(self.port(host)), "--scan"]

    # Probes.

    def _client(self, host: str, patience_s: float = ANSWER_S) -> redis.Redis:
        address, port = self.reached(host)
        return redis.Redis(
            host=address,
            port=port,
            socket_timeout=patience_s,
            socket_connect_timeout=patience_s,
            retry=Retry(NoBackoff(), 0),
            decode_responses=True,
        )

    def _ask(self, host: str, question: Callable[[redis.Redis], Any]) -> Any:
        """Send a request and return its answer, ``None`` if there was none."""
        try:
            with self.gate.open(), self._client(host) as client:
                return question(client)
        except (redis.RedisError, OSError):
            return None

    def answers(self, host: str) -> bool:
        return bool(self._ask(host, lambda client: client.ping()))

    def key_count(self, host: str) -> int | None:
        size: int | None = self._ask(host, lambda client: client.dbsize())
        return size

    def clock(self, host: str) -> int | None:
        """See :meth:`.RealServers.clock`; the quickest of several readings counts."""
        return self._offset(host, self._time_clock)

    def _offset(self, host: str, read: Callable[[redis.Redis], int]) -> int | None:
        def readings(client: redis.Redis) -> int:
            read(client)  # makes the connection
            return min((reading(lambda: read(client)) for _ in range(READINGS)), key=lambda found: found[0])[1]

        offset: int | None = self._ask(host, readings)
        return offset

    @staticmethod
    def _time_clock(client: redis.Redis) -> int:
        seconds, microseconds = client.time()
        return int(seconds) * 1_000_000_000 + int(microseconds) * 1000

    def key_reader(self, host: str) -> Callable[[], KeyReader]:
        from harness.clusters.key_readers.redis import RedisKeyReader

        return partial(RedisKeyReader, *self.reached(host))

    def version(self) -> str:
        """Name and version that the first server reports."""
        return self.version_of("n1")

    def version_of(self, host: str) -> str:
        response: Any = self._ask(host, lambda client: client.info("server"))
        return product(response) if response else ""


def product(info: Mapping[str, Any]) -> str:
    """Return name and version of a server by its INFO. The ``redis_version`` of another product is the one with which
    it is compatible."""
    name = info.get("server_name") or ("dragonfly" if "dragonfly_version" in info else "redis")
    version = str(info.get(f"{name}_version", info["redis_version"]))
    return f"{name} {version.removeprefix('df-v')}"


class SentinelServers(RedisServers, RealPeers):
    """A primary with replicas, and sentinels that promote one of them."""

    @property
    def stages(self) -> list[list[str]]:
        """Servers before sentinels: a sentinel that starts before the replicas are linked finds them only after 10
        s."""
        return super().stages

    def port(self, host: str) -> int:
        return SENTINEL_PORT if self._watches(host) else REDIS_PORT

    def address(self) -> ClusterEndpoints:
        return ClusterEndpoints(self.kind, tuple((self.addresses[name], SENTINEL_PORT) for name in self._sentinels()))

    def program(self, host: str) -> tuple[list[str], dict[str, str]]:
        return self._command(self._sentinel(), "--sentinel") if self._watches(host) else super().program(host)

    def look(self, host: str) -> list[str]:
        command = super().look(host)
        return [*command[:-1], "sentinel", "masters"] if self._watches(host) else command

    def _watches(self, host: str) -> bool:
        return self.roles[host] == "sentinel"

    def _sentinels(self) -> list[str]:
        return [name for name in self.roles if self._watches(name)]

    def _server(self, host: str) -> list[str]:
        conf = super()._server(host)
        return conf if host == "n1" else [*conf, f"replicaof {self.addresses['n1']} {REDIS_PORT}"]

    def _sentinel(self) -> list[str]:
        return [
            f"port {SENTINEL_PORT}", "bind 0.0.0.0", "protected-mode no", "dir /data",
            f"sentinel monitor {SERVICE} {self.addresses['n1']} {REDIS_PORT} {QUORUM}",
            f"sentinel down-after-milliseconds {SERVICE} {DOWN_AFTER_MS}",
            f"sentinel failover-timeout {SERVICE} {FAILOVER_TIMEOUT_MS}",
            f"sentinel parallel-syncs {SERVICE} 1",
        ]  # fmt: skip

    # Probes.

    def key_count(self, host: str) -> int | None:
        return None if self._watches(host) else super().key_count(host)

    def clock(self, host: str) -> int | None:
        return self._offset(host, self._info_clock) if self._watches(host) else super().clock(host)

    @staticmethod
    def _info_clock(client: redis.Redis) -> int:
        info: Any = client.info("server")
        return int(info["server_time_usec"]) * 1000

    def primary(self) -> str | None:
        """The primary that most sentinels name."""
        known = [name for name in map(self._named, self._sentinels()) if name is not None]
        return max(known, key=known.count) if known else None

    def _named(self, sentinel: str) -> str | None:
        found = self._ask(sentinel, lambda client: client.sentinel_get_master_addr_by_name(SERVICE))
        ips = {ip: host for host, ip in self.addresses.items()}
        return ips.get(found[0]) if found else None

    def serves(self, host: str) -> bool:
        info: Any = self._ask(host, lambda client: client.info("replication"))
        return bool(info) and (info["role"] == "master" or info.get("master_link_status") == "up")

    def hand_over(self, host: str, within_s: float) -> bool:
        """Let the sentinels promote a replica, as an operator does (Redis documentation, "SENTINEL FAILOVER"), and wait
        until all of them name it and the former primary is a replica. They make it one some 10 s after the promotion.
        It need not receive data then: an older release cannot load those of a newer one."""
        deadline = time.monotonic() + within_s
        asked = False
        while not (done := self._follows_another(host)) and time.monotonic() < deadline:
            asked = asked or any(
                self._ask(sentinel, lambda client: client.sentinel_failover(SERVICE)) for sentinel in self._sentinels()
            )
            time.sleep(0.05)
        return done

    def _follows_another(self, host: str) -> bool:
        """Return whether all sentinels name the same other primary, and ``host`` is a replica of that."""
        named = {self._named(sentinel) for sentinel in self._sentinels()}
        info: Any = self._ask(host, lambda client: client.info("replication"))
        if not info or len(named) > 1 or named & {None, host}:
            return False
        return bool(info.get("master_host") == self.addresses[named.pop() or ""])

    def ready(self, host: str) -> bool:
        replicas = len(self.data_hosts) - 1
        if self._watches(host):
            return bool(self._ask(host, lambda client: _knows_all(client, replicas)))
        return bool(self._ask(host, lambda client: _replicates(client, primary=host == "n1", peers=replicas)))


def _replicates(client: redis.Redis, *, primary: bool, peers: int) -> bool:
    """Return whether replication works; for the primary with WAIT, which counts a replica a second after it is
    online."""
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
