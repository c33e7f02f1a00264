"""Containers that are kept from one run to the next: what a run costs beside its own time is then little more than the
start of the programs.

Only the containers are kept. Programs, their data and what is known of them are new in each run, and come from where
those of a single run come from.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Self

from docker import DockerClient

from . import runs
from .clusters.base import Cluster
from .clusters.docker_site import Site, Wanted
from .plan import Plan


class Kept:
    """A context manager; leaving it removes everything. ``open`` is for :func:`harness.runs.run`::

        with Kept() as kept:
            for plan in plans:
                run(plan, open_cluster=kept.open)

    Containers stay as long as kind, servers, their images and whether they need disks of their own stay the same: sort
    the plans by these. After a run that was interrupted or raised, and where making them ready for another one fails,
    they are removed, and the next run starts new ones.
    """

    def __init__(self) -> None:
        self.failures: list[str] = []
        """Why containers could not be made ready for another run, though the last one was sound."""
        self._site: Site | None = None
        self._ready = False

    def open(self, plan: Plan, report: Callable[[str], None] = lambda line: None) -> Cluster:  # noqa: ARG005
        """The cluster a completed plan asks for, for one run; simulated ones too."""
        return runs.open_cluster(plan, report, sites=self)

    # For the cluster: see harness.clusters.docker_site.Sites.

    def take(self, engine: DockerClient, wanted: Wanted) -> Site:
        if self._site is None or not self._ready or not self._site.fits(wanted):
            self._throw_away()
            self._site = Site(engine, wanted)
        self._ready = False  # until it is given back: an interrupt may come at any time
        return self._site

    def give_back(self, site: Site, *, sound: bool) -> None:
        if sound:
            try:
                site.vacate()
            except Exception as error:  # noqa: BLE001 - whatever it was: the next run must not meet it
                self.failures.append(f"{type(error).__name__}: {error}")
            else:
                self._ready = True
                return
        self._throw_away()

    def _throw_away(self) -> None:
        """What the engine does not remove is no next run's fault; ``harness cluster clean`` finds it."""
        site, self._site = self._site, None
        if site is not None:
            try:
                site.close()
            except Exception as error:  # noqa: BLE001
                self.failures.append(f"{type(error).__name__}: {error}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._throw_away()
