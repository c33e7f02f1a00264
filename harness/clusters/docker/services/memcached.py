"""memcached servers in containers, independent of each other: start command and probes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from pymemcache.client.base import Client
from pymemcache.exceptions import MemcacheError

from harness.clusters.docker.commands import MemcachedCommands
from harness.clusters.docker.kinds import ANSWER_S, RealServers
from harness.clusters.key_watch import KeyReader
from harness.clusters.kinds.memcached import MEMCACHED_CHUNK, MEMCACHED_MB

USER: Final = "nobody"
THREADS: Final = 2
ITEM: Final = 48
"""Bytes of an item's header, which memcached adds to the size given by ``-n``."""


class MemcachedServers(RealServers):
    """See :class:`harness.clusters.docker.kinds.RealServers`. Items are only in memory."""

    COMMANDS = MemcachedCommands
    DISKS = None

    def program(self, host: str) -> tuple[list[str], dict[str, str]]:
        memory = self.options.get("memory", MEMCACHED_MB)
        command = ["memcached", "-u", USER, "-l", "0.0.0.0", "-p", str(self.port(host)), "-U", "0"]
        return [*command, "-m", str(memory), "-n", str(MEMCACHED_CHUNK - ITEM), "-t", str(THREADS)], {}

    # Probes.

    def _stats(self, host: str) -> dict[bytes, Any] | None:
        """Statistics that the server reports, ``None`` if it does not answer."""
        client = Client(self.reached(host), connect_timeout=ANSWER_S, timeout=ANSWER_S)
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

    def key_count(self, host: str) -> int | None:
        stats = self._stats(host)
        return None if stats is None else int(stats[b"curr_items"])

    def key_reader(self, host: str) -> Callable[[], KeyReader]:
        from harness.clusters.key_readers.memcached import MemcachedKeyReader

        return partial(MemcachedKeyReader, *self.reached(host))

    def version(self) -> str:
        """Name and version that the first server reports."""
        stats = self._stats("n1")
        return f"memcached {stats[b'version'].decode()}" if stats else ""
