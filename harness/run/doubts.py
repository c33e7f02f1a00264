"""Reasons why a simulated run proves nothing about the lock, whatever its history says."""

from __future__ import annotations

from collections.abc import Iterator

from harness.clusters.base import names
from harness.clusters.sim.cluster import SimCluster
from harness.history import History
from harness.plan import Plan
from harness.wording import listed
from harness.worker.guard import files


def doubts(plan: Plan, cluster: SimCluster, history: History) -> str:
    """Return all reasons as one sentence, "" if there is none."""
    return "; ".join(_doubts(plan, cluster, history))


def _doubts(plan: Plan, cluster: SimCluster, history: History) -> Iterator[str]:
    for call, host in cluster.unsupported().items():
        yield f"{host} called {call}, which the simulator lacks"
    yield from _without_server(cluster, history)
    if not plan.shared_files:
        for path, hosts in files.shared():
            yield (
                f"{listed(hosts)} used the same file {path}, which clients on different machines could not; "
                "--allow-shared-files accepts it"
            )


def _without_server(cluster: SimCluster, history: History) -> Iterator[str]:
    """Yield a sentence if a client was granted the lock and never sent a message to a server, or if none did."""
    clients, servers = names(cluster.hosts, "client"), [host.name for host in cluster.hosts if host.role != "client"]
    silent = [client for client in clients if not any(cluster.messages(client, server) for server in servers)]
    if not silent or "acquire" not in history.f:
        return
    granted = {call.invoke.node for call in history.calls("acquire") if call.outcome == "ok"}
    if len(silent) == len(clients):
        yield "no server was contacted"
    elif alone := [client for client in silent if client in granted]:
        yield f"no server was contacted by {listed(alone)}, which got the lock all the same"
