"""Simulated memcached servers: one, or several that know nothing of each other."""

from __future__ import annotations

import re
from functools import partial
from typing import Any, Final

from ..history.lock_keys import Sight, owner_text
from ..sim.servers.memcached.server import MemcachedServer
from .base import Address
from .kinds import KINDS
from .kinds import servers as server_names
from .server_options import MEMCACHED_CHUNK, MEMCACHED_MB
from .sim_kinds import MakeHost, OnReply, Servers

_COMMAND: Final = re.compile(
    rb"(?:^|\r\n)(gets?|gats?|set|add|replace|append|prepend|cas|delete|incr|decr|touch|flush_all) "
)


def abilities(kind: str) -> set[str]:  # noqa: ARG001
    """What faults may do, beside the usual."""
    return {"evict"}


def commands(data: bytes) -> list[str]:
    """The names of the commands in what a client sends."""
    return [name.decode().upper() for name in _COMMAND.findall(data)]


def build(make: MakeHost, kind: str, nodes: int, options: dict[str, Any]) -> Servers:
    """See :func:`harness.clusters.sim_kinds.build`."""
    port = KINDS[kind].port
    hosts = [make(name, "server") for name in server_names(nodes)]
    found = Servers(Address(kind, tuple((host.name, port) for host in hosts)), commands=commands)
    for host in hosts:
        memory = options.get("memory", MEMCACHED_MB)
        server = MemcachedServer(port=port, memory=memory, smallest_chunk=MEMCACHED_CHUNK)
        host.install(server)
        found.watch[host.name] = _watch(server)
        found.size[host.name] = server.size
        found.look[host.name] = partial(_look, server)
    found.lapses = True
    return found


def _look(server: MemcachedServer, key: str) -> Sight | None:
    found = server.peek(key.encode())
    return None if found is None else Sight(owner_text(found[0]), found[1])


def _watch(server: MemcachedServer) -> Any:
    def watch(on_reply: OnReply | None) -> None:
        server.on_command = on_reply

    return watch
