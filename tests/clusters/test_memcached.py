"""Memory pressure evicts a lock's item on memcached and is undone completely, on the simulator and on containers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pymemcache.client.base import Client
from pymemcache.exceptions import MemcacheServerError

from harness.clusters.abilities import MEMORY
from tests.clusters.bench import AnyCluster, make, on, scene
from tests.clusters.bench import fault as build
from tests.clusters.real import servers

Main = Callable[[AnyCluster, Client], Any]
Run = Callable[[Main], Any]


def _client(cluster: AnyCluster) -> Client:
    return Client(cluster.endpoints().addresses[0], default_noreply=False)


def _put(client: Client) -> None:
    """Store an item; repeat if the server refuses, since a full server searches only briefly for items to evict."""
    for _ in range(100):
        try:
            client.set("lock", "x", 60)
        except MemcacheServerError:
            time.sleep(0.02)
        else:
            return
    raise AssertionError("refused a hundred times")


def _on_sim(main: Main) -> Any:
    cluster = make("memcached", clients=1)
    return on(cluster, lambda: main(cluster, _client(cluster)))


@pytest.fixture(scope="module")
def real() -> Iterator[Run]:
    with servers("memcached", needs=frozenset({MEMORY})) as cluster:
        yield lambda main: main(cluster, _client(cluster))


@pytest.fixture(params=["sim", pytest.param("docker", marks=pytest.mark.docker)])
def run(request: pytest.FixtureRequest) -> Run:
    found: Run = _on_sim if request.param == "sim" else request.getfixturevalue("real")
    return found


def test_a_flood_evicts_earlier_items_and_leaves_nothing_behind(run: Run) -> None:
    def main(cluster: AnyCluster, client: Client) -> None:
        client.flush_all()
        client.set("lock", "x", 60)
        client.set("larger", "x" * 2000, 60)
        damage = build("eviction").inject(scene(cluster))
        seen = damage.observe()
        assert seen.effective, seen
        assert seen.facts["flood"]["n1"]["keys_before"] == 2
        assert client.get_many(["lock", "larger"]) == {}, seen
        assert damage.healed().effective is False
        damage.heal()
        assert damage.healed().effective
        assert client.stats()[b"curr_items"] == 0

    run(main)


def test_a_flood_of_an_empty_server_reports_no_evictions(run: Run) -> None:
    def main(cluster: AnyCluster, client: Client) -> bool:
        client.flush_all()
        damage = build("eviction").inject(scene(cluster))
        effective = damage.observe().effective
        damage.heal()
        return effective

    assert run(main) is False


def test_each_flood_needs_its_own_drain(run: Run) -> None:
    def main(cluster: AnyCluster, client: Client) -> list[Any]:
        found: list[Any] = []
        for _ in range(2):
            _put(client)
            found.append(MEMORY.of(cluster).flood("n1")["others"])
        for _ in range(2):
            MEMORY.of(cluster).drain("n1")
            found.append(MEMORY.of(cluster).flooded("n1"))
        return found

    assert run(main) == [1, 1, True, False]


def test_a_flood_that_is_drained_before_it_starts_writes_nothing(run: Run) -> None:
    def main(cluster: AnyCluster, client: Client) -> tuple[Any, ...]:
        _put(client)
        MEMORY.of(cluster).drain("n1")
        return MEMORY.of(cluster).flood("n1")["others"], MEMORY.of(cluster).flooded("n1"), client.get("lock")

    assert run(main) == (0, False, b"x")


def test_a_restarted_server_has_no_flood() -> None:
    def main(cluster: AnyCluster, client: Client) -> list[Any]:
        _put(client)
        MEMORY.of(cluster).flood("n1")
        cluster.kill("n1")
        MEMORY.of(cluster).drain("n1")
        found = [MEMORY.of(cluster).flooded("n1")]
        cluster.start("n1", wiped=False)
        return [*found, MEMORY.of(cluster).flooded("n1")]

    assert _on_sim(main) == [None, False]
