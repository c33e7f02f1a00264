"""Real servers without clients, for tests that are the client themselves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from harness.clusters.base import names
from harness.clusters.docker import Clients, DockerCluster


@contextmanager
def servers(
    kind: str, nodes: int = 0, *, needs: frozenset[str] = frozenset(), **options: Any
) -> Iterator[DockerCluster]:
    """Servers of that kind in containers, as many as it has by default or ``nodes``; ``needs`` is what faults are to be
    able to do to them, and ``options`` are the cluster's."""
    cluster = DockerCluster(
        kind=kind, nodes=nodes, clients=Clients(0), seed=0, resource="", options=options, needs=needs, by_hand=True
    )
    try:
        cluster.start_all()
        yield cluster
    finally:
        cluster.stop_all()


@contextmanager
def paused(cluster: DockerCluster) -> Iterator[None]:
    """None of its servers says anything."""
    with ExitStack() as stack:
        for host in names(cluster.hosts, "server"):
            cluster.pause(host)
            stack.callback(cluster.resume, host)
        yield
