"""Helpers for stories of ZooKeeper locks: the same code runs on a simulated client and, from here, against real
servers."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kazoo.client import KazooClient

from harness.lock_impls.base import Endpoints, LockClass
from harness.lock_impls.zookeeper_client import ZooKeeperSession
from tests.clusters.bench import make, on
from tests.clusters.real import servers

TTL_S = 2.0
Story = Callable[[Endpoints], None]
RunStory = Callable[[Story], None]


def on_simulated_client(story: Story, damage: Callable[[Any], None] = lambda cluster: None) -> None:
    """Run ``story`` on a simulated client, and meanwhile ``damage`` on the cluster."""
    cluster = make("zookeeper", clients=1)

    def main() -> None:
        address = cluster.endpoints()
        where = Endpoints(address.kind, address.addresses)
        joined = cluster.spawn("c0", lambda checkpoint: story(where))
        damage(cluster)
        assert joined(600)

    on(cluster, main)


@contextmanager
def real_servers() -> Iterator[Endpoints]:
    with servers("zookeeper") as cluster:
        yield Endpoints("zookeeper", cluster.endpoints().addresses)


def open_locks(lock: LockClass, where: Endpoints, count: int = 2, **options: Any) -> list[Any]:
    """Open locks of several clients on one new key."""
    key = uuid.uuid4().hex
    return [lock.open(where, key, TTL_S, **options) for _ in range(count)]


def end_session(session: ZooKeeperSession, where: Endpoints) -> None:
    """Close a session from elsewhere, as the servers do when it sends no heartbeats. Returns when its client has
    another one."""
    ended = session.client.client_id
    hosts = ",".join(f"{host}:{port}" for host, port in where.addresses)
    intruder = KazooClient(hosts, timeout=TTL_S, client_id=ended)
    intruder.start()
    intruder.stop()
    while session.client.client_id in (None, ended):
        time.sleep(0.01)
