"""Opening of the cluster that a completed plan names: simulated, of containers, of the user's own servers, or on the
user's machines."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from harness.clusters.base import HostProgram
from harness.clusters.client_host import AGENT
from harness.clusters.kinds import KINDS
from harness.clusters.sim.cluster import SimCluster
from harness.faults.catalogue import build_fault, needs_of
from harness.plan import Plan
from harness.worker import world
from harness.worker.client_program import find_lock, stock_of
from harness.worker.resource import Resource

from .processes.interpreter import interpreter_of
from .processes.search_path import search_path

if TYPE_CHECKING:  # importing it loads the Docker SDK
    from harness.clusters.docker.cluster import DockerCluster
    from harness.clusters.docker.site import SiteSource
    from harness.clusters.servers.cluster import DirectCluster
    from harness.clusters.ssh.cluster import SshCluster


def _no_report(line: str) -> None:
    """No-op progress callback."""


def open_simulated(plan: Plan, program: HostProgram = world.run) -> SimCluster:
    """Open the simulated cluster of a completed plan. Each life of a client gets its own copy of the user's modules."""
    find_lock(plan.lock)  # the simulator replaces parts of libraries, such as grpc, that are loaded when it begins
    cluster = SimCluster(
        kind=plan.kind,
        nodes=plan.nodes,
        clients=plan.clients,
        seed=plan.seed,
        resource=Resource(plan.fencing, stock_of(plan)).answer,
        options=plan.server_options,
        program=program,
        shuffle=plan.shuffle,
    )
    for delay in plan.delays:
        cluster.delay_message(delay.source, delay.target, delay.nth, delay.by)
    return cluster


def open_containers(
    plan: Plan,
    report: Callable[[str], None] = _no_report,
    *,
    sites: SiteSource | None = None,
) -> DockerCluster:
    """Open the cluster of containers of a completed plan. ``report`` is called with each step of its start. It takes
    its containers from ``sites``; with None it starts and removes its own."""
    from harness.clusters.docker.cluster import DockerCluster
    from harness.clusters.docker.container_needs import Clients
    from harness.environments.programs import required_releases

    from .plans.lock_facts import find_facts
    from .processes.client_contents import client_contents

    distributions, folder = client_contents(plan)
    runtime = find_facts(plan.lock, interpreter_of(plan)).runtime
    return DockerCluster(
        kind=plan.kind,
        nodes=plan.nodes,
        clients=Clients(
            plan.clients,
            distributions,
            folder,
            runtime,
            _lock_of(plan),
            required_releases(plan.lock, plan.requires),
        ),
        seed=plan.seed,
        resource=_resource_of(plan),
        options=plan.server_options,
        needs=needs_of(plan.faults),
        releases=[release for spec in plan.faults for release in build_fault(spec).releases()],
        image=plan.image,
        report=report,
        sites=sites,
    )


def open_servers(plan: Plan, report: Callable[[str], None] = _no_report) -> DirectCluster:
    """Open the cluster of a completed plan whose servers the user runs. Raises EnvironmentLacking if one of them does
    not answer, UsageError if one cannot be used."""
    from harness.clusters.servers.cluster import LocalClients, cluster_class
    from harness.clusters.servers.hooks import HookCommands

    interpreter = interpreter_of(plan)
    return cluster_class(plan.kind)(
        kind=plan.kind,
        servers=plan.servers,
        clients=LocalClients(
            plan.clients,
            [interpreter or sys.executable, "-P", "-m", AGENT, str(os.getpid())],
            {"PYTHONPATH": os.pathsep.join(search_path(interpreter))},
            _lock_of(plan),
            KINDS.find(plan.kind).packages,
        ),
        seed=plan.seed,
        resource=_resource_of(plan),
        hooks={name: HookCommands(**msgspec.structs.asdict(hook)) for name, hook in plan.hooks.items()},
        report=report,
    )


def open_ssh(plan: Plan, report: Callable[[str], None] = _no_report) -> SshCluster:
    """Open the cluster of a completed plan on the user's machines. Raises EnvironmentLacking if one of them is not
    reached, or cannot do what the plan needs."""
    from harness.clusters.ssh.client_files import ClientFiles
    from harness.clusters.ssh.cluster import SshCluster
    from harness.clusters.ssh.preparation import ClientSetup, HostSettings

    from .processes.client_contents import client_contents

    distributions, folder = client_contents(plan)
    return SshCluster(
        kind=plan.kind,
        hosts=HostSettings(plan.hosts[: plan.nodes], plan.client_hosts or plan.hosts, plan.ssh_config, plan.host_setup),
        clients=ClientSetup(
            plan.clients,
            ClientFiles(distributions, folder, plan.client_python, report),
            _lock_of(plan),
            KINDS.find(plan.kind).packages,
        ),
        resource=_resource_of(plan),
        options=plan.server_options,
        needs=needs_of(plan.faults),
        report=report,
    )


def _lock_of(plan: Plan) -> dict[str, Any]:
    """Return the lock that the client programs prepare."""
    return {"name": plan.lock, "ttl": plan.ttl, "options": plan.lock_options}


def _resource_of(plan: Plan) -> str:
    """Return the configuration of :mod:`harness.worker.resource_server`."""
    return msgspec.json.encode({"fencing": plan.fencing, "stock": stock_of(plan)}).decode()
