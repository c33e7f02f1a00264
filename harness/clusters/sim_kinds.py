"""The server side of simulated clusters: which hosts, which programs on them, where clients go.

Each family of kinds has a module ``sim_<family>`` with ``abilities`` and ``build``; only the one that a run
needs is imported.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from ..history.lock_keys import Sight
from ..sim.hosts import Host
from .base import Address, Role
from .kinds import KINDS

COMMON: Final = frozenset({"clock", "pause", "hang", "kill", "cut", "shape", "swallow", "hole", "reset", "tap"})
"""What faults may do to any simulated cluster."""
MakeHost = Callable[[str, Role], Host]
OnReply = Callable[[str, str], None]
"""Called with (client host, command name) when a server has executed a command and its answer is about to leave."""
Look = Callable[[str], Sight | None]
"""What a server has under a lock's key at this moment, for whom and until when; None: for nobody. Changes nothing."""


def no_commands(data: bytes) -> list[str]:  # noqa: ARG001
    return []


@dataclass(slots=True)
class Servers:
    """What was built: addresses for clients, and how to ask and watch the programs. ``commands`` finds the names of
    commands, in capitals, in what a client sends; ``watch``, ``size`` and ``look`` are by host."""

    address: Address
    primary: Callable[[], str | None] = lambda: None
    watch: dict[str, Callable[[OnReply | None], None]] = field(default_factory=dict)
    size: dict[str, Callable[[], int]] = field(default_factory=dict)
    look: dict[str, Look] = field(default_factory=dict)
    commands: Callable[[bytes], list[str]] = no_commands
    lapses: bool = False
    """Is a key gone at the moment its time is over, whatever its server has done about that?"""


def _module(kind: str) -> Any:
    return importlib.import_module(f".sim_{KINDS[kind].family}", __package__)


def abilities(kind: str) -> frozenset[str]:
    """What faults may do to a simulated cluster of this kind."""
    if "sim" not in KINDS[kind].backends:
        return frozenset()
    return COMMON | frozenset(_module(kind).abilities(kind))


def build(kind: str, make: MakeHost, nodes: int, options: dict[str, Any]) -> Servers:
    """Make the hosts of a cluster kind and start their programs."""
    servers: Servers = _module(kind).build(make, kind, nodes, options)
    return servers
