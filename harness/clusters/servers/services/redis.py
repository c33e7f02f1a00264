"""A Redis, or a Valkey, that the user runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar, Final

from harness.clusters.key_watch import KeyReader
from harness.clusters.redis_admin import RedisConnection, RedisUnanswered
from harness.clusters.servers.adapter import PATIENCE_S, PREFIX, SHOWN, NoAnswerError, OwnServer

BATCH: Final = 1000
"""Number of keys that one step of a scan looks at."""


class RedisServer(OwnServer):
    """See :class:`harness.clusters.servers.adapter.OwnServer`. Its database is 0."""

    HELLO: ClassVar[bytes] = b"PING ".ljust(62, b"x") + b"\r\n"

    @contextmanager
    def _connection(self) -> Iterator[RedisConnection]:
        try:
            address = self.address
            tls = address.tls.context() if address.tls else None
            with RedisConnection(
                *self.target, database=0, answer_s=PATIENCE_S, login=address.login, tls=tls
            ) as connection:
                yield connection
        except RedisUnanswered as error:
            raise NoAnswerError(f"the Redis at {self.host}:{self.port}: {error}") from error

    def _info(self) -> dict[str, str]:
        with self._connection() as ask:
            reply = ask("INFO")
        text = reply.decode(errors="replace") if isinstance(reply, bytes) else ""
        return {name: value for name, _, value in (line.partition(":") for line in text.splitlines())}

    def version(self) -> str:
        info = self._info()
        if info.get("server_name", "") not in ("", "redis"):  # its redis_version is the one it is compatible with
            name = info["server_name"]
            return f"{name} {info.get(f'{name}_version', '')}".strip()
        return f"redis {info.get('redis_version', '')}".strip()

    def identity(self) -> str:
        return self._info().get("run_id", "")

    def refusal(self) -> str:
        info = self._info()
        if info.get("cluster_enabled") == "1":
            return "it is a node of a Redis Cluster, which is not supported"
        if info.get("role") == "slave":
            return "it is a replica, on which locks cannot write; give its primary"
        return ""

    def foreign_keys(self) -> list[str]:
        with self._connection() as ask:
            found = _scan(ask, f"{PREFIX}*")
            return [name.decode(errors="replace") for name, _ in zip(found, range(SHOWN), strict=False)]

    def remove_keys(self, run: str) -> int:
        with self._connection() as ask:
            found = set(_scan(ask, f"*{run}*"))
            for name in found:
                ask("DEL", name)
            return len(found)

    def key_reader(self) -> Callable[[], KeyReader] | None:
        from harness.clusters.key_readers.redis import RedisKeyReader

        return partial(RedisKeyReader, self.host, self.port, **self._options())

    def _options(self) -> dict[str, Any]:
        """Return the options of redis-py for the login and TLS."""
        address = self.address
        found: dict[str, Any] = {"username": address.user or None, "password": address.password or None}
        if (tls := address.tls) is not None:
            found |= {"ssl": True, "ssl_ca_certs": tls.ca_certs or None}
            found |= {"ssl_certfile": tls.certfile or None, "ssl_keyfile": tls.keyfile or None}
        return found


class SentinelRedis(RedisServer):
    """The Redis that sentinels name as their primary, which may be another one at each request.

    The values of its keys are not read during a run: a former primary goes on showing its own.
    """

    @property
    def target(self) -> tuple[str, int]:
        """Ask the sentinels in turn. Raises NoAnswerError if none names a primary."""
        problems = []
        login = self.address.sentinel_login
        for host, port in self.address.sentinels:
            try:
                with RedisConnection(host, port, database=None, answer_s=PATIENCE_S, login=login) as ask:
                    reply = ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.address.primary)
            except RedisUnanswered as error:
                hint = "" if login else _hint(str(error), "?sentinel_password=$NAME")
                problems.append(f"the sentinel at {host}:{port}: {error}{hint}")
                continue
            match reply:
                case [bytes() as found, bytes() as number]:
                    return found.decode(), int(number)
            problems.append(f"the sentinel at {host}:{port} knows no primary named {self.address.primary!r}")
        raise NoAnswerError("; ".join(problems))

    def refusal(self) -> str:
        return "" if self._info().get("role") == "master" else "the server that the sentinels name is no primary"

    def key_reader(self) -> None:
        return None


def _hint(error: str, where: str) -> str:
    """Return how the address names a password that a server demands, "" if it demands none."""
    return f" Name its password in the address: {where}" if error.startswith("NOAUTH") else ""


def _scan(ask: RedisConnection, pattern: str) -> Iterator[bytes]:
    """Yield the keys that match a pattern, some perhaps twice."""
    cursor: bytes | str = "0"
    while True:
        reply = ask("SCAN", cursor, "MATCH", pattern, "COUNT", BATCH)
        if not (isinstance(reply, list) and isinstance(reply[0], bytes) and isinstance(reply[1], list)):
            raise RedisUnanswered(f"SCAN: {reply!r}")
        cursor = reply[0]
        yield from (name for name in reply[1] if isinstance(name, bytes))
        if cursor == b"0":
            return
