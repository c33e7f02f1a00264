"""Clusters, jobs of clients and durations for :mod:`benchmarks.containers`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

from benchmarks.containers_workload import TTL
from harness.clusters.abilities import Needs
from harness.clusters.docker.cluster import DockerCluster
from harness.clusters.docker.container_needs import Clients
from harness.clusters.docker.containers.engine import connect
from harness.clusters.docker.images.images import Images
from harness.clusters.docker.images.requirements import requirements_of
from harness.plan import Plan
from harness.worker.client_program import ClientJob

CLIENTS: Final = 5
WORKLOAD: Final = "benchmarks.containers_workload"
T = TypeVar("T")


def cluster(kind: str, needs: Needs = frozenset()) -> DockerCluster:
    """A cluster with five clients that has not been started."""
    requirements, source = requirements_of(f"{WORKLOAD}:Cycles")
    return DockerCluster(
        kind=kind,
        nodes=0,
        clients=Clients(CLIENTS, requirements, source),
        seed=0,
        resource='{"fencing": "off", "stock": {}}',
        options={},
        needs=needs,
    )


def build_images() -> None:
    """Build the images first: they are built once and do not count."""
    requirements, _ = requirements_of(f"{WORKLOAD}:Cycles")
    images = Images(connect(), lambda line: print(line, file=sys.stderr))
    images.server("redis"), images.client(requirements), images.client(), images.toxiproxy()


def launch(
    there: DockerCluster, client: str, workload: str, record: Callable[..., None], **plan: Any
) -> Callable[[float], bool]:
    """Have a client do a workload of ours."""
    job_plan = Plan(workload=f"{WORKLOAD}:{workload}", clients=CLIENTS, ttl=TTL, **plan)
    return there.launch(client, ClientJob.on(there, job_plan, client, time.monotonic_ns()), record)


def seconds(call: Callable[[], T]) -> tuple[float, T]:
    """Duration and result of a call."""
    began = time.perf_counter()
    returned = call()
    return time.perf_counter() - began, returned
