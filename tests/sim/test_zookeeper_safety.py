"""A ZooKeeper ensemble under random faults: acknowledged writes survive; ensembles that break a rule are noticed."""

from __future__ import annotations

import time
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from harness.clusters.abilities import leader_of
from harness.clusters.sim.cluster import SimCluster
from harness.sim.servers.zookeeper.disk import ZooKeeperDisk
from harness.sim.servers.zookeeper.follower import Follower
from harness.sim.servers.zookeeper.leader import Leader
from tests.sim.zookeeper_world import SERVERS, client, links, others, run_ensemble, run_on_hosts, server

DURATION_S = 20.0
pytestmark = pytest.mark.usefixtures("no_kazoo_warnings")


def _inject(cluster: SimCluster, rng: Random, name: str) -> Callable[[], None]:
    """Inject a random fault of a server; return a function that heals it."""
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
    return lambda: cluster.heal(cut)


def inject_faults(cluster: SimCluster, rng: Random, until: float) -> None:
    """Inject faults of one server after another; the next one often begins just before the previous one is healed."""
    name = rng.choice(SERVERS)
    undo = _inject(cluster, rng, name)
    while time.monotonic() < until:
        time.sleep(rng.uniform(0.1, 4))
        if rng.random() < 0.6:
            name = rng.choice(others(name))
            undo, before = _inject(cluster, rng, name), undo
            before()
        else:
            undo()
            time.sleep(rng.uniform(0.1, 2))
            name = rng.choice([*SERVERS, leader_of(cluster) or name])
            undo = _inject(cluster, rng, name)
    undo()


class AcknowledgedWrites:
    """A client that creates sequential nodes and increments a register, and records acknowledged writes."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.counted: list[int] = []
        self.seen: list[tuple[int, int]] = []
        """(zxid of the previous read, zxid of the next read) wherever reads of a session went backwards."""

    def __call__(self) -> None:
        zk = KazooClient(hosts="n1:2181,n2:2181,n3:2181", timeout=4.0)
        try:
            zk.start(60)
        except KazooTimeoutError:
            return
        until, last = time.monotonic() + DURATION_S, 0
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


def find_violations(seed: int) -> list[str]:
    """Run with one seed and return descriptions of the violations."""

    def main(cluster: SimCluster) -> list[str]:
        def prepare() -> None:
            one = client(str(leader_of(cluster)))
            one("create", "/q", b"", 0)
            one("create", "/r", b"", 0)

        run_on_hosts(cluster, {"c2": prepare})
        writers = [AcknowledgedWrites(), AcknowledgedWrites()]
        rng = Random(seed)
        until = time.monotonic() + DURATION_S
        run_on_hosts(
            cluster, {"c0": writers[0], "c1": writers[1], "c2": lambda: inject_faults(cluster, rng, until - 3)}
        )
        time.sleep(12)
        trees = [server(cluster, name).tree for name in SERVERS]
        made = [path for writer in writers for path in writer.made]
        counted = [number for writer in writers for number in writer.counted]
        wrong = []
        if len({repr(tree.dump()) for tree in trees}) != 1:
            wrong.append("servers differ")
        if any(path not in tree.nodes for tree in trees for path in made):
            wrong.append("an acknowledged node is lost")
        if len(set(made)) != len(made) or len(set(counted)) != len(counted):
            wrong.append("two clients got the same number")
        if any(tree.nodes["/r"].version < max(counted, default=0) for tree in trees):
            wrong.append("an acknowledged write is lost")
        if any(writer.seen for writer in writers):
            wrong.append("reads of a session went backwards")
        if len(made) < 30:
            wrong.append(f"only {len(made)} writes")
        return wrong

    found: list[str] = run_ensemble(main, seed=seed)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_acknowledged_writes_survive(seed: int) -> None:
    assert find_violations(seed) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 42))
def test_acknowledged_writes_survive_for_many_seeds(seed: int) -> None:
    assert find_violations(seed) == []


def _commit_without_majority(monkeypatch: pytest.MonkeyPatch) -> None:
    """The leader commits without waiting for its followers."""
    real = Leader._is_majority
    monkeypatch.setattr(Leader, "_is_majority", lambda self, count: self.established or real(self, count))


def _elect_highest_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server with the highest number leads, however old its log is."""
    monkeypatch.setattr(ZooKeeperDisk, "recency", (0, 0))


def _keep_uncommitted_proposals(monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower keeps proposals that the new leader does not know."""
    real = Follower._adopt_history

    def take_over(self: Follower, conn: Any, epoch: int, dump: Any, txns: list[Any]) -> None:
        kept = list(self._member.disk.proposed)
        real(self, conn, epoch, dump, txns)
        self._member.disk.proposed.extendleft(reversed([txn for txn in kept if txn.zxid < epoch << 32]))

    monkeypatch.setattr(Follower, "_adopt_history", take_over)


@pytest.mark.few(1)
@pytest.mark.parametrize(("mutant", "seed"), [(_commit_without_majority, 7), (_elect_highest_number, 1)])
def test_mutant_ensemble_is_noticed(
    mutant: Callable[[pytest.MonkeyPatch], None], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    assert find_violations(seed) != []


def discards_uncommitted_proposals() -> bool:
    """Return whether an isolated leader discards its proposals when it follows another leader later."""

    def main(cluster: SimCluster) -> bool:
        first = str(leader_of(cluster))

        def cut_off() -> None:
            one = client(first)
            cluster.cut(links(first, *others(first)))
            one.send(("create", "/lost", b"", 0))
            assert one.next() is None

        run_on_hosts(cluster, {"c0": cut_off})
        time.sleep(1)
        run_on_hosts(cluster, {"c0": lambda: client(str(leader_of(cluster)))("create", "/kept", b"", 0)})
        cluster.heal(links(first, *others(first)))
        time.sleep(3)
        nodes = [server(cluster, name).tree.nodes for name in SERVERS]
        return all("/kept" in each and "/lost" not in each for each in nodes)

    found: bool = run_ensemble(main)
    return found


def test_uncommitted_proposals_are_discarded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert discards_uncommitted_proposals()
    _keep_uncommitted_proposals(monkeypatch)
    assert not discards_uncommitted_proposals()
