"""Simulated memcached servers, independent of each other."""

from __future__ import annotations

import re
from functools import partial
from typing import Final

from harness.clusters.kinds.memcached import MEMCACHED_CHUNK, MEMCACHED_MB
from harness.clusters.sim.kinds import SimServers, watch_of
from harness.history.lock_keys import KeyObservation, owner_text
from harness.sim.servers.memcached.server import MemcachedServer

_COMMAND: Final = re.compile(
    rb"(?:^|\r\n)(gets?|gats?|set|add|replace|append|prepend|cas|delete|incr|decr|touch|flush_all) "
)


def commands(data: bytes) -> list[str]:
    """Return the names of the commands in a client's data."""
    return [name.decode().upper() for name in _COMMAND.findall(data)]


class MemcachedServers(SimServers):
    """Independent servers."""

    lapses = True

    commands = staticmethod(commands)

    def install(self) -> None:
        memory = self.options.get("memory", MEMCACHED_MB)
        for host in self.hosts:
            server = MemcachedServer(port=self.port, memory=memory, smallest_chunk=MEMCACHED_CHUNK)
            host.install(server)
            self.watch[host.name] = watch_of(server)
            self.key_count[host.name] = server.size
            self.look[host.name] = partial(_look, server)


def _look(server: MemcachedServer, key: str) -> KeyObservation | None:
    found = server.peek(key.encode())
    return None if found is None else KeyObservation(owner_text(found[0]), found[1])
