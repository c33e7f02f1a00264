"""Documented failures of etcd and its clients that are a few requests in a fixed order, over etcd3's own connections:
the same code on simulated and on real members."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import etcd3
import pytest

from harness.clusters.docker import Clients, DockerCluster
from harness.faults.partition import between
from harness.sim.servers.etcd.lock import MESSAGES
from lock_impls.etcd_client import FAILED
from tests.clusters.bench import make, on

Story = Callable[[Any, Callable[[str], Any]], Any]
"""Is given the cluster's control side, and what opens a client of a member by its name."""
PORT = 2379


class SimStage:
    def tell(self, story: Story) -> Any:
        cluster = make("etcd", clients=1)
        told: list[Any] = []

        def main() -> None:
            time.sleep(0.5)
            join = cluster.spawn("c0", lambda checkpoint: told.append(story(cluster, _client_of)))
            assert join(120)

        on(cluster, main)
        return told[0]


def _client_of(address: str) -> Any:
    return etcd3.client(host=address, port=PORT, timeout=1.0)


class DockerStage:
    def __init__(self, cluster: DockerCluster) -> None:
        self._cluster = cluster

    def tell(self, story: Story) -> Any:
        """Once the members are together again after the story before."""
        self._cluster.servers.await_stage(self._cluster.servers.data_hosts)
        addresses = self._cluster.servers.addresses
        return story(self._cluster, lambda name: _client_of(addresses[name]))


@pytest.fixture(scope="module")
def _docker_stage() -> Iterator[DockerStage]:
    cluster = DockerCluster(
        kind="etcd", nodes=0, clients=Clients(1), seed=0, resource='{"fencing": "off", "stock": {}}', options={},
        needs=frozenset({"cut", "clock"}),
    )  # fmt: skip
    try:
        cluster.start_all()
        yield DockerStage(cluster)
    finally:
        cluster.stop_all()


@pytest.fixture(params=["sim", pytest.param("docker", marks=pytest.mark.long)])
def stage(request: pytest.FixtureRequest) -> Any:
    return SimStage() if request.param == "sim" else request.getfixturevalue("_docker_stage")


# etcd-11456


def _ask(client: Any, method: str, **fields: Any) -> Any:
    call = client.channel.unary_unary(
        f"/v3lockpb.Lock/{method}",
        MESSAGES[f"{method}Request"].SerializeToString,
        MESSAGES[f"{method}Response"].FromString,
    )
    return call(MESSAGES[f"{method}Request"](**fields), 20.0)


def test_the_lock_rpc_grants_a_key_that_is_gone(stage: Any) -> None:
    """etcd-11456: A holds; B's lease ends while it waits; A releases; B is granted its key, which is not there, and C
    is granted the lock at once. B's token fails the check "version(key) > 0"."""

    def story(cluster: Any, member: Any) -> Any:
        a, b, c = (member(name) for name in ("n1", "n2", "n3"))
        name = b"rpc-%d" % time.monotonic_ns()
        held = _ask(a, "Lock", name=name, lease=a.lease(30).id).key
        granted: dict[str, bytes] = {}

        def wait(who: str, client: Any, ttl: int) -> None:
            granted[who] = _ask(client, "Lock", name=name, lease=client.lease(ttl).id).key

        waiters = [threading.Thread(target=wait, args=("b", b, 2)), threading.Thread(target=wait, args=("c", c, 30))]
        for waiter in waiters:
            waiter.start()
            time.sleep(0.5)
        time.sleep(4.5)
        _ask(a, "Unlock", key=held)
        for waiter in waiters:
            waiter.join(5)
        there = {who: a.get(key)[1] is not None for who, key in granted.items()}
        checked, _ = a.transaction([a.transactions.version(granted["b"]) > 0], [], [])
        return there, checked

    there, checked = stage.tell(story)
    assert there == {"b": False, "c": True}, "both were granted, and one has no key"
    assert not checked


# etcd-old-leader


def test_an_old_leader_goes_on_renewing(stage: Any) -> None:
    """etcd-old-leader: who talks to a leader that is cut off from the others is told for a while that its lease is
    renewed, though no majority hears of that. (What comes of it is a scenario.)"""

    def story(cluster: Any, member: Any) -> Any:
        old = cluster.primary()
        others = [name for name in ("n1", "n2", "n3") if name != old]
        lease = member(old).lease(2)
        links = between([old], others)
        renewed = cut = time.monotonic()
        cluster.cut(links)
        try:
            while time.monotonic() < cut + 3:
                try:
                    (answer,) = lease.refresh()
                except (*FAILED, ValueError):
                    break
                renewed = time.monotonic() if answer.TTL > 0 else renewed
                time.sleep(0.05)
        finally:
            cluster.mend(links)
        return renewed - cut

    assert 0.1 < stage.tell(story) < 3


# python-etcd3


def test_a_refused_try_leaves_its_lease_behind(stage: Any) -> None:
    """pyetcd-refresh-dead: each try takes a lease, also one that finds the lock taken, and nobody gives it back. (The
    refresh that says nothing is a scenario.)"""

    def story(cluster: Any, member: Any) -> Any:
        client = member("n1")
        holder = client.lock(f"leak-{time.monotonic_ns()}", ttl=30)
        assert holder.acquire(timeout=1)
        leases = _leases(client)
        assert not client.lock(holder.name, ttl=60).acquire(timeout=0)
        return len(_leases(client) - leases)

    assert stage.tell(story) == 1


def _leases(client: Any) -> set[int]:
    from etcd3 import etcdrpc

    found = client.leasestub.LeaseLeases(etcdrpc.LeaseLeasesRequest())
    return {lease.ID for lease in found.leases}
