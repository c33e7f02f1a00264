"""Wall clocks of containers' programs."""

from __future__ import annotations

from abc import ABC, abstractmethod

from harness.clusters.client_host import ANSWER
from harness.clusters.conversation import Refused, Unanswered
from harness.clusters.docker.containers.engine import Box
from harness.clusters.docker.containers.helper_client import Helper
from harness.clusters.host_clocks import HostClocks

from .hosts import ContainerClient, ServerHost
from .kinds import RealServers


class ClockMethods(ABC):
    """Mixin that implements :class:`harness.clusters.abilities.hosts.WallClocks`, and
    :class:`harness.clusters.host_clocks.ClockMover`."""

    servers: RealServers
    _boxes: dict[str, Box]
    _wall_clocks: HostClocks
    _helper: Helper
    _hosts: dict[str, ServerHost | ContainerClient]

    @abstractmethod
    def clock(self) -> tuple[int, int]:
        """See :meth:`harness.clusters.base.Cluster.clock`."""

    def set_clock(self, host: str, offset: float, rate: float = 0.0) -> None:
        self._wall_clocks.set(host, offset, rate)

    def read_clock(self, host: str) -> int:
        return self._wall_clocks.read(host)

    def move(self, host: str, offset_ns: int, rate: float, since_ns: int) -> None:
        """See :class:`harness.clusters.host_clocks.ClockMover`."""
        self._helper.move_clock(self._boxes[host], offset_ns, rate, since_ns)

    def setting(self, host: str) -> int:
        """See :class:`harness.clusters.host_clocks.ClockMover`."""
        return self._helper.clock(self._boxes[host])

    def _program_clock(self, name: str) -> int | None:
        """Return how many ns the clock of a host's own program is ahead of true time, None without an answer."""
        host = self._hosts[name]
        return self.servers.clock(name) if isinstance(host, ServerHost) else self._client_clock(host)

    def _client_clock(self, client: ContainerClient) -> int | None:
        try:
            mono, wall = client.conversation.ask("clock", patience=ANSWER)
        except (Unanswered, Refused):
            return None
        now, true = self.clock()
        return int(wall - (true - (now - mono)))
