"""Facts about a simulated run that limit what its history proves about the lock."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from harness.clusters.base import names
from harness.clusters.sim.cluster import SimCluster
from harness.history import History
from harness.plan import Plan
from harness.wording import listed
from harness.worker.guard import files

from .separate_servers import excluded_otherwise


def doubts(plan: Plan, cluster: SimCluster, history: History, *, separately: bool = False) -> dict[str, Any]:
    """Return what the stop entry says about the evidence in a history; empty if there is no doubt about it.

    ``doubt`` has the reasons why the run proves nothing, as one sentence. ``contacted`` is a list with the only client
    that sent messages to servers, if others requested the lock too. With ``separately``, clients with servers of their
    own are compared besides, which takes more simulations.
    """
    found: dict[str, Any] = {}
    reasons = "; ".join(_doubts(plan, cluster, history))
    if not reasons and separately and any(call.outcome == "ok" for call in history.calls("acquire")):
        reasons = excluded_otherwise(plan) or ""
    if reasons:
        found["doubt"] = reasons
    contacted = [client for client in names(cluster.hosts, "client") if _contacted(cluster, client)]
    requested = {call.invoke.node for call in history.calls("acquire", "add")}
    if len(contacted) == 1 and requested - set(contacted):
        found["contacted"] = contacted
    return found


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
    clients = names(cluster.hosts, "client")
    silent = [client for client in clients if not _contacted(cluster, client)]
    if not silent or "acquire" not in history.f:
        return
    granted = {call.invoke.node for call in history.calls("acquire") if call.outcome == "ok"}
    if len(silent) == len(clients):
        yield "no server was contacted"
    elif alone := [client for client in silent if client in granted]:
        yield f"no server was contacted by {listed(alone)}, which got the lock all the same"


def _contacted(cluster: SimCluster, client: str) -> bool:
    """Return whether a message of the client reached a server."""
    return any(cluster.messages(client, host.name) for host in cluster.hosts if host.role != "client")
