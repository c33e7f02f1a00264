"""The same random operations of three sessions on the simulated ZooKeeper and on a real one: same results and errors,
same versions and distances of zxids, same watch events at the same places among the replies."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from harness.clusters.sim import SimCluster
from harness.sim.servers.zookeeper import tree
from harness.sim.servers.zookeeper.prepare import Preparer
from harness.sim.servers.zookeeper.server import ZooKeeperServer
from harness.sim.servers.zookeeper.watches import Watches
from tests.clusters.real import servers
from tests.sim.zookeeper_client import Client, RealStream
from tests.sim.zookeeper_random import Generator, Play
from tests.sim.zookeeper_stub import Alone
from tests.sim.zookeeper_world import alone, client, play

SEEDS = range(int(os.environ.get("HARNESS_ZOOKEEPER_SEEDS", "10")))
LENGTH = 150
Address = tuple[str, int]


def compare(seed: int, address: Address) -> int:
    """Returns how many operations were compared."""
    simulated = Play(Alone().client)
    real = Play(lambda **session: Client(RealStream(address), **session))
    generator, count = Generator(seed), 0
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
    """One member of an ensemble of that many; with long ticks, so that a busy machine does not cost it its leader."""
    with servers("zookeeper", request.param, tick_ms=2000) as cluster:
        yield cluster.endpoints().addresses[0]


@pytest.mark.docker
@pytest.mark.parametrize("seed", SEEDS)
def test_random_operations(seed: int, real_zookeeper: Address) -> None:
    assert compare(seed, real_zookeeper) > LENGTH


@pytest.mark.parametrize("member", ["n1", "n3"])
def test_an_ensemble_answers_as_one_server_does(member: str) -> None:
    """Asked through a follower, and through the leader."""

    def main(cluster: SimCluster) -> bool:
        def ask() -> bool:
            play_there, play_here = Play(lambda **session: client(member, **session)), Play(Alone().client)
            generator = Generator(1)
            steps = [generator.step() for _ in range(LENGTH)]
            return all(play_there.step(*step) == play_here.step(*step) for step in steps)

        assert cluster.primary() == "n3"
        return bool(alone(cluster, ask))

    assert play(main)


def told(seed: int) -> str:
    """All that a simulated server alone has to tell, times too."""
    one = Alone()
    mine = Play(one.client)
    generator = Generator(seed)
    return repr([mine.step(*generator.step()) for _ in range(LENGTH)]) + repr(one.server.tree.dump())


def test_random_operations_tell_the_same_twice() -> None:
    assert [told(seed) for seed in range(2)] == [told(seed) for seed in range(2)]
    assert told(0) != told(1)


def _versions_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Preparer, "_next", staticmethod(lambda current, expected: current + 1))


def _children_are_sorted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "java_order", lambda names, capacity: sorted(names))


def _watches_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Watches.trigger

    def trigger(self: Watches, kind: int, path: str) -> None:
        kept = dict(self._data.get(path, {}))
        real(self, kind, path)
        for each in kept:
            self.watch_data(path, each)

    monkeypatch.setattr(Watches, "trigger", trigger)


def _numbers_begin_at_the_count_of_children(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Preparer._record
    monkeypatch.setattr(
        Preparer, "_record", lambda self, path: (found := real(self, path))._replace(creates=found.children)
    )


def _events_come_after_the_reply(monkeypatch: pytest.MonkeyPatch) -> None:
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
        _versions_do_not_matter, _children_are_sorted, _watches_stay, _numbers_begin_at_the_count_of_children,
        _events_come_after_the_reply,
    ],
)  # fmt: skip
def test_the_operations_tell_a_server_with_another_rule(
    mutant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = told(0)
    mutant(monkeypatch)
    assert told(0) != before
