"""Cuts of links between the run's programs, as nftables rules on their hosts; see :mod:`.helper.links`.

A packet from one program to another belongs to a connection that one of the two has opened to a port of the other. If
the receiver owns the port, the sender's host drops the packet on its way out, where it knows the sender's socket. If
the sender owns the port, the receiver's host drops it on its way in, where it knows the receiver's socket.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from harness.clusters.abilities.network import Links

PRIORITY: Final = -300
"""Before connection tracking, as if packets never arrived."""


@dataclass(slots=True)
class Endpoint:
    """A program as packets show it: its host (a name for ssh), the host's IPv4 address, the group id of the program's
    sockets, and its ports."""

    machine: str
    address: str
    gid: int
    ports: list[int] = field(default_factory=list)
    probe_port: int = 0

    @property
    def all_ports(self) -> list[int]:
        return sorted({*self.ports, *([self.probe_port] if self.probe_port else [])})


def table_script(table: str, leaving: Sequence[str], arriving: Sequence[str]) -> str:
    """Return the script that replaces the table of a host atomically. The kernel removes the table with the process
    that runs the script (``flags owner``)."""
    lines = [f"table inet {table} {{ flags owner; }}", f"delete table inet {table}", f"table inet {table} {{"]
    lines.append("flags owner;")
    for hook, rules in (("output", leaving), ("input", arriving)):
        if rules:
            lines += [f"chain {hook} {{", f"type filter hook {hook} priority {PRIORITY}; policy accept;", *rules, "}"]
    return "\n".join([*lines, "}"]) + "\n"


def rules_of(
    machine: str, endpoints: Mapping[str, Endpoint], cuts: Iterable[tuple[str, str]]
) -> tuple[list[str], list[str]]:
    """Return the rules of a host for packets that leave it, and for those that arrive, for the cut one-way links."""
    leaving, arriving = [], []
    for source, target in sorted(cuts):
        here, there = endpoints[source], endpoints[target]
        if here.machine == machine:
            leaving.append(f"meta skgid {here.gid} ip daddr {there.address} tcp dport {_set(there.all_ports)} drop")
        if there.machine == machine:
            arriving.append(f"ip saddr {here.address} tcp sport {_set(here.all_ports)} meta skgid {there.gid} drop")
    return leaving, arriving


def _set(ports: Sequence[int]) -> str:
    return f"{{ {', '.join(map(str, ports))} }}"


class LinkMethods(ABC):
    """Mixin that implements :class:`harness.clusters.abilities.network.Network`."""

    table: str
    _endpoints: dict[str, Endpoint]

    def __init__(self) -> None:
        super().__init__()
        self._cuts: Counter[tuple[str, str]] = Counter()
        self._cutting = threading.RLock()

    @abstractmethod
    def _apply(self, scripts: Mapping[str, str]) -> None:
        """Run a script on each host, at the same time."""

    @abstractmethod
    def _probe(self, source: str, target: str, timeout: float) -> float | None:
        """Probe the link between two programs."""

    def cut(self, links: Links) -> None:
        with self._cutting:
            self._cuts.update(links)
            self._apply_cuts(links)

    def heal(self, links: Links) -> None:
        with self._cutting:
            self._cuts.subtract(links)
            self._cuts = +self._cuts
            self._apply_cuts(links)

    def _apply_cuts(self, links: Links) -> None:
        machines = {self._endpoints[end].machine for link in links for end in link}
        scripts = {
            machine: table_script(self.table, *rules_of(machine, self._endpoints, self._cuts))
            for machine in sorted(machines)
        }
        self._apply(scripts)

    def reaches(self, source: str, target: str, timeout: float) -> float | None:
        return self._probe(source, target, timeout)
