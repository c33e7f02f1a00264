"""Documented failures of etcd and its clients, each as a few requests in a fixed order over etcd3's own connections.

The same code runs on simulated and on real members.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import etcd3
import pytest

from harness.clusters.abilities import CLOCKS, ELECTIONS, NETWORK
from harness.clusters.docker.cluster import DockerCluster
from harness.clusters.docker.container_needs import Clients
from harness.faults.partition import links_between
from harness.lock_impls.etcd_client import FAILED
from harness.sim.servers.etcd import messages
from tests.clusters.bench import make, on

Story = Callable[[Any, Callable[[str], Any]], Any]
"""Steps of one failure. Arguments: the cluster's control interface, and a function from member name to client."""
PORT = 2379


class SimulatedCluster:
    def run(self, story: Story) -> Any:
        cluster = make("etcd", clients=1)
        results: list[Any] = []

        def main() -> None:
            time.sleep(0.5)
            join = cluster.spawn("c0", lambda checkpoint: results.append(story(cluster, _client_of)))
            assert join(120)

        on(cluster, main)
        return results[0]


def _client_of(address: str) -> Any:
    return etcd3.client(host=address, port=PORT, timeout=1.0)


class ContainerCluster:
    def __init__(self, cluster: DockerCluster) -> None:
        self._cluster = cluster

    def run(self, story: Story) -> Any:
        """Run the story after the members have recovered from the previous one."""
        self._cluster.servers.await_stage(self._cluster.servers.data_hosts)
        addresses = self._cluster.servers.addresses
        return story(self._cluster, lambda name: _client_of(addresses[name]))


@pytest.fixture(scope="module")
def _containers() -> Iterator[ContainerCluster]:
    cluster = DockerCluster(
        kind="etcd", nodes=0, clients=Clients(1), seed=0, resource='{"fencing": "off", "stock": {}}', options={},
        needs=frozenset({NETWORK, CLOCKS}),
    )  # fmt: skip
    try:
        cluster.start_all()
        yield ContainerCluster(cluster)
    finally:
        cluster.stop_all()


@pytest.fixture(params=["sim", pytest.param("docker", marks=pytest.mark.long)])
def stage(request: pytest.FixtureRequest) -> Any:
    return SimulatedCluster() if request.param == "sim" else request.getfixturevalue("_containers")


# etcd-11456


def _ask(client: Any, method: str, **fields: Any) -> Any:
    call = client.channel.unary_unary(
        f"/v3lockpb.Lock/{method}",
        getattr(messages, f"{method}Request").SerializeToString,
        getattr(messages, f"{method}Response").FromString,
    )
    return call(getattr(messages, f"{method}Request")(**fields), 20.0)


def test_lock_rpc_grants_a_deleted_key(stage: Any) -> None:
    """etcd-11456: the Lock RPC grants the lock to a waiter whose lease has expired.

    A holds the lock and B's lease expires while B waits. A releases. The RPC returns B's key, which no longer exists,
    and grants the lock to C at once. B's key fails the check "version(key) > 0".
    """

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
        exists = {who: a.get(key)[1] is not None for who, key in granted.items()}
        b_is_holder, _ = a.transaction([a.transactions.version(granted["b"]) > 0], [], [])
        return exists, b_is_holder

    exists, b_is_holder = stage.run(story)
    assert exists == {"b": False, "c": True}, "etcd granted the lock to both, and only one key exists"
    assert not b_is_holder


# etcd-old-leader


def test_partitioned_leader_still_confirms_renewals(stage: Any) -> None:
    """etcd-old-leader: a leader without a majority confirms renewals for a while. (The scenario shows the harm.)"""

    def story(cluster: Any, member: Any) -> Any:
        old = ELECTIONS.of(cluster).leader() or "n1"
        others = [name for name in ("n1", "n2", "n3") if name != old]
        lease = member(old).lease(2)
        links = links_between([old], others)
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
            cluster.heal(links)
        return renewed - cut

    assert 0.1 < stage.run(story) < 3


# python-etcd3


def test_refused_acquire_leaves_its_lease_behind(stage: Any) -> None:
    """pyetcd-refresh-dead: a refused try never revokes its lease. (The scenario is about refresh.)"""

    def story(cluster: Any, member: Any) -> Any:
        client = member("n1")
        holder = client.lock(f"leak-{time.monotonic_ns()}", ttl=30)
        assert holder.acquire(timeout=1)
        leases = _leases(client)
        assert not client.lock(holder.name, ttl=60).acquire(timeout=0)
        return len(_leases(client) - leases)

    assert stage.run(story) == 1


def _leases(client: Any) -> set[int]:
    from etcd3 import etcdrpc

    found = client.leasestub.LeaseLeases(etcdrpc.LeaseLeasesRequest())
    return {lease.ID for lease in found.leases}
