"""Which containers, images and privileges a run gets, without an engine."""

from __future__ import annotations

from typing import Any

from harness.clusters.abilities import CLOCKS, DATA_FILES, DISKS, PROCESSORS, RELEASES, TAPS, Needs
from harness.clusters.docker.container_needs import Clients, ContainerNeeds
from harness.clusters.docker.kinds import servers_class
from harness.clusters.docker.site import SiteRequest


class NamedImages:
    """Stands for :class:`harness.clusters.docker.images.images.Images`: returns names, and builds nothing."""

    def server(self, service: str) -> str:
        return f"{service} of the harness"

    def server_tools(self) -> str:
        return "tools"

    def client(self, requirements: tuple[str, ...], runtime: str, releases: Any) -> str:
        return f"client with {', '.join(requirements)}"

    def toxiproxy(self) -> str:
        return "proxy"

    def ensure(self, image: str) -> str:
        return image

    def with_releases(self, base: str, releases: list[str], programs: Any) -> str:
        return f"{base} and {', '.join(releases)}"


def requested(
    *abilities: Any, kind: str = "redis-single", clients: int = 2, image: str = "", releases: tuple[str, ...] = ()
) -> SiteRequest:
    needs = ContainerNeeds(Clients(clients, ("redis==6.4",)), Needs(abilities), releases, image, by_hand=False)
    images: Any = NamedImages()
    return needs.request(images, kind, servers_class(kind)(kind, 1, {}))


def test_a_run_without_faults_gets_no_disk_proxy_or_privilege() -> None:
    found = requested()
    assert (found.images, found.client_image) == ({"n1": "redis of the harness"}, "client with redis==6.4")
    assert found.clients == ("c0", "c1")
    assert (found.disks, found.proxy_image, found.privileges) == ((), "", frozenset())


def test_faults_get_what_their_abilities_need() -> None:
    assert requested(TAPS).proxy_image == "proxy"
    disks = requested(DISKS)
    assert (disks.disks, disks.privileges) == (("n1",), frozenset({"cgroups", "disks"}))
    assert requested(PROCESSORS).privileges == {"cgroups"}
    assert requested(DATA_FILES).privileges == {"files"}
    assert requested(CLOCKS).privileges == set()
    assert requested(CLOCKS, kind="postgres").privileges == {"files"}, "its memory belongs to another user"
    in_memory = requested(DISKS, kind="memcached")
    assert (in_memory.disks, in_memory.privileges) == ((), frozenset({"cgroups"}))


def test_an_image_of_the_user_replaces_that_of_servers_but_not_of_sentinels() -> None:
    found = requested(kind="redis-sentinel", image="valkey:8").images
    assert found["n1"] == "valkey:8"
    assert found["s1"] == "redis of the harness"


def test_releases_are_in_the_image_only_if_a_fault_needs_them() -> None:
    assert requested(RELEASES, releases=("valkey-8.1.8",)).images == {"n1": "redis of the harness and valkey-8.1.8"}
    assert requested(releases=("valkey-8.1.8",)).images == {"n1": "redis of the harness"}


def test_a_cluster_without_clients_has_no_image_of_them() -> None:
    assert requested(clients=0).client_image == ""
