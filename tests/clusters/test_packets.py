"""Packets that are damaged, duplicated and reordered on containers, and how their effect is counted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.clusters.abilities import PACKETS
from harness.clusters.docker.cluster import DockerCluster
from harness.clusters.docker.container_needs import Clients
from harness.clusters.docker.helper.datagrams import _datagram, counted
from harness.faults.base import Damage
from harness.faults.link import least_hits
from harness.plan import FaultSpec, Plan
from harness.run.runs import run
from tests.clusters.bench import fault, scene, until_healed

NAMES = ["packet-corruption", "packet-duplication", "packet-reordering"]


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ([0, 1, 2], {"received": 3, "damaged": 0, "duplicated": 0, "reordered": 0}),
        ([0, 2, 1], {"received": 3, "damaged": 0, "duplicated": 0, "reordered": 1}),
        ([2, 2, 0], {"received": 2, "damaged": 0, "duplicated": 1, "reordered": 1}),
    ],
)
def test_datagrams_are_counted_by_what_happened_to_them(order: list[int], expected: dict[str, int]) -> None:
    assert counted([_datagram(number) for number in order]) == expected


@pytest.mark.parametrize("at", [0, 3, 5, 30])
def test_a_flipped_bit_anywhere_in_a_datagram_counts_as_damage(at: int) -> None:
    changed = bytearray(_datagram(1))
    changed[at] ^= 4
    assert counted([_datagram(0), bytes(changed)])["damaged"] == 1


def test_fewer_hits_than_chance_allows_are_no_effect() -> None:
    assert least_hits(100, 0.5) == 35
    assert least_hits(20, 1.0) == 20
    assert least_hits(1, 0.001) == 1


@pytest.fixture(scope="module")
def cluster() -> Iterator[DockerCluster]:
    cluster = DockerCluster(
        kind="redis-single",
        nodes=0,
        clients=Clients(2),
        seed=0,
        resource='{"fencing": "off", "stock": {}}',
        options={},
        needs=frozenset({PACKETS}),
    )
    try:
        cluster.start_all()
        yield cluster
    finally:
        cluster.stop_all()


def inject(cluster: DockerCluster, name: str, **params: Any) -> Damage:
    return fault(name, **params).inject(scene(cluster))


def knock(cluster: DockerCluster, times: int) -> list[float | None]:
    """Return how long a client's connections to the server took to be answered."""
    return [cluster._helper.knock(cluster._boxes["c0"], *cluster._address("n1"), 60.0) for _ in range(times)]


def checksum_errors(cluster: DockerCluster, host: str) -> int:
    """Return the kernel's count of TCP segments with a wrong checksum in the network of a host."""
    lines = Path(f"/proc/{cluster._boxes[host].pid}/net/snmp").read_text().splitlines()
    names, values = (line.split() for line in lines if line.startswith("Tcp:"))
    return int(dict(zip(names, values, strict=True))["InCsumErrors"])


@pytest.mark.docker
@pytest.mark.xdist_group("docker")
class TestContainers:
    @pytest.mark.parametrize("name", NAMES)
    def test_takes_effect_and_heals(self, name: str, cluster: DockerCluster) -> None:
        damage = inject(cluster, name)
        seen = damage.observe()
        assert seen.effective, seen
        assert len(seen.effects) == 4
        assert all(took is not None for took in knock(cluster, 10))
        assert damage.healed().effective is False
        damage.heal()
        healed = until_healed(damage.healed)
        assert healed.effective, healed

    @pytest.mark.parametrize("name", NAMES)
    def test_a_fault_without_effect_is_reported(
        self, name: str, cluster: DockerCluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(cluster, "alter_packets", lambda links, alteration: lambda: None)
        assert inject(cluster, name).observe().effective is False

    def test_the_kernel_drops_damaged_segments_by_their_checksum(self, cluster: DockerCluster) -> None:
        before = checksum_errors(cluster, "n1") + checksum_errors(cluster, "c0")
        damage = inject(cluster, "packet-corruption", share=0.3)
        assert all(took is not None for took in knock(cluster, 20))
        damage.heal()
        assert checksum_errors(cluster, "n1") + checksum_errors(cluster, "c0") > before

    def test_each_alteration_needs_its_own_end(self, cluster: DockerCluster) -> None:
        damage = {name: inject(cluster, name) for name in NAMES}
        damage["packet-reordering"].heal()
        damage["packet-reordering"].heal()
        assert until_healed(damage["packet-reordering"].healed).effective
        assert damage["packet-duplication"].observe().effective
        damage["packet-duplication"].heal()
        assert damage["packet-corruption"].observe().effective
        damage["packet-corruption"].heal()
        assert until_healed(damage["packet-corruption"].healed).effective


@pytest.mark.docker
@pytest.mark.xdist_group("docker")
def test_tcp_hides_damaged_packets_from_a_lock() -> None:
    faults = tuple(FaultSpec(name, every=12.0, for_=8.0) for name in ("packet-corruption", "packet-duplication"))
    result = run(Plan(lock="redis-token", cluster="docker", time_limit=26.0, faults=faults))
    assert result.verdicts["faults"].valid is True
    assert result.verdicts["mutual-exclusion"].valid is True
