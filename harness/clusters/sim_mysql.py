"""Simulated MySQL clusters: one MariaDB.

Options of servers: ``lock_wait_timeout`` (how long a statement waits for a row lock, s, usually 50) and
``wait_timeout`` (after how long an idle connection is closed, s, usually 28800).
"""

from __future__ import annotations

import re
from typing import Any, Final

from ..sim.hosts import Host
from ..sim.servers.mysql import MysqlServer
from .base import Address
from .kinds import KINDS
from .kinds import servers as server_names
from .sim_kinds import MakeHost, OnReply, Servers

_QUERY: Final = re.compile(rb"\A...\x00\x03\s*([A-Za-z]+)", re.DOTALL)


def abilities(kind: str) -> set[str]:  # noqa: ARG001
    """What faults may do, beside the usual."""
    return set()


def commands(data: bytes) -> list[str]:
    """The first keywords of the SQL statements in what a client sends."""
    return [word.decode().upper() for word in _QUERY.findall(data)]


def _mysql(servers: Servers, host: Host, server: MysqlServer) -> None:
    host.install(server)

    def watch(on_reply: OnReply | None) -> None:
        server.on_command = on_reply

    servers.watch[host.name] = watch
    servers.size[host.name] = server.size


def build(make: MakeHost, kind: str, nodes: int, options: dict[str, Any]) -> Servers:
    port = KINDS[kind].port
    hosts = [make(name, "server") for name in server_names(nodes)]
    servers = Servers(Address(kind, ((hosts[0].name, port),)), commands=commands)
    for host in hosts:
        _mysql(servers, host, MysqlServer(port=port, **options))
    return servers
