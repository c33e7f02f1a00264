"""Containers that a run needs, and their images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.clusters import kinds
from harness.clusters.abilities import CLOCKS, DATA_FILES, DISKS, PROCESSORS, RELEASES, TAPS, TRAFFIC, Needs
from harness.clusters.docker.containers.helper_client import Privilege
from harness.clusters.docker.images.images import Images

from .kinds import RealServers
from .site import SiteRequest


@dataclass(frozen=True, slots=True)
class Clients:
    """Setup of the client containers.

    ``requirements`` are the distributions that a user's lock needs, ``source`` is the folder with the user's modules,
    ``runtime`` is a language that the image has beside Python, and ``lock`` (``name``, ``ttl``, ``options``) is
    prepared before the run begins. ``releases`` are versions of libraries that the lock's program is built with in the
    place of its own.
    """

    count: int
    requirements: tuple[str, ...] = ()
    source: Path | None = None
    runtime: str = ""
    lock: Mapping[str, Any] | None = None
    releases: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ContainerNeeds:
    """What decides which containers a run needs: its clients, the ``abilities`` that its faults use, the ``releases``
    that servers may be started as later, and the ``image`` that replaces the servers' own (empty: none). ``by_hand`` is
    for a cluster that outlives this process."""

    clients: Clients
    abilities: Needs
    releases: tuple[str, ...]
    image: str
    by_hand: bool

    @property
    def client_names(self) -> list[str]:
        return kinds.clients(self.clients.count)

    def upgradable(self, servers: RealServers) -> bool:
        """Return True if a fault of the plan needs other releases of the servers, and their kind has some."""
        return RELEASES in self.abilities and bool(servers.PROGRAMS)

    def request(self, images: Images, kind: str, servers: RealServers) -> SiteRequest:
        """Return the containers of a run with these servers, and build missing images."""
        own = images.ensure(self.image) if self.image else ""
        roles = servers.roles
        there = {name: own if own and role == "server" else servers.image(images, name) for name, role in roles.items()}
        if self.upgradable(servers):
            both = servers.image_with_releases(images, own, self.releases)
            there |= dict.fromkeys(servers.data_hosts, both)
        clients, names = self.clients, tuple(self.client_names)
        client_image = images.client(clients.requirements, clients.runtime, clients.releases) if names else ""
        disks = tuple(servers.data_hosts) if DISKS in self.abilities and servers.DISKS is not None else ()
        proxy_image = images.toxiproxy() if self.abilities & {TRAFFIC, TAPS} else ""
        return SiteRequest(
            kind, roles, there, images.server_tools(), disks, self._privileges(servers, disks), names, client_image,
            clients.source, proxy_image, self.by_hand, images.client,
        )  # fmt: skip

    def _privileges(self, servers: RealServers, disks: Sequence[str]) -> frozenset[Privilege]:
        wanted: dict[Privilege, bool] = {
            "cgroups": bool(self.abilities & {PROCESSORS, DISKS}),
            "disks": bool(disks),
            "files": DATA_FILES in self.abilities or (CLOCKS in self.abilities and servers.OTHER_USER),
        }
        return frozenset(privilege for privilege, needed in wanted.items() if needed)
