"""Random operations of three sessions have the same outcome on the simulated ZooKeeper and on a real one.

Results, errors, versions, relative zxids, and the order of watch events and replies are compared.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from harness.clusters.abilities import leader_of
from harness.clusters.sim.cluster import SimCluster
from harness.sim.servers.zookeeper import tree
from harness.sim.servers.zookeeper.prepare import Preparer
from harness.sim.servers.zookeeper.server import ZooKeeperServer
from harness.sim.servers.zookeeper.watches import WatchManager
from tests.clusters.real import servers
from tests.sim.zookeeper_client import RawZooKeeperClient, SocketStream
from tests.sim.zookeeper_random import OperationRunner, ZooKeeperOperationGenerator
from tests.sim.zookeeper_stub import StandaloneServer
from tests.sim.zookeeper_world import alone, client, play

SEEDS = range(int(os.environ.get("HARNESS_ZOOKEEPER_SEEDS", "10")))
LENGTH = 150
Address = tuple[str, int]


def compare(seed: int, address: Address) -> int:
    """Compare with a real server and return the number of operations."""
    simulated = OperationRunner(StandaloneServer().client)
    real = OperationRunner(lambda **session: RawZooKeeperClient(SocketStream(address), **session))
    generator, count = ZooKeeperOperationGenerator(seed), 0
    for number in range(LENGTH):
        step = generator.step()
        expected, got = real.step(*step), simulated.step(*step)
        assert got == expected, (seed, number, step, got, expected)
        count += max(1, len(step[2]))
    for each in real.clients:
        each("close")
    return count


@pytest.fixture(scope="module", params=[1, 3])
def real_zookeeper(request: pytest.FixtureRequest) -> Iterator[Address]:
    """Start a real ensemble and yield one member's address. Ticks are long, so that a busy machine keeps its leader."""
    with servers("zookeeper", request.param, tick_ms=2000) as cluster:
        yield cluster.endpoints().addresses[0]


@pytest.mark.docker
@pytest.mark.parametrize("seed", SEEDS)
def test_random_operations(seed: int, real_zookeeper: Address) -> None:
    assert compare(seed, real_zookeeper) > LENGTH


@pytest.mark.parametrize("member", ["n1", "n3"])
def test_ensemble_answers_like_one_server(member: str) -> None:
    """Both through a follower and through the leader."""

    def main(cluster: SimCluster) -> bool:
        def ask() -> bool:
            play_there, play_here = (
                OperationRunner(lambda **session: client(member, **session)),
                OperationRunner(StandaloneServer().client),
            )
            generator = ZooKeeperOperationGenerator(1)
            steps = [generator.step() for _ in range(LENGTH)]
            return all(play_there.step(*step) == play_here.step(*step) for step in steps)

        assert leader_of(cluster) == "n3"
        return bool(alone(cluster, ask))

    assert play(main)


def results(seed: int) -> str:
    """Return all results and the final state of a standalone simulated server, including times."""
    one = StandaloneServer()
    mine = OperationRunner(one.client)
    generator = ZooKeeperOperationGenerator(seed)
    return repr([mine.step(*generator.step()) for _ in range(LENGTH)]) + repr(one.server.tree.dump())


def test_random_operations_get_the_same_answers_twice() -> None:
    assert [results(seed) for seed in range(2)] == [results(seed) for seed in range(2)]
    assert results(0) != results(1)


def _ignore_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Preparer, "_next_version", staticmethod(lambda current, expected: current + 1))


def _sort_children(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "java_order", lambda names, capacity: sorted(names))


def _keep_triggered_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    real = WatchManager.trigger

    def trigger(self: WatchManager, kind: int, path: str) -> None:
        kept = dict(self._data.get(path, {}))
        real(self, kind, path)
        for each in kept:
            self.watch_data(path, each)

    monkeypatch.setattr(WatchManager, "trigger", trigger)


def _number_sequences_by_child_count(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Preparer._existing
    monkeypatch.setattr(
        Preparer, "_existing", lambda self, path: (found := real(self, path))._replace(creates=found.children)
    )


def _send_events_after_the_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    late: list[Any] = []
    notify, answer = ZooKeeperServer._notify, ZooKeeperServer._answer
    monkeypatch.setattr(ZooKeeperServer, "_notify", lambda *event: late.append(event))

    def _answer(self: ZooKeeperServer, client: Any) -> None:
        answer(self, client)
        events, late[:] = list(late), []
        for event in events:
            notify(*event)

    monkeypatch.setattr(ZooKeeperServer, "_answer", _answer)


@pytest.mark.parametrize(
    "mutant",
    [
        _ignore_versions, _sort_children, _keep_triggered_watches, _number_sequences_by_child_count,
        _send_events_after_the_reply,
    ],
)  # fmt: skip
def test_random_operations_detect_mutant(
    mutant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = results(0)
    mutant(monkeypatch)
    assert results(0) != before
