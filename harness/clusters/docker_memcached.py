"""Real memcached servers: one, or several that know nothing of each other."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from pymemcache.client.base import Client
from pymemcache.exceptions import MemcacheError

from .docker_keys import Eye
from .docker_kinds import ASK, RealServers
from .server_options import MEMCACHED_CHUNK, MEMCACHED_MB

USER: Final = "nobody"
THREADS: Final = 2
ITEM: Final = 48
"""Bytes of an item's structure, which its option for the smallest chunk does not count."""


class Family(RealServers):
    """See :class:`harness.clusters.docker_kinds.RealServers`. Its items live in memory alone."""

    @classmethod
    def abilities(cls, kind: str) -> set[str]:  # noqa: ARG003
        return {"evict"}

    @classmethod
    def inabilities(cls, kind: str) -> set[str]:  # noqa: ARG003
        return {"disk"}

    def program(self, host: str) -> tuple[list[str], dict[str, str]]:
        """Command and environment."""
        memory = self.options.get("memory", MEMCACHED_MB)
        command = ["memcached", "-u", USER, "-l", "0.0.0.0", "-p", str(self.port(host)), "-U", "0"]
        return [*command, "-m", str(memory), "-n", str(MEMCACHED_CHUNK - ITEM), "-t", str(THREADS)], {}

    # Questions.

    def _stats(self, host: str) -> dict[bytes, Any] | None:
        """What it says of itself, None if it does not answer."""
        client = Client((self.addresses[host], self.port(host)), connect_timeout=ASK, timeout=ASK)
        try:
            with self.gate.open():
                stats: dict[bytes, Any] = client.stats()
                return stats
        except (MemcacheError, OSError):
            return None
        finally:
            client.close()

    def answers(self, host: str) -> bool:
        return self._stats(host) is not None

    def size(self, host: str) -> int | None:
        stats = self._stats(host)
        return None if stats is None else int(stats[b"curr_items"])

    def eye(self, host: str) -> Callable[[], Eye]:
        from .docker_memcached_keys import MemcachedEye

        return partial(MemcachedEye, self.addresses[host], self.port(host))

    def version(self) -> str:
        """What the servers say they are."""
        stats = self._stats("n1")
        return f"memcached {stats[b'version'].decode()}" if stats else ""
