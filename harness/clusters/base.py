"""The core interface of a cluster: what a run needs of it, whether it is simulated or real.

What faults do to a cluster is in :mod:`harness.clusters.abilities`. Durations are seconds unless a name says ``_ns``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

Role = Literal["server", "sentinel", "client"]
ObservedFacts = dict[str, Any]
RecordEntry = Callable[..., None]
"""Records one history entry, whose fields are keyword arguments; see harness.run.recorder.Recorder.record."""
Checkpoint = Callable[[], None]
"""A client calls it after each history entry. A fault that is triggered by an event takes effect there."""
HostProgram = Callable[[Any, RecordEntry, Checkpoint], None]
"""The client program, called with its job on a client's host; see harness.worker.world.run."""


class Host(Protocol):
    """One machine of a cluster."""

    @property
    def name(self) -> str: ...

    @property
    def role(self) -> Role: ...

    @property
    def address(self) -> str:
        """Name or IP address at which the other hosts reach it."""


@dataclass(frozen=True, slots=True)
class ClusterEndpoints:
    """(host, port) of each server that a lock connects to; converted to harness.lock_impls.base.Endpoints."""

    kind: str
    addresses: tuple[tuple[str, int], ...]


class Cluster(Protocol):
    """Hosts that run servers and clients: what every cluster has.

    ``parts`` are the objects that implement what else it can do, the cluster itself among them; see
    :class:`harness.clusters.abilities.Ability`.
    """

    backend: str
    kind: str

    @property
    def hosts(self) -> Sequence[Host]: ...

    @property
    def parts(self) -> Sequence[object]: ...

    def endpoints(self) -> ClusterEndpoints: ...

    def resource(self) -> tuple[str, int]:
        """(host, port) of the protected resource. It is not one of ``hosts``: it is never faulted."""

    def run(self, main: Callable[[], None]) -> None:
        """Start the servers, call ``main`` where ``time`` and ``threading`` are the cluster's, stop everything."""

    def interrupt(self) -> None:
        """Make :meth:`run` raise KeyboardInterrupt soon, unless it stops everything already. For the handler of a
        signal, in the main thread."""

    def launch(self, client: str, job: Any, record: RecordEntry) -> Callable[[float], bool]:
        """Run the client program with ``job`` (a :class:`harness.worker.client_program.ClientJob`) on a client's host,
        and call ``record`` for each entry of its history. Return ``join(timeout seconds) -> done``. Client n starts
        after the plan's ``stagger``."""

    def clock(self) -> tuple[int, int]:
        """Return (monotonic ns, true wall clock ns)."""

    def logs(self, origin_ns: int) -> dict[str, str]:
        """Return the log of each server and sentinel, by host. Each line begins with the seconds since ``origin_ns``
        and the server's own wall clock."""

    def about(self) -> ObservedFacts:
        """Facts about the cluster for a run's results, such as versions and images."""


def names(hosts: Sequence[Host], role: Role) -> list[str]:
    """Host names of one role, in order."""
    return [host.name for host in hosts if host.role == role]


def role_of(name: str) -> Role:
    """Return a host's role, given only its name: servers are n1, n2 ..., sentinels s1 ..., clients c0 ..."""
    roles: dict[str, Role] = {"n": "server", "s": "sentinel", "c": "client"}
    return roles[name[0]]
