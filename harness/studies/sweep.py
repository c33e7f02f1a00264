"""Sweeps: how often and how soon a lock is violated, and how much is lost, over a grid of ttl, hold and pause.

Each point of the grid is measured by runs with consecutive seeds, in which a client or servers pause again and again.
On the simulator the same grid gives the same document for any number of workers.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec

from harness.checkers.base import SERVICE, Verdict
from harness.documents import SweepDocument
from harness.documents.sweep import SCHEMA, SweepPoint, SweepRun
from harness.errors import UNKNOWN, VALID, VIOLATION, UsageError
from harness.faults.catalogue import fault_class
from harness.faults.pause import ClientPause, ServerPause
from harness.plan import BACKENDS, FaultSpec, Plan
from harness.run.plans.completion import complete
from harness.run.pool import AbandonedJob, Pool, open_pool, results
from harness.run.pool.in_process import InProcess
from harness.run.processes.signals import sigterm_interrupts
from harness.run.progress import Progress
from harness.run.runs import run
from harness.run.verdicts.expectation import first_violation_s
from harness.run.verdicts.judging import Result

PAUSES: Final = (ClientPause.name, ServerPause.name)
CONFIDENCE: Final = 0.95


class Grid(msgspec.Struct, frozen=True, kw_only=True):
    """Grid of a sweep, durations in seconds: every combination of ttl, hold, pause and cluster.

    A pause of 0 means no fault. Otherwise, once in every ``every`` seconds, at a random moment, ``target`` pauses: with
    ``fault`` ``client-pause`` a client (``one``: a random one each time), with ``server-pause`` servers (``one``,
    ``primary``, ``minority``, ``majority``, ``all``). Each point has ``seeds`` runs.
    """

    ttl: tuple[float, ...]
    hold: tuple[float, ...] = (0.1,)
    pause: tuple[float, ...] = (3.0,)
    clusters: tuple[str, ...] = ("sim",)
    every: float = 5.0
    fault: str = ClientPause.name
    target: str = "one"
    seeds: int = 5

    def check(self) -> Grid:
        """Return the grid itself; raises UsageError if it is invalid."""
        axes = {"ttl": self.ttl, "hold": self.hold, "pause": self.pause, "cluster": self.clusters}
        for name, values in axes.items():
            if not values:
                raise UsageError(f"{name}: expected a value, or several with commas")
            twice = next((value for value in values if values.count(value) > 1), None)
            if twice is not None:
                raise UsageError(f"{name}: {twice} is given more than once")
        for name in ("ttl", "hold"):
            if low := [value for value in axes[name] if not value > 0]:  # type: ignore[operator]
                raise UsageError(f"{name} must be more than 0 seconds, got {low[0]:g}")
        if self.fault not in PAUSES:
            raise UsageError(f"a sweep injects pauses: {' or '.join(PAUSES)}, got {self.fault!r}")
        for pause in self.pause:
            if pause < 0:
                raise UsageError(f"pause must not be negative, got {pause:g}")
            if pause > self.every:
                raise UsageError(f"a pause of {pause:g} s does not fit between two that begin every {self.every:g} s")
        if self.seeds < 1:
            raise UsageError(f"seeds must be at least 1, got {self.seeds}")
        return self

    def points(self) -> Iterator[tuple[str, float, float, float]]:
        """Yield cluster, hold, pause and ttl of each point."""
        return itertools.product(self.clusters, self.hold, self.pause, self.ttl)


def sweep(
    plan: Plan,
    grid: Grid,
    *,
    workers: int | None = None,
    scheduler: str | None = None,
    runs_in: Callable[[], Path] | None = None,
    progress: Progress | None = None,
) -> SweepDocument:
    """Measure every point of ``grid`` with ``plan``'s lock and other settings.

    ``workers`` processes of this machine (1: only this process; None: one for each processor), or those of a Dask
    ``scheduler`` (``tcp://...``), make the simulated runs. Runs on containers are made in this process, one at a time,
    and are stored in the folder that ``runs_in`` returns; it is called after all checks. Raises UsageError before the
    first run. After an interrupt, runs that were not measured are missing and ``interrupted`` is true.
    """
    jobs = planned(plan, grid)
    simulated = [(number, job) for number, job in jobs if job.cluster == "sim"]
    real = [(number, job) for number, job in jobs if job.cluster != "sim"]
    count = 1 if len(simulated) <= 1 and workers != 0 and not scheduler else workers
    interrupted = False
    with open_pool(count, scheduler if simulated else None) as pool, open_pool() as this_process:
        folder = None if runs_in is None else runs_in()
        told = _SweepProgress(len(jobs), progress)
        try:
            with sigterm_interrupts():
                _measure_all(simulated, pool, None, told)
                _measure_all(real, this_process, folder, told)
        except KeyboardInterrupt:
            interrupted = True
    points = [figures(point, grid.seeds, told.of(number)) for number, point in enumerate(grid.points())]
    return _document(plan, grid, jobs[0][1], points, interrupted=interrupted)


def _document(
    plan: Plan, grid: Grid, completed: Plan, points: Iterable[SweepPoint], *, interrupted: bool
) -> SweepDocument:
    """Return the document of a sweep; ``completed`` is the completed plan of one of its runs."""
    return SweepDocument(
        schema=SCHEMA,
        lock=plan.lock,
        kind=completed.kind,
        nodes=completed.nodes,
        workload=plan.workload,
        clients=plan.clients,
        keys=plan.keys,
        rest=plan.rest,
        discipline=plan.discipline,
        fencing=plan.fencing,
        time_limit=plan.time_limit,
        seed=plan.seed,
        every=grid.every,
        fault=grid.fault,
        target=grid.target,
        seeds=grid.seeds,
        lock_options=plan.lock_options,
        interrupted=interrupted,
        points=tuple(points),
    )


def planned(plan: Plan, grid: Grid) -> list[tuple[int, Plan]]:
    """Return the completed plan of each run, with its point's number; raises UsageError if any cannot be run."""
    points = enumerate(grid.check().points())
    return [(number, job) for number, point in points for job in _jobs(plan, grid, *point)]


def _jobs(plan: Plan, grid: Grid, cluster: str, hold: float, pause: float, ttl: float) -> list[Plan]:
    """Return the completed plan of each run of a point."""
    if cluster not in BACKENDS:
        raise UsageError(f"cluster must be one of {', '.join(BACKENDS)}, got {cluster!r}")
    jobs = []
    for seed in range(plan.seed, plan.seed + grid.seeds):
        job = complete(msgspec.structs.replace(plan, cluster=cluster, hold=hold, ttl=ttl, seed=seed).check())
        if pause:
            faults = (*job.faults, *_pauses(job, grid, pause))
            job = complete(msgspec.structs.replace(job, faults=faults).check())
        jobs.append(job)
    return jobs


def _pauses(plan: Plan, grid: Grid, pause: float) -> Iterator[FaultSpec]:
    """Yield one pause for each period of ``every`` seconds but the first, at a moment that the seed decides.

    Pauses at fixed times would keep step with other periodic work, such as renewing a lease every third of its ttl, and
    would always meet it in the same phase.
    """
    rng = Random(f"{plan.seed}/pauses")
    last = plan.time_limit - plan.settle_time - fault_class(grid.fault).takes
    if 2 * grid.every - pause > last:
        raise UsageError(
            f"time limit: runs of {plan.time_limit:g} s are too short for a pause every {grid.every:g} s, since no "
            f"fault is injected in their last {plan.settle_time:g} s; use a longer time limit"
        )
    number = 1
    while (at := number * grid.every + rng.uniform(0, grid.every - pause)) <= last:
        yield FaultSpec(grid.fault, at=round(at, 3), for_=pause, params={"target": grid.target})
        number += 1


# Runs.


class _SweepProgress:
    """Outcomes by point, and the progress of the sweep."""

    def __init__(self, asked: int, progress: Progress | None) -> None:
        self._asked = asked
        self._progress = progress
        self._found: dict[int, list[SweepRun]] = {}
        self._count = 0
        self.tell()

    def add(self, point: int, outcome: SweepRun) -> None:
        self._found.setdefault(point, []).append(outcome)
        self._count += 1
        self.tell()

    def of(self, point: int) -> list[SweepRun]:
        return sorted(self._found.get(point, []), key=lambda outcome: outcome.seed)

    def tell(self, fraction: float = 0.0, text: str = "") -> None:
        """Report progress; ``fraction`` and ``text`` are those of the run in progress."""
        if self._progress is not None:
            more = f" · {text.partition(': ')[2]}" if text else ""
            done = (self._count + max(0.0, min(1.0, fraction))) / self._asked
            self._progress(done, f"running: {self._count} of {self._asked} runs{more}")


def _measure_all(jobs: Sequence[tuple[int, Plan]], pool: Pool, runs_in: Path | None, told: _SweepProgress) -> None:
    """Measure all jobs; raises KeyboardInterrupt if a run was interrupted."""
    work = partial(_measure, runs_in=runs_in, progress=told.tell if isinstance(pool, InProcess) else None)
    with contextlib.closing(results(jobs, work, pool, in_order=False)) as measured:
        for (number, job), outcome in measured:
            if outcome is None:
                raise KeyboardInterrupt
            if isinstance(outcome, AbandonedJob):
                outcome = SweepRun(seed=job.seed, state="unknown", why=outcome.why)  # noqa: PLW2901
            told.add(number, outcome)


def _measure(job: tuple[int, Plan], *, runs_in: Path | None, progress: Progress | None) -> SweepRun | None:
    return measure(job[1], runs_in, progress)


def measure(plan: Plan, runs_in: Path | None = None, progress: Progress | None = None) -> SweepRun | None:
    """Run a completed plan; return None if it was interrupted. A run that raises counts as unknown."""
    try:
        result = run(plan, store=runs_in, progress=progress)
    except UsageError:
        raise
    except Exception as error:  # noqa: BLE001 - one run of many
        return SweepRun(seed=plan.seed, state="unknown", why=f"the run broke: {type(error).__name__}: {error}")
    return None if result.interrupted else summary(result)


def summary(result: Result) -> SweepRun:
    """Return the summary of a run that the sweep stores.

    It is violated if a required safety property is broken; else unknown if one of them, or the faults' effects, were
    not tested.
    """
    invalid = tuple(name for name in result.decision.decisive if name not in SERVICE)
    untested = (name for name in result.decision.untested if name not in SERVICE)
    doubts = [f"{name}: {result.verdicts[name].explanation}" for name in untested]
    stats, resource = result.results.stats, _stats(result.verdicts, "resource")
    leases = [(call.done.value or {}).get("valid_for") for call in result.history.calls("acquire") if call.done]
    return SweepRun(
        seed=result.plan.seed,
        state="violated" if invalid else "unknown" if doubts else "valid",
        why="" if invalid or not doubts else doubts[0],
        invalid=invalid,
        stalled=any(result.verdicts[name].valid is False for name in SERVICE if name in result.verdicts),
        first_s=first_violation_s(invalid, result.verdicts, result.history.origin),
        overlaps=_stats(result.verdicts, "mutual-exclusion").get("violations", 0),
        writes=resource.get("updates", 0),
        lost=resource.get("lost", 0),
        acquires=stats.acquires_ok,
        seconds=stats.seconds,
        lease_s=max((round(lease, 2) for lease in leases if lease is not None), default=None),
        folder=None if result.folder is None else str(result.folder),
    )


def _stats(verdicts: dict[str, Verdict], name: str) -> dict[str, Any]:
    return verdicts[name].stats if name in verdicts else {}


# Figures.


def _longer(lease: float | None, ttl: float) -> float | None:
    """Return the granted lease if it is clearly longer than the requested ttl, else None. A service may have a minimum,
    or count whole seconds. Differences due to clocks and rounding are ignored."""
    return lease if lease is not None and lease > 1.1 * ttl + 0.05 else None


def figures(point: tuple[str, float, float, float], asked: int, outcomes: Sequence[SweepRun]) -> SweepPoint:
    """Return the figures of a point (cluster, hold, pause and ttl) from its runs; ``asked`` is the requested number of
    runs. Unknown runs are counted, and are in no other figure."""
    cluster, hold, pause, ttl = point
    known = [outcome for outcome in outcomes if outcome.state != "unknown"]
    violated = [outcome for outcome in known if outcome.state == "violated"]
    fractions = [outcome.lost / outcome.writes for outcome in known if outcome.writes]
    low, high = wilson(len(violated), len(known))
    firsts = [outcome.first_s for outcome in violated if outcome.first_s is not None]
    lease = max((outcome.lease_s for outcome in known if outcome.lease_s is not None), default=None)
    return SweepPoint(
        cluster=cluster,
        ttl=ttl,
        hold=hold,
        pause=pause,
        asked=asked,
        runs=len(outcomes),
        violated=len(violated),
        valid=len(known) - len(violated),
        unknown=len(outcomes) - len(known),
        stalled=sum(outcome.stalled for outcome in known),
        rate=_ratio(len(violated), len(known)),
        rate_low=low,
        rate_high=high,
        writes=sum(outcome.writes for outcome in known),
        lost=sum(outcome.lost for outcome in known),
        lost_fraction=_ratio(sum(outcome.lost for outcome in known), sum(outcome.writes for outcome in known)),
        lost_least=round(min(fractions), 6) if fractions else None,
        lost_most=round(max(fractions), 6) if fractions else None,
        first_s=round(statistics.median(firsts), 3) if firsts else None,
        overlaps=sum(outcome.overlaps for outcome in known),
        acquires_per_second=_ratio(
            sum(outcome.acquires for outcome in known), sum(outcome.seconds for outcome in known)
        ),
        lease_s=lease,
        why_unknown=next((outcome.why for outcome in outcomes if outcome.state == "unknown"), ""),
        outcomes=tuple(outcomes),
        longer_lease_s=_longer(lease, ttl),
    )


def _ratio(part: float, whole: float) -> float | None:
    return round(part / whole, 6) if whole else None


def wilson(hits: int, runs: int) -> tuple[float | None, float | None]:
    """Return the 95 % confidence interval of a rate of ``hits`` in ``runs`` (Wilson 1927); None without runs."""
    if not runs:
        return None, None
    z = statistics.NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    seen, extra = hits / runs, z * z / runs
    middle = (seen + extra / 2) / (1 + extra)
    half = z / (1 + extra) * math.sqrt(seen * (1 - seen) / runs + extra / (4 * runs))
    return round(max(0.0, middle - half), 6), round(min(1.0, middle + half), 6)


def exit_status(document: SweepDocument) -> int:
    """Return 1 if a run of any point was violated or stalled, else 3 if one is unknown or was not measured, else 0."""
    points = document.points
    if any(point.violated or point.stalled for point in points):
        return VIOLATION
    return UNKNOWN if any(point.unknown or point.runs < point.asked for point in points) else VALID
