"""Redis servers on hosts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from harness.clusters.key_watch import KeyReader
from harness.clusters.kinds.redis import NEWEST_FILES, server_settings

from .base import HostServers, ServerProgram

READINGS: Final = 5


class RedisServers(HostServers):
    """See :class:`.base.HostServers`."""

    PROGRAM = "redis-server"
    NEWEST = NEWEST_FILES

    def program(self, host: str, folder: str) -> ServerProgram:
        settings = server_settings(self.options, self.ports[host][0], f"{folder}/data")
        return ServerProgram(["redis-server", f"{folder}/redis.conf"], {"redis.conf": "\n".join(settings) + "\n"})

    def _ask(self, host: str, command: bytes) -> bytes | None:
        answer = self._converse(host, command + b"\r\n", False)
        return None if answer is None else answer.data

    def answers(self, host: str) -> bool:
        return (self._ask(host, b"PING") or b"").startswith(b"+PONG")

    def key_count(self, host: str) -> int | None:
        reply = self._ask(host, b"DBSIZE") or b""
        return int(reply[1:]) if reply.startswith(b":") else None

    def clock(self, host: str) -> int | None:
        """See :meth:`.HostServers.clock`; the quickest of several readings counts."""
        found: list[tuple[int, int]] = []
        for _ in range(READINGS):
            answer = self._converse(host, b"TIME\r\n", False)
            if answer is None:
                return None
            _, _, seconds, _, micros, *_ = answer.data.split(b"\r\n")
            wall = int(seconds) * 1_000_000_000 + int(micros) * 1000
            found.append((answer.after_ns - answer.before_ns, wall - (answer.before_ns + answer.after_ns) // 2))
        return min(found)[1]

    def version(self) -> str:
        reply = (self._ask(self.names[0], b"INFO server") or b"").decode(errors="replace")
        info = {name: value for name, _, value in (line.partition(":") for line in reply.splitlines())}
        name = info.get("server_name", "redis")
        return f"{name} {info.get(f'{name}_version', '')}".strip()

    def key_reader(self, port: int) -> Callable[[], KeyReader]:
        from harness.clusters.key_readers.redis import RedisKeyReader

        return partial(RedisKeyReader, "127.0.0.1", port)
