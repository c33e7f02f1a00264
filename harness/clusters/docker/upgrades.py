"""Starts of container servers as other releases, which their image has below ``/releases``."""

from __future__ import annotations

from collections.abc import Callable

from harness.clusters.abilities.servers import DEFAULT_RELEASE

from .hosts import ServerHost
from .kinds import RealServers


class Upgrades:
    """Releases of a cluster's servers; implements :class:`harness.clusters.abilities.servers.ServerReleases`. ``end``
    is :meth:`harness.clusters.abilities.servers.ServerReleases.end_program`."""

    def __init__(
        self, servers: RealServers, host_of: Callable[[str], ServerHost], end: Callable[[str, float], bool]
    ) -> None:
        self._servers = servers
        self._host_of = host_of
        self._end = end

    def end_program(self, host: str, within_s: float) -> bool:
        """See :meth:`harness.clusters.abilities.servers.ServerReleases.end_program`."""
        return self._end(host, within_s)

    def choose_release(self, host: str, release: str) -> None:
        """See :meth:`harness.clusters.abilities.servers.ServerReleases.choose_release`."""
        self._host_of(host).release = "" if release == DEFAULT_RELEASE else release

    def reported_version(self, host: str) -> str:
        """See :meth:`harness.clusters.abilities.servers.ServerReleases.reported_version`."""
        return self._servers.version_of(host)

    def serves(self, host: str) -> bool:
        """See :meth:`harness.clusters.abilities.servers.ServerReleases.serves`."""
        return self._servers.serves(host)

    def hand_over(self, host: str, within_s: float) -> bool:
        """See :meth:`harness.clusters.abilities.servers.ServerReleases.hand_over`."""
        return self._servers.hand_over(host, within_s)
