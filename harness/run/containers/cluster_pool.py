"""Reuse of containers from one run to the next, because starting them takes longer than many runs.

Only the containers are reused. Server and client programs start anew in each run, without data of earlier runs.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from harness.clusters.abilities import DATA_FILES, DISKS, PROCESSORS, RELEASES, TAPS, TRAFFIC
from harness.clusters.base import Cluster
from harness.errors import HarnessError
from harness.faults.catalogue import needs_of
from harness.plan import Plan
from harness.run.opening import open_containers
from harness.run.processes.signals import interrupts_delayed

if TYPE_CHECKING:  # importing them loads the Docker SDK, which an installation for the simulator does not have
    from docker import DockerClient

    from harness.clusters.docker.site import Site, SiteRequest


OF_SERVERS: Final = (DISKS, PROCESSORS, DATA_FILES, RELEASES)
"""Abilities for which servers get other containers, or the helper other privileges."""
OF_CLIENTS: Final = frozenset({TRAFFIC, TAPS})
"""Abilities for which clients get a proxy."""


def sharing_key(plan: Plan) -> tuple[str, ...]:
    """Return a sort key that brings those plans together which can share containers: first those of servers, which
    take the longest to start, then those of clients."""
    from harness.run.processes.client_contents import client_contents  # loads what builds images and environments

    try:
        contents = client_contents(plan)
    except HarnessError:  # its own run says why
        contents = (), None
    needed = needs_of(plan.faults)
    servers = (str(ability in needed) for ability in OF_SERVERS)
    return plan.kind, str(plan.nodes), plan.image, *servers, str(contents), str(bool(needed & OF_CLIENTS))


class ClusterPool:
    """Clusters whose containers are reused; leaving the context removes them. Pass ``open`` to
    :func:`harness.run.runs.run`::

        with ClusterPool() as pool:
            for plan in plans:
                run(plan, open_cluster=pool.open)

    Consecutive plans share containers if they have the same kind, servers, images and needs, so sort the plans by
    :func:`sharing_key`. Containers are removed after a run that was interrupted or raised an exception, and if they
    cannot be reset for the next run.
    """

    def __init__(self) -> None:
        self.failures: list[str] = []
        """Reasons why containers could not be reset or removed, one message each."""
        self._site: Site | None = None
        self._ready = False

    def open(self, plan: Plan, report: Callable[[str], None] = lambda line: None) -> Cluster:  # noqa: ARG005
        """Open the cluster of a completed plan for one run."""
        return open_containers(plan, report, sites=self)

    # The protocol harness.clusters.docker.site.SiteSource.

    def take(self, engine: DockerClient, wanted: SiteRequest) -> Site:
        from harness.clusters.docker.site import Site

        if self._site is None or not self._ready or not self._site.fits(wanted):
            self._throw_away()
            self._site = Site(engine, wanted)
        self._ready = False  # until it is given back: an interrupt may leave it in any state
        return self._site

    def give_back(self, site: Site, *, sound: bool) -> None:
        if sound:
            try:
                site.reset()
            except Exception as error:  # noqa: BLE001 - whatever it was, the next run gets new containers
                self.failures.append(f"{type(error).__name__}: {error}")
            else:
                self._ready = True
                return
        self._throw_away()

    def _throw_away(self) -> None:
        """Remove the containers. A failure must not break the next run; ``harness cluster clean`` removes the rest."""
        if self._site is None:
            return
        with interrupts_delayed():
            try:
                self._site.close()
            except Exception as error:  # noqa: BLE001 - of the engine or a proxy; see above
                self.failures.append(f"{type(error).__name__}: {error}")
            self._site = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._throw_away()
