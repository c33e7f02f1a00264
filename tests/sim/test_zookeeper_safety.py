"""What an ensemble has acknowledged stays, whatever happens to its servers; and broken ensembles are noticed."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from harness.clusters.sim import SimCluster
from harness.sim.servers.zookeeper.disk import Disk
from harness.sim.servers.zookeeper.follower import Follower
from harness.sim.servers.zookeeper.leader import Leader
from tests.sim.zookeeper_world import SERVERS, client, links, others, play, server, together

LASTS = 20.0


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """kazoo warns of each connection that breaks; here they are broken on purpose."""
    logger = logging.getLogger("kazoo")
    before, logger.level = logger.level, logging.CRITICAL
    yield
    logger.setLevel(before)


def _strike(cluster: SimCluster, rng: Random, name: str) -> Callable[[], None]:
    """Do something to a server; what is returned undoes it."""
    chance = rng.random()
    if chance < 0.3:
        cluster.kill(name)
        return lambda: cluster.start(name, wiped=False)
    if chance < 0.45:
        cluster.pause(name)
        return lambda: cluster.resume(name)
    far = others(name) if chance < 0.85 else [rng.choice(others(name))]
    cut = links(name, *far) if rng.random() < 0.7 else [(name, other) for other in far]
    cluster.cut(cut)
    return lambda: cluster.mend(cut)


def trouble(cluster: SimCluster, rng: Random, until: float) -> None:
    """Faults of one server after another; often the next strikes just before the one before is undone."""
    name = rng.choice(SERVERS)
    undo = _strike(cluster, rng, name)
    while time.monotonic() < until:
        time.sleep(rng.uniform(0.1, 4))
        if rng.random() < 0.6:
            name = rng.choice(others(name))
            undo, before = _strike(cluster, rng, name), undo
            before()
        else:
            undo()
            time.sleep(rng.uniform(0.1, 2))
            name = rng.choice([*SERVERS, cluster.primary() or name])
            undo = _strike(cluster, rng, name)
    undo()


class Writer:
    """Makes sequential nodes and counts a register up by version; keeps what was acknowledged."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.counted: list[int] = []
        self.seen: list[tuple[int, int]] = []
        """(zxid of what was read last, before and after) wherever a session saw time go backwards."""

    def __call__(self) -> None:
        zk = KazooClient(hosts="n1:2181,n2:2181,n3:2181", timeout=4.0)
        try:
            zk.start(60)
        except KazooTimeoutError:
            return
        until, last = time.monotonic() + LASTS, 0
        while time.monotonic() < until:
            try:
                self.made.append(zk.create("/q/x-", sequence=True))
                _, stat = zk.get("/r")
                if stat.mzxid < last:
                    self.seen.append((last, stat.mzxid))
                last = stat.mzxid
                self.counted.append(zk.set("/r", b"", version=stat.version).version)
            except KazooException:
                pass
            time.sleep(0.05)


def verdict(seed: int) -> list[str]:
    """What was wrong in a run with this seed."""

    def main(cluster: SimCluster) -> list[str]:
        def prepare() -> None:
            one = client(str(cluster.primary()))
            one("create", "/q", b"", 0)
            one("create", "/r", b"", 0)

        together(cluster, {"c2": prepare})
        writers = [Writer(), Writer()]
        rng = Random(seed)
        until = time.monotonic() + LASTS
        together(cluster, {"c0": writers[0], "c1": writers[1], "c2": lambda: trouble(cluster, rng, until - 3)})
        time.sleep(12)
        trees = [server(cluster, name).tree for name in SERVERS]
        made = [path for writer in writers for path in writer.made]
        counted = [number for writer in writers for number in writer.counted]
        wrong = []
        if len({repr(tree.dump()) for tree in trees}) != 1:
            wrong.append("servers differ")
        if any(path not in tree.nodes for tree in trees for path in made):
            wrong.append("an acknowledged node is gone")
        if len(set(made)) != len(made) or len(set(counted)) != len(counted):
            wrong.append("two were given the same")
        if any(tree.nodes["/r"].version < max(counted, default=0) for tree in trees):
            wrong.append("an acknowledged write is gone")
        if any(writer.seen for writer in writers):
            wrong.append("a session saw time go backwards")
        if len(made) < 30:
            wrong.append(f"only {len(made)} writes")
        return wrong

    found: list[str] = play(main, seed=seed)
    return found


@pytest.mark.parametrize("seed", range(2))
def test_what_was_acknowledged_stays(seed: int) -> None:
    assert verdict(seed) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 100))
def test_what_was_acknowledged_stays_for_many_seeds(seed: int) -> None:
    assert verdict(seed) == []


def _commit_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader that commits without waiting for its followers."""
    real = Leader._majority
    monkeypatch.setattr(Leader, "_majority", lambda self, count: self.established or real(self, count))


def _elect_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """The highest number leads, whatever it has missed."""
    monkeypatch.setattr(Disk, "recency", (0, 0))


def _keep_what_was_proposed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower that does not throw away what the new leader does not know of."""
    real = Follower._take_over

    def take_over(self: Follower, conn: Any, epoch: int, dump: Any, txns: list[Any]) -> None:
        kept = list(self._member.disk.proposed)
        real(self, conn, epoch, dump, txns)
        self._member.disk.proposed.extendleft(reversed([txn for txn in kept if txn.zxid < epoch << 32]))

    monkeypatch.setattr(Follower, "_take_over", take_over)


@pytest.mark.parametrize(("mutant", "seed"), [(_commit_alone, 7), (_elect_by_number, 1)])
def test_broken_ensembles_are_noticed(
    mutant: Callable[[pytest.MonkeyPatch], None], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    assert verdict(seed) != []


def forgets() -> bool:
    """Whether a leader that was cut off forgets what it proposed then, once it follows another."""

    def main(cluster: SimCluster) -> bool:
        first = str(cluster.primary())

        def cut_off() -> None:
            one = client(first)
            cluster.cut(links(first, *others(first)))
            one.send(("create", "/lost", b"", 0))
            assert one.next() is None

        together(cluster, {"c0": cut_off})
        time.sleep(1)
        together(cluster, {"c0": lambda: client(str(cluster.primary()))("create", "/kept", b"", 0)})
        cluster.mend(links(first, *others(first)))
        time.sleep(3)
        nodes = [server(cluster, name).tree.nodes for name in SERVERS]
        return all("/kept" in each and "/lost" not in each for each in nodes)

    found: bool = play(main)
    return found


def test_what_was_never_committed_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    assert forgets()
    _keep_what_was_proposed(monkeypatch)
    assert not forgets()
