"""Test benches that start a cluster with clients, with the same interface for the simulator and for containers."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from random import Random
from typing import Any, Protocol

import msgspec

from harness.clusters.abilities import ABILITIES, Needs, abilities_of
from harness.clusters.abilities.hosts import ClientHangs, Processes, WallClocks
from harness.clusters.abilities.network import Network, Traffic
from harness.clusters.abilities.servers import LockKeys
from harness.clusters.base import Cluster, names
from harness.clusters.docker.cluster import DockerCluster
from harness.clusters.docker.container_needs import Clients
from harness.clusters.docker.images.requirements import requirements_of
from harness.clusters.kinds import KINDS
from harness.clusters.sim.cluster import SimCluster
from harness.faults.base import Fault, InjectionContext, Observation
from harness.faults.catalogue import fault_class
from harness.plan import Plan
from harness.worker import world
from harness.worker.client_program import ClientJob
from harness.worker.resource import Resource

TTL = 2.0
TIMEOUT = 0.3
HEALS_WITHIN = 60.0
LOCK = "tests.clusters.programs:Commands"


class AnyCluster(Cluster, Processes, ClientHangs, WallClocks, Network, Traffic, LockKeys, Protocol):
    """The abilities that simulated and real clusters implement themselves."""


Main = Callable[[AnyCluster], Any]


class Bench(Protocol):
    """Runs ``main`` on the control side of a cluster of some kind with three clients, and returns its result."""

    backend: str

    def on(self, kind: str, main: Main) -> Any: ...

    def abilities(self, kind: str) -> Needs: ...


def make(kind: str = "redis-independent", *, clients: int = 3, seed: int = 0, **options: Any) -> SimCluster:
    """Return a simulated cluster that has not been started."""
    return SimCluster(
        kind=kind,
        nodes=0,
        clients=clients,
        seed=seed,
        resource=Resource("off", {}).answer,
        options=options,
        program=world.run,
    )


def on(cluster: Cluster, main: Callable[[], Any]) -> Any:
    """Return the result of ``main``, called on the cluster's control side."""
    got: list[Any] = []
    cluster.run(lambda: got.append(main()))
    return got[0]


class SimBench:
    """Starts a new simulated cluster for each call, since that is cheap."""

    backend = "sim"

    def on(self, kind: str, main: Main) -> Any:
        cluster = make(kind)
        return on(cluster, lambda: main(cluster))

    def abilities(self, kind: str) -> Needs:
        return abilities_of([type(part) for part in make(kind).parts])


class DockerBench:
    """Uses one cluster of each kind for all tests, so each test must heal its faults."""

    backend = "docker"

    def __init__(self) -> None:
        self._clusters: dict[str, DockerCluster] = {}
        self._closing = ExitStack()

    def on(self, kind: str, main: Main) -> Any:
        return main(self._clusters.get(kind) or self._start(kind))

    def _start(self, kind: str) -> DockerCluster:
        requirements, source = requirements_of(LOCK)
        cluster = DockerCluster(
            kind=kind,
            nodes=0,
            clients=Clients(3, requirements, source),
            seed=0,
            resource='{"fencing": "off", "stock": {}}',
            options={},
            needs=frozenset(ABILITIES),
        )
        self._closing.callback(cluster.stop_all)
        cluster.start_all()
        self._clusters[kind] = cluster
        return cluster

    def abilities(self, kind: str) -> Needs:
        return abilities_of(DockerCluster.part_types(kind))

    def close(self) -> None:
        self._closing.close()


def _job(cluster: Cluster, client: str, workload: str, commands: Sequence[str]) -> ClientJob:
    address = cluster.endpoints()
    port = KINDS.find(address.kind).port
    hosts = {host.name: [host.address, port] for host in cluster.hosts if host.role == "server"}
    options = {"hosts": hosts, "commands": list(commands)}
    plan = Plan(
        lock=LOCK,
        workload=f"tests.clusters.programs:{workload}",
        ttl=TIMEOUT,
        time_limit=1000.0,
        lock_options=options,
    )
    return ClientJob.on(cluster, plan, client, time.monotonic_ns())


def client_answers(cluster: Cluster, *commands: str, client: str = "c0") -> list[str]:
    """Return a client's answers to commands such as ``"n1 GET lock"``; for an error, its kind."""
    answers: list[str] = []

    def record(**entry: Any) -> None:
        if entry["type_"] == "ok":
            answers.append(entry["value"]["fence"])
        elif entry["type_"] != "invoke":
            answers.append(entry["error"].split(": ")[1])  # Indeterminate: TimeoutError: ...

    join = cluster.launch(client, _job(cluster, client, "Once", commands), record)
    assert join(60)
    deadline = time.monotonic() + 60
    while len(answers) < len(commands) and time.monotonic() < deadline:  # a real one is heard a little later
        time.sleep(0.01)
    return answers


class Chat:
    """Context in which each client sets a key of its own on each server (or on the primary), ten times a second."""

    def __init__(self, cluster: AnyCluster) -> None:
        self._cluster = cluster

    def __enter__(self) -> None:
        servers = names(self._cluster.hosts, "server")
        talked_to = servers[:1] if self._cluster.kind == "redis-sentinel" else servers
        commands = [f"{server} SET key-NODE x PX 60000" for server in talked_to]
        for client in names(self._cluster.hosts, "client"):
            self._cluster.launch(client, _job(self._cluster, client, "Chatter", commands), lambda **entry: None)

    def __exit__(self, *exc: object) -> None:
        for client in names(self._cluster.hosts, "client"):
            self._cluster.kill(client)
            self._cluster.start(client, wiped=False)


def fault(name: str, **params: Any) -> Fault:
    """Return the fault with these parameters."""
    built: Fault = msgspec.convert(params, fault_class(name))
    return built


def scene(cluster: Cluster, client: str = "c0") -> InjectionContext:
    return InjectionContext(cluster, Random(1), TTL, client)


def part_with(cluster: Cluster, method: str) -> Any:
    """Return the part of a cluster that has this method."""
    return next(part for part in cluster.parts if hasattr(part, method))


def strike(cluster: AnyCluster, name: str) -> tuple[Observation, Observation]:
    """Inject a fault while clients send commands, observe it, wait and heal it. Return the observations of the fault
    and of its heal."""
    with Chat(cluster):
        time.sleep(1)
        damage = fault(name).inject(scene(cluster))
        seen = damage.observe()
        time.sleep(0.5)
        damage.heal()
        return seen, until_healed(damage.healed)


def until_healed(look: Callable[[], Observation]) -> Observation:
    """Return the last observation, made as the nemesis makes it."""
    deadline = time.monotonic() + HEALS_WITHIN
    while not (seen := look()).effective and time.monotonic() < deadline:
        time.sleep(0.1)
    return seen
