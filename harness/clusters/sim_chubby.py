"""The simulated Chubby cell: replicas, of which one is the master."""

from __future__ import annotations

from functools import partial
from typing import Any

from ..history.lock_keys import Sight
from ..sim.servers.chubby.protocol import PORT, commands
from ..sim.servers.chubby.server import ChubbyServer
from .base import Address
from .kinds import servers as server_names
from .sim_kinds import MakeHost, OnReply, Servers


def abilities(kind: str) -> set[str]:  # noqa: ARG001 - there is one kind
    """What faults may do, beside the usual."""
    return {"leader", "peers"}


def build(make: MakeHost, kind: str, nodes: int, options: dict[str, Any]) -> Servers:
    """See :func:`harness.clusters.sim_kinds.build`; ``options`` are those of
    :class:`harness.sim.servers.chubby.server.ChubbyServer`."""
    names = server_names(nodes)
    hosts = [make(name, "server") for name in names]
    servers = Servers(Address(kind, tuple((name, PORT) for name in names)), commands=commands)
    programs = {name: ChubbyServer([other for other in names if other != name], **options) for name in names}
    for host in hosts:
        program = programs[host.name]
        host.install(program)
        servers.watch[host.name] = _watch(program)
        servers.size[host.name] = program.size
        servers.look[host.name] = partial(_look, program)

    def primary() -> str | None:
        """Of the replicas that know a master, whom the one in the newest epoch names."""
        named = [program.named for program in programs.values()]
        return max(((epoch, master) for epoch, master in named if master is not None), default=(0, None))[1]

    servers.primary = primary
    return servers


def _look(program: ChubbyServer, key: str) -> Sight | None:
    found = program.peek(key)
    return None if found is None else Sight(*found)


def _watch(program: ChubbyServer) -> Any:
    def watch(on_reply: OnReply | None) -> None:
        program.on_command = on_reply

    return watch
