"""Execution of a plan on a cluster: start the clients and the nemesis, record what they do, stop at the time limit."""

from __future__ import annotations

import time
from collections.abc import Callable
from random import Random
from typing import Any, Final, Protocol

import msgspec

from harness.clusters.abilities import CLOCK_ERRORS, FREEZE, LAST_ENTRIES, LOSSES, PROCESSOR_WAITS
from harness.clusters.base import Cluster, names
from harness.documents.lock import LockFacts
from harness.errors import LockFailed, MachineLost
from harness.history import History, Op
from harness.plan import Plan
from harness.wording import listed
from harness.worker.client_program import ClientJob, find_workload, stock_of

from .exits import ExitWatch
from .nemesis import Nemesis
from .plans.stated_lease import stated_lease_s
from .recorder import EntryWriter, Recorder

STOPPED: Final = "violation"
"""The reason in the last entry of a run that ended at its first violation."""
GRACE: Final = 5.0
"""Seconds after the time limit (and a ttl) in which clients may finish their last critical section."""


class RunProgress(Protocol):
    """Callbacks for the progress of a run; see :class:`harness.run.progress.ProgressReporter`."""

    def on_entry(self, op: Op) -> None: ...

    def running(self, elapsed: float, limit: float) -> None: ...


class Stopped(Exception):
    """The run ends at a violation."""


class Runner:
    """Runs a completed plan against a cluster and records its history. ``lock`` are the facts of the plan's lock.

    ``doubts`` is called with the whole history, and returns what the stop entry says about its evidence, as
    :func:`harness.run.doubts.doubts` does. ``ends`` can be set: it says whether the run ends early, at a violation.
    """

    def __init__(
        self,
        plan: Plan,
        lock: LockFacts,
        cluster: Cluster,
        *,
        writer: EntryWriter | None = None,
        progress: RunProgress | None = None,
        doubts: Callable[[History], dict[str, Any]] = lambda _: {},
    ) -> None:
        self._plan = plan
        self._lock = lock
        self._cluster = cluster
        self._progress = progress
        self._doubts = doubts
        self.ends: Callable[[], bool] = lambda: False
        self._losses = LOSSES.find(cluster)
        self._workload = find_workload(plan.workload)
        self._stock = stock_of(plan)
        self.recorder = Recorder(writer, cluster.clock)
        if progress is not None:
            self.recorder.listeners.append(progress.on_entry)
        self._joins: list[Callable[[float], bool]] = []
        self._generations: dict[str, int] = {}
        self._began_ns = 0
        self._ended: tuple[int, int] | None = None
        self._nemesis: Nemesis | None = None

    def run(self) -> None:
        """Record everything from the first to the last entry, which says why the run ended."""
        stop: dict[str, Any] = {"reason": "crashed"}
        try:
            self._cluster.run(self._control)
            stop = {"reason": "time limit"}
        except KeyboardInterrupt:
            stop = {"reason": "interrupted"}
        except Stopped:
            stop = {"reason": STOPPED}
        except (LockFailed, MachineLost) as error:
            stop["doubt"] = str(error)
        finally:
            if "doubt" not in stop:
                stop |= {**self._missing_entries(), **self._doubts(self.recorder.history)}
            if loss := self._loss():
                stop["doubt"] = loss
            self.recorder.nemesis("stop", {**stop, **self._processor_waits(), **self._clock_errors()}, at=self._end())
            self.recorder.close()

    def _missing_entries(self) -> dict[str, Any]:
        """Return the doubt about a history that may lack the last entries of a client, such as its release."""
        found = LAST_ENTRIES.find(self._cluster)
        if found is None or not (clients := found.unheard()):
            return {}
        return {"doubt": f"{listed(clients)} did not answer when the run ended, so that last entries may be missing"}

    def _processor_waits(self) -> dict[str, Any]:
        """Return how long programs waited for a processor; see :mod:`harness.checkers.overload`."""
        found = PROCESSOR_WAITS.find(self._cluster)
        return {} if found is None or not (waits := found.processor_waits()) else {"processor_waits": waits}

    def _clock_errors(self) -> dict[str, Any]:
        """Return the errors of the clients' times up to now, where their clocks were converted; see
        :mod:`harness.checkers.machine_clocks`."""
        found = CLOCK_ERRORS.find(self._cluster)
        return {} if found is None else {"machine_clocks": msgspec.to_builtins(list(found.machine_clocks()))}

    def freeze(self) -> None:
        """Stop the nemesis, and freeze the whole cluster, which then outlives the run."""
        if self._nemesis is not None:
            self._nemesis.abandon()
        FREEZE.of(self._cluster).freeze_all()

    def _end(self) -> tuple[int, int] | None:
        """Return the time of the last entry, or None if the run did not begin.

        It is the end of the run, not of the removal of the cluster: in between nothing is recorded, which would look as
        if no client had acquired the lock. It is not before the last entry of a client."""
        if self._ended is None:
            return None
        mono, wall = self._ended
        late = max(0, max(self.recorder.history.time, default=mono) - mono)
        return mono + late, wall + late

    def _control(self) -> None:
        try:
            self._execute()
        finally:
            self._ended = self._cluster.clock()

    def _execute(self) -> None:
        plan, cluster = self._plan, self._cluster
        self.recorder.nemesis("start", self._settings())
        rng = Random(f"{plan.seed}/nemesis")
        nemesis = self._nemesis = Nemesis(plan, cluster, self.recorder, rng, self._launch)
        nemesis.start()
        self._began_ns = time.monotonic_ns()
        exits = ExitWatch(cluster, self.recorder, self._launch) if self._ends_processes() else None
        try:
            for client in names(cluster.hosts, "client"):
                self._launch(client)
            self._wait_until(plan.time_limit - plan.settle_time)
            nemesis.stop()
            self._wait_until(plan.time_limit)
            self._join_clients()
            if exits is not None:
                exits.stop()
        except (Exception, KeyboardInterrupt):
            nemesis.abandon()
            if exits is not None:
                exits.abandon()
            raise

    def _join_clients(self) -> None:
        patience = self._plan.ttl + GRACE
        for join in self._joins:
            began = time.monotonic()
            join(patience)
            patience = max(0.0, patience - (time.monotonic() - began))

    def _ends_processes(self) -> bool:
        return bool(getattr(self._workload, "ends_processes", False))

    def _settings(self) -> dict[str, Any]:
        plan, hosts = self._plan, self._cluster.hosts
        lease = stated_lease_s(plan, self._lock)
        return {
            "clients": names(hosts, "client"),
            "servers": names(hosts, "server"),
            "sentinels": names(hosts, "sentinel"),
            "discipline": plan.discipline,
            "fencing": plan.fencing,
            "ttl": plan.ttl,
            **({} if lease is None else {"lease": lease}),
            "hold": self._longest_hold(lease),
            "slack": plan.slack + self._lock.overtime,
            **({"answer_timeout": self._lock.answer_timeout} if self._lock.answer_timeout else {}),
            "queue": self._lock.queue,
            **({"no_single_point": True} if self._lock.no_single_point else {}),
            "workload": plan.workload,
            "locks": getattr(self._workload, "locks", True),
            "updates": getattr(self._workload, "updates", False),
            "stock": self._stock,
            **self._clock_errors(),
        }

    def _longest_hold(self, lease: float | None) -> float:
        """Return the longest time (s) for which a client plans to hold the lock."""
        plan = self._plan
        leases = getattr(self._workload, "leases", 0.0) * max(plan.ttl, lease or 0.0)
        return max(plan.hold, leases, *plan.holds.values())

    def _wait_until(self, seconds: float) -> None:
        """Sleep until ``seconds`` after the start, and report the progress meanwhile.

        Raises what ends the run early: Stopped, MachineLost, or the HarnessError that says why the history could not be
        written."""
        until_ns = int(seconds * 1e9)
        while True:
            elapsed_ns = time.monotonic_ns() - self._began_ns
            self._report_progress(elapsed_ns / 1e9)
            if self.recorder.failure is not None:
                raise self.recorder.failure
            if self.ends():
                raise Stopped
            if loss := self._loss():
                raise MachineLost(loss)
            if elapsed_ns >= until_ns:
                return
            time.sleep(min(0.25, (until_ns - elapsed_ns) / 1e9))

    def _loss(self) -> str:
        """Return which machine was lost; "" if none was. Its last entries may be missing, also if the run had ended for
        another reason."""
        return "" if self._losses is None else self._losses.lost()

    def _report_progress(self, elapsed: float) -> None:
        if self._progress is not None:
            with self.recorder.lock:  # the progress reads what a recorded entry changes
                self._progress.running(elapsed, self._plan.time_limit)

    def _launch(self, client: str) -> None:
        """Start the program of a client's host; each further start is a new generation with new process numbers."""
        generation = self._generations[client] = self._generations.get(client, -1) + 1
        stops = tuple(spec.on for spec in self._plan.faults if spec.on is not None)
        job = ClientJob.on(self._cluster, self._plan, client, self._began_ns, generation=generation, stops=stops)
        self._joins.append(self._cluster.launch(client, job, self.recorder.record))
