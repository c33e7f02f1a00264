"""Start servers in containers, for tests that connect to them directly."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from typing import Any, Final

from etcd3 import Etcd3Client
from greenlet import getcurrent
from hazelcast.client import HazelcastClient
from kazoo.client import KazooClient
from tooz.coordination import CoordinationDriver

from harness.clusters.abilities import Needs
from harness.clusters.base import names
from harness.clusters.docker.cluster import DockerCluster
from harness.clusters.docker.container_needs import Clients
from harness.clusters.docker.services.failover import HOSTS
from harness.lock_impls.consul_client import ConsulSession
from harness.lock_impls.etcd_client import EtcdSession
from harness.lock_impls.redis_watchdog import Renewal
from harness.sim.kernel import Task

Call = Callable[..., Any]
LASTING: Final[tuple[tuple[type, str, Call], ...]] = (
    (KazooClient, "start_async", KazooClient.stop),
    (HazelcastClient, "__init__", HazelcastClient.shutdown),
    (CoordinationDriver, "start", CoordinationDriver.stop),
    (EtcdSession, "__init__", EtcdSession.stop),
    (ConsulSession, "__init__", ConsulSession.stop),
    (Etcd3Client, "__init__", Etcd3Client.close),
    (Renewal, "__init__", Renewal.stop),
)
"""Clients that look for their servers while they live: the call that begins that, and the one that ends it."""


@contextmanager
def servers(kind: str, nodes: int = 0, *, needs: Needs = frozenset(), **options: Any) -> Iterator[DockerCluster]:
    """Start servers of a kind in containers: its default number, or ``nodes``. ``needs`` are the abilities that
    faults require of them, ``options`` those of the cluster."""
    cluster = DockerCluster(
        kind=kind, nodes=nodes, clients=Clients(0), seed=0, resource="", options=options, needs=needs, by_hand=True
    )
    try:
        cluster.start_all()
        with _clients_end():
            yield cluster
    finally:
        cluster.stop_all()


@contextmanager
def servers_with_clients(
    kind: str, *, image: str = "", needs: Needs = frozenset(), **options: Any
) -> Iterator[DockerCluster]:
    """Start the default number of servers of a kind, of this image if one is given, their sentinels and two clients."""
    cluster = DockerCluster(
        kind=kind, nodes=0, clients=Clients(2), seed=0, resource='{"fencing": "off", "stock": {}}', options=options,
        needs=needs, image=image,
    )  # fmt: skip
    try:
        cluster.start_all()
        yield cluster
    finally:
        cluster.stop_all()


def until(true: Callable[[], bool], patience: float = 15.0) -> None:
    """Wait until a condition is true."""
    deadline = time.monotonic() + patience
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def hosts_file(cluster: DockerCluster, client: str) -> str:
    """Return the hosts file of a client's container."""
    lines: list[str] = []
    ended: list[bool] = []
    channel = cluster._boxes[client].start(
        ["cat", HOSTS], lambda line: lines.append(line.decode()), on_end=lambda: ended.append(True)
    )
    until(lambda: bool(ended))
    channel.close()
    return "\n".join(lines)


@contextmanager
def _clients_end() -> Iterator[None]:
    """Close the clients that locks opened. Locks never close them, because their processes end; here they would
    continue to search for servers at addresses that no longer exist."""
    ends = _noted()
    before = len(ends)
    try:
        yield
    finally:
        while len(ends) > before:
            ends.pop()()


@cache
def _noted() -> list[Call]:
    """Record the calls that close the clients, or end the threads, that locks start from now on; return the list."""
    ends: list[Call] = []
    for kind, begins, end in LASTING:
        setattr(kind, begins, _noting(getattr(kind, begins), end, ends))
    return ends


def _noting(begin: Call, end: Call, ends: list[Call]) -> Call:
    def begun(one: Any, *args: Any, **options: Any) -> Any:
        answer = begin(one, *args, **options)
        if not isinstance(getcurrent(), Task):  # those of a simulation end with it
            ends.append(partial(end, one))
        return answer

    return begun


@contextmanager
def paused(cluster: DockerCluster) -> Iterator[None]:
    """Pause all servers of the cluster."""
    with ExitStack() as stack:
        for host in names(cluster.hosts, "server"):
            cluster.pause(host)
            stack.callback(cluster.resume, host)
        yield
