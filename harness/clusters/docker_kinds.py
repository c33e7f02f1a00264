"""The server side of each kind of real cluster: which programs, how they are set up, and what can be asked of them.

What is asked goes from the control side straight to the servers, on a way that no fault touches.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from ..containers.gate import Gate
from ..errors import EnvironmentLacking
from .base import Address, Role
from .kinds import (
    DOWN_AFTER_MS,
    FAILOVER_TIMEOUT_MS,
    QUORUM,
    REDIS_PORT,
    SENTINEL_PORT,
    SENTINELS,
    SERVICE,
    sentinels,
    servers,
)

ASK: Final = 0.3
"""Seconds that a question may take."""
START: Final = 20.0
"""Seconds within which servers must have found each other."""
READINGS: Final = 5
Addresses = Mapping[str, str]
"""Host name to IP address."""
# Every start of a program: its configuration is written when it has none, that is at first and after a loss of data.
_START: Final = """
[ -s /data/conf ] || printf "%s" "$CONF" > /data/conf
exec "$@" /data/conf $FLAGS
"""


def abilities(kind: str) -> frozenset[str]:
    """What faults may do to a real cluster of this kind."""
    common = {"clock", "pause", "hang", "kill", "cut", "shape", "swallow", "hole", "reset", "disk", "evict"}
    return frozenset(common | ({"failover", "peers"} if kind == "redis-sentinel" else set()))


class RedisServers:
    """Redis servers, and sentinels where the kind has them. ``addresses`` are filled in once the hosts exist."""

    def __init__(self, kind: str, nodes: int, options: Mapping[str, Any]) -> None:
        persistence = options.get("persistence", "always")
        self.kind = kind
        self.addresses: dict[str, str] = {}
        self.gate = Gate()
        self.roles: dict[str, Role] = {
            **dict.fromkeys(servers(nodes), "server"),
            **dict.fromkeys(sentinels(kind), "sentinel"),
        }
        self._options = options
        self._sync = "always" if persistence == "no" else persistence

    @property
    def data_hosts(self) -> list[str]:
        """Hosts that keep what clients write."""
        return [name for name, role in self.roles.items() if role == "server"]

    @property
    def stages(self) -> list[list[str]]:
        """Hosts in the order of their starts: a sentinel that starts before the replicas are linked learns of them only
        ten seconds later."""
        return [[name for name, of in self.roles.items() if of == role] for role in ("server", "sentinel")]

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
        options = self._options
        conf = [
            f"port {REDIS_PORT}", "bind 0.0.0.0", "protected-mode no", "dir /data", 'save ""',
            f"appendonly {'no' if options.get('persistence') == 'no' else 'yes'}", f"appendfsync {self._sync}",
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
            return min((_reading(read, client) for _ in range(READINGS)), key=lambda found: found[0])[1]

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

    def version(self) -> str:
        """What the servers say they are."""
        told: Any = self._ask("n1", lambda client: client.info("server"))
        return f"redis {told['redis_version']}" if told else ""

    # Readiness.

    def await_stage(self, hosts: list[str]) -> None:
        """Return when these hosts' programs work together; raises EnvironmentLacking if they never do."""
        deadline = time.monotonic() + START
        while not all(self._ready(host) for host in hosts):
            if time.monotonic() >= deadline:
                late = [host for host in hosts if not self._ready(host)]
                raise EnvironmentLacking(f"not ready within {START:g} s: {', '.join(late)}; see the servers' logs")
            time.sleep(0.02)

    def _ready(self, host: str) -> bool:
        if self.roles[host] == "sentinel":
            return bool(self._ask(host, lambda client: _knows_all(client, self._peers())))
        if self.kind == "redis-sentinel":
            return bool(self._ask(host, lambda client: _replicates(client, primary=host == "n1", peers=self._peers())))
        return self.answers(host)

    def _peers(self) -> int:
        return sum(role == "server" for role in self.roles.values()) - 1


def _reading(read: Callable[[redis.Redis], int], client: redis.Redis) -> tuple[int, int]:
    """(how long it took, how far the clock was ahead half-way), ns."""
    began, true = time.monotonic_ns(), time.time_ns()
    told = read(client)
    took = time.monotonic_ns() - began
    return took, told - (true + took // 2)


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
