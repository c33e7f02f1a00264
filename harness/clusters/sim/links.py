"""Links between simulated hosts: cuts, impairments, and messages that are lost or delayed."""

from __future__ import annotations

import threading
from collections.abc import Callable

from harness.clusters.abilities.network import Links, LinkShape
from harness.sim.hosts import SimHost
from harness.sim.kernel import SECOND, Kernel
from harness.sim.network import LOST, Impairment, SimMessageTrap, SimNetwork

from .machines import SimMachine


class _BlackHole(SimMessageTrap):
    """Trap for all messages between a client and a server, in both directions."""

    def __init__(self, network: SimNetwork, client: SimHost, server: str) -> None:
        super().__init__(b"", LOST, catch_all=True)
        self._links = [network.link(client.name, server), network.link(server, client.name)]
        self._client = client
        self._server = server
        for link in self._links:
            link.traps.append(self)

    def cancel(self) -> None:
        if self.armed:
            self.armed = False
            for link in self._links:
                link.traps.remove(self)
            self._client.break_streams({self._server})


class LinkMethods:
    """Mixin that implements :class:`harness.clusters.abilities.network.Network` and ``Traffic``."""

    _kernel: Kernel
    _network: SimNetwork
    _machines: dict[str, SimMachine]

    def cut(self, links: Links) -> None:
        for source, target in links:
            self._network.link(source, target).cuts += 1

    def heal(self, links: Links) -> None:
        for source, target in links:
            link = self._network.link(source, target)
            link.cuts = max(0, link.cuts - 1)

    def reaches(self, source: str, target: str, timeout: float) -> float | None:
        began = self._kernel.now
        answered = threading.Event()
        self._network.ping(source, target, answered.set)
        return (self._kernel.now - began) / SECOND if answered.wait(timeout) else None

    def shape(self, links: Links, shape: LinkShape) -> Callable[[], None]:
        weight = Impairment(
            round(shape.latency * SECOND), round(shape.jitter * SECOND), shape.loss, shape.rate or float("inf")
        )
        shaped = [self._network.link(source, target) for source, target in links]
        for link in shaped:
            link.add_impairment(weight)

        def undo() -> None:
            for link in shaped:
                link.remove_impairment(weight)

        return undo

    def trap_message(self, source: str, target: str, needle: bytes, delay: float | None) -> SimMessageTrap:
        trap = SimMessageTrap(needle, -1 if delay is None else round(delay * SECOND))
        self._network.link(source, target).traps.append(trap)
        return trap

    def black_hole(self, client: str, server: str) -> SimMessageTrap:
        return _BlackHole(self._network, self._machines[client].host, server)

    def black_holed(self, links: Links) -> list[bool]:
        return [
            all(self._network.link(*way).loses(b"a probe") for way in ((client, server), (server, client)))
            for client, server in links
        ]

    def break_streams(self, host: str) -> int:
        return self._machines[host].host.break_streams(set(self._machines))
