"""Simulated MySQL clusters: one MariaDB, or a primary with replicas and a manager that promotes one of them.

Options of servers: ``lock_wait_timeout`` (how long a statement waits for a row lock, s, usually 50) and
``wait_timeout`` (after how long an idle connection is closed, s, usually 28800); of the replicated kind also
``semi_sync`` (whether a commit waits until a replica has it) and ``semi_sync_timeout`` (for how long, s, usually 10).

Of the single kind there may be several, which know nothing of each other.

Of the replicated kind clients know a name, ``db``, and no address: the manager moves it at a failover. Connections that
there are stay where they are; who connects anew goes to the new primary.
"""

from __future__ import annotations

import re
from typing import Any, Final

from ..history.lock_keys import Sight
from ..sim.hosts import Host
from ..sim.servers.mysql.manager import Manager
from ..sim.servers.mysql.peek import Peek
from ..sim.servers.mysql.replication import Replication
from ..sim.servers.mysql.server import MysqlServer
from .base import Address
from .kinds import KINDS, sentinels
from .kinds import servers as server_names
from .sim_kinds import MakeHost, OnReply, Servers

NAME: Final = "db"
"""What clients call the primary."""
_QUERY: Final = re.compile(rb"\A...\x00\x03\s*([A-Za-z]+)", re.DOTALL)


def abilities(kind: str) -> set[str]:
    """What faults may do, beside the usual."""
    return {"failover", "peers"} if kind == "mysql-replicated" else set()


def commands(data: bytes) -> list[str]:
    """The first keywords of the SQL statements in what a client sends."""
    return [word.decode().upper() for word in _QUERY.findall(data)]


def build(make: MakeHost, kind: str, nodes: int, options: dict[str, Any]) -> Servers:
    port = KINDS[kind].port
    hosts = [make(name, "server") for name in server_names(nodes)]
    first = hosts[0].name
    servers = Servers(Address(kind, tuple((host.name, port) for host in hosts)), commands=commands)
    timeouts = {name: value for name, value in options.items() if not name.startswith("semi_sync")}
    for host in hosts:
        server = MysqlServer(port=port, **timeouts)
        _install(servers, host, server)
        if kind == "mysql-replicated":
            server.replication = Replication(
                server,
                follows=None if host is hosts[0] else first,
                semi_sync=options.get("semi_sync", False),
                timeout_s=options.get("semi_sync_timeout", 10.0),
            )
            host.install(server.replication)
    if kind == "mysql-replicated":
        _manage(servers, make(sentinels(kind)[0], "sentinel"), [host.name for host in hosts], port)
    return servers


def _install(servers: Servers, host: Host, server: MysqlServer) -> None:
    host.install(server)

    def watch(on_reply: OnReply | None) -> None:
        server.on_command = on_reply

    servers.watch[host.name] = watch
    servers.size[host.name] = server.size
    peek = Peek(server)
    servers.look[host.name] = lambda key: _look(host, peek, key)
    servers.lapses = True


def _look(host: Host, peek: Peek, key: str) -> Sight | None:
    found = peek.look(key)
    if found is None or found.end is None:
        return None if found is None else Sight(found.owner, None, found.client)
    left = host.wall_in_ns(found.end)
    return Sight(found.owner, left, found.client) if left > 0 else None


def _manage(servers: Servers, host: Host, names: list[str], port: int) -> None:
    def move(primary: str) -> None:
        host.network.aliases[NAME] = primary

    manager = Manager(names, move)
    host.install(manager)
    move(names[0])
    servers.address = Address(servers.address.kind, ((NAME, port),))
    servers.primary = lambda: manager.primary
