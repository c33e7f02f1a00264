"""Drives one run: starts clients and nemesis on a cluster, and records what they do until the time is up."""

from __future__ import annotations

import time
from collections.abc import Callable
from random import Random
from typing import Any, Final

from .client_program import Job, find_lock, find_workload
from .clusters.base import Cluster, names
from .history import HistoryWriter
from .nemesis import Nemesis
from .plan import Plan
from .progress import Telling
from .recorder import Recorder

GRACE: Final = 5.0
"""Seconds after the time limit (and a ttl) in which clients may finish their last section."""


class Runner:
    """Runs a completed plan against a cluster and records its history."""

    def __init__(
        self,
        plan: Plan,
        cluster: Cluster,
        *,
        writer: HistoryWriter | None,
        progress: Telling | None,
    ) -> None:
        self._plan = plan
        self._cluster = cluster
        self._progress = progress
        self._workload = find_workload(plan.workload)
        self._stock = self._workload.stock(plan, plan.time_limit)
        self.recorder = Recorder(writer, cluster.clock)
        if progress is not None:
            self.recorder.listeners.append(progress.heard)
        self._joins: list[Callable[[float], bool]] = []
        self._generations: dict[str, int] = {}
        self._began_ns = 0
        self._ended: tuple[int, int] | None = None
        self.over = False
        """Is all done that could be interrupted, but for the removal of the cluster?"""

    def run(self) -> None:
        """Everything between the first and the last entry. An interrupt ends it early, and says so in the history."""
        reason = "crashed"
        try:
            self._cluster.run(self._control)
            reason = "time limit"
        except KeyboardInterrupt:
            reason = "interrupted"
        finally:
            self.recorder.nemesis("stop", {"reason": reason}, at=self._end())
            self.recorder.close()

    def _end(self) -> tuple[int, int] | None:
        """When the run ended, not when its cluster was removed: in between nobody is heard, which must not look as if
        nobody had got the lock. What clients still told at the very end comes before it."""
        if self._ended is None:
            return None
        mono, wall = self._ended
        late = max(0, max(self.recorder.history.time, default=mono) - mono)
        return mono + late, wall + late

    def _control(self) -> None:
        try:
            self._play()
        finally:
            self._ended = self._cluster.clock()

    def _play(self) -> None:
        plan, cluster = self._plan, self._cluster
        self._began_ns = time.monotonic_ns()
        self.recorder.nemesis("start", self._settings())
        rng = Random(f"{plan.seed}/nemesis")
        nemesis = Nemesis(plan, cluster, self.recorder, rng, self._launch)
        nemesis.start()
        try:
            for client in names(cluster.hosts, "client"):
                self._launch(client)
            self._wait_until(plan.time_limit - plan.settle_time)
            nemesis.stop()
        except (Exception, KeyboardInterrupt):
            nemesis.abandon()
            raise
        self._wait_until(plan.time_limit)
        patience = plan.ttl + GRACE
        for join in self._joins:
            began = time.monotonic()
            join(patience)
            patience = max(0.0, patience - (time.monotonic() - began))
        self.over = True

    def _settings(self) -> dict[str, Any]:
        plan, hosts = self._plan, self._cluster.hosts
        return {
            "clients": names(hosts, "client"),
            "servers": names(hosts, "server"),
            "sentinels": names(hosts, "sentinel"),
            "discipline": plan.discipline,
            "fencing": plan.fencing,
            "ttl": plan.ttl,
            "hold": max(plan.hold, *plan.holds.values()) if plan.holds else plan.hold,
            "slack": plan.slack + find_lock(plan.lock).info.overtime,
            "queue": find_lock(plan.lock).info.queue,
            "workload": plan.workload,
            "locks": getattr(self._workload, "locks", True),
            "stock": self._stock,
        }

    def _wait_until(self, seconds: float) -> None:
        """Sleep until ``seconds`` after the start, telling the progress."""
        until_ns = int(seconds * 1e9)
        while True:
            elapsed_ns = time.monotonic_ns() - self._began_ns
            self._tell(elapsed_ns / 1e9)
            if elapsed_ns >= until_ns:
                return
            time.sleep(min(0.25, (until_ns - elapsed_ns) / 1e9))

    def _tell(self, elapsed: float) -> None:
        if self._progress is not None:
            with self.recorder.lock:  # nobody may record while it is put into words
                self._progress.running(elapsed, self._plan.time_limit)

    def _launch(self, client: str) -> None:
        """Start the program of a client's host; a second start is a new process."""
        generation = self._generations[client] = self._generations.get(client, -1) + 1
        address = self._cluster.endpoints()
        job = Job(
            plan=self._plan,
            node=client,
            generation=generation,
            kind=address.kind,
            addresses=address.addresses,
            resource=self._cluster.resource(),
            began_ns=self._began_ns,
            stops=tuple(spec.on for spec in self._plan.faults if spec.on is not None),
        )
        self._joins.append(self._cluster.launch(client, job, self.recorder.record))
