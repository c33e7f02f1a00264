"""Sweeps: how often and how soon a lock is violated, and how much is lost, over a grid of ttl, hold and pause.

Each point of the grid is measured by runs with consecutive seeds, in which somebody stands still again and again. On
the simulator the same grid gives the same document, whatever the number of workers.
"""

from __future__ import annotations

import itertools
import math
import multiprocessing
import os
import signal
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from random import Random
from typing import Any, Final, Literal

import msgspec

from checkers.base import Verdict

from .completion import BACKENDS, complete
from .errors import UNKNOWN, VALID, VIOLATION, UsageError
from .expectation import first_violation_s
from .fault_specs import fault_class
from .plan import FaultSpec, Plan
from .progress import Progress
from .runs import Result, run

SCHEMA: Final = 1
PAUSES: Final = ("client-pause", "server-pause")
SERVICE: Final = frozenset({"liveness", "deadlock", "fairness", "reentrancy", "try-lock"})
"""The checkers of how well a lock serves; all others are about safety."""
CONFIDENCE: Final = 0.95
State = Literal["valid", "violated", "unknown"]
Document = dict[str, Any]


class Grid(msgspec.Struct, frozen=True, kw_only=True):
    """What a sweep goes through, durations in seconds: every ttl with every hold, pause and cluster.

    A pause of 0 is no fault at all. Once in every ``every`` seconds, at a moment by chance, ``target`` stands still for
    the pause: by ``fault`` ``client-pause`` a client (``one``: another by chance each time), by ``server-pause``
    servers (``one``, ``primary``, ``minority``, ``majority``, ``all``). Each point has ``seeds`` runs.
    """

    ttl: tuple[float, ...]
    hold: tuple[float, ...] = (0.1,)
    pause: tuple[float, ...] = (3.0,)
    clusters: tuple[str, ...] = ("sim",)
    every: float = 5.0
    fault: str = "client-pause"
    target: str = "one"
    seeds: int = 5

    def check(self) -> Grid:
        """The grid itself, or UsageError for one that cannot be gone through."""
        axes = {"ttl": self.ttl, "hold": self.hold, "pause": self.pause, "cluster": self.clusters}
        for name, values in axes.items():
            if not values:
                raise UsageError(f"{name}: expected a value, or more of them with commas")
            twice = next((value for value in values if values.count(value) > 1), None)
            if twice is not None:
                raise UsageError(f"{name}: {twice} is there more than once")
        for name in ("ttl", "hold"):
            if low := [value for value in axes[name] if not value > 0]:  # type: ignore[operator]
                raise UsageError(f"{name} must be more than 0 seconds, got {low[0]:g}")
        if self.fault not in PAUSES:
            raise UsageError(f"a sweep is one of pauses: {' or '.join(PAUSES)}, got {self.fault!r}")
        for pause in self.pause:
            if pause < 0:
                raise UsageError(f"pause must not be negative, got {pause:g}")
            if pause > self.every:
                raise UsageError(f"a pause of {pause:g} s does not fit between two that begin every {self.every:g} s")
        if self.seeds < 1:
            raise UsageError(f"seeds must be at least 1, got {self.seeds}")
        return self

    def points(self) -> Iterator[tuple[str, float, float, float]]:
        """Cluster, hold, pause and ttl of each point."""
        return itertools.product(self.clusters, self.hold, self.pause, self.ttl)


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of one run. ``first_s`` is when safety was first violated, in seconds after the start;
    ``lease_s`` is the longest lease that a grant stated; ``stalled``: does a checker of service say invalid?

    ``writes`` are the updates that the resource acknowledged, and ``lost`` those of them that its last value does not
    rest on (see :func:`checkers.resource.lost_updates`).
    """

    seed: int
    state: State
    why: str = ""
    invalid: tuple[str, ...] = ()
    stalled: bool = False
    first_s: float | None = None
    overlaps: int = 0
    writes: int = 0
    lost: int = 0
    acquires: int = 0
    seconds: float = 0.0
    lease_s: float | None = None
    folder: str | None = None


def sweep(
    plan: Plan,
    grid: Grid,
    *,
    workers: int | None = None,
    runs_in: Callable[[], Path] | None = None,
    progress: Progress | None = None,
) -> Document:
    """Measure every point of ``grid`` with ``plan``'s lock and other settings, and give what was found as plain data.

    Simulated runs are spread over ``workers`` processes (as many as there are processors; 1: none but this one), real
    ones happen one at a time and are kept in the folder that ``runs_in`` gives, asked once everything has been found to
    be possible. Raises UsageError before anything runs. An interrupt leaves out what has not been measured: then
    ``interrupted`` is true.
    """
    jobs = planned(plan, grid)
    count = (os.cpu_count() or 1) if workers is None else workers
    if count < 1:
        raise UsageError(f"workers must be at least 1, got {count}")
    folder = None if runs_in is None else runs_in()
    told = _Told(len(jobs), progress)
    simulated = [(number, job) for number, job in jobs if job.cluster == "sim"]
    if count > 1 and len(simulated) > 1:
        interrupted = _in_parallel(simulated, min(count, len(simulated)), told)
    else:
        interrupted = _one_by_one(simulated, None, told)
    real = [(number, job) for number, job in jobs if job.cluster != "sim"]
    interrupted = interrupted or _one_by_one(real, folder, told)
    completed = jobs[0][1]
    return {
        "schema": SCHEMA,
        "lock": plan.lock,
        "kind": completed.kind,
        "nodes": completed.nodes,
        **{name: getattr(plan, name) for name in _SETTINGS},
        **{name: getattr(grid, name) for name in ("every", "fault", "target", "seeds")},
        "lock_options": plan.lock_options,
        "interrupted": interrupted,
        "points": [_point(point, grid.seeds, told.of(number)) for number, point in enumerate(grid.points())],
    }


_SETTINGS: Final = ("workload", "clients", "keys", "rest", "discipline", "fencing", "time_limit", "seed")


def planned(plan: Plan, grid: Grid) -> list[tuple[int, Plan]]:
    """The completed plan of each run, and the number of its point. Raises what stands in the way of any."""
    points = enumerate(grid.check().points())
    return [(number, job) for number, point in points for job in _jobs(plan, grid, *point)]


def _jobs(plan: Plan, grid: Grid, cluster: str, hold: float, pause: float, ttl: float) -> list[Plan]:
    """The completed plan of each run of a point."""
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
    """One in each ``every`` seconds but the first, at a moment that the seed decides. Pauses at fixed times would keep
    step with what else is done at fixed times, such as renewing a lease every third of its ttl, and would meet it in
    the same phase again and again."""
    rng = Random(f"{plan.seed}/pauses")
    last = plan.time_limit - plan.settle_time - fault_class(grid.fault).takes
    if 2 * grid.every - pause > last:
        raise UsageError(
            f"a pause every {grid.every:g} s may never strike in runs of {plan.time_limit:g} s, of which the last "
            f"{plan.settle_time:g} s are left without faults: give a longer time limit"
        )
    number = 1
    while (at := number * grid.every + rng.uniform(0, grid.every - pause)) <= last:
        yield FaultSpec(grid.fault, at=round(at, 3), for_=pause, params={"target": grid.target})
        number += 1


# Runs.


class _Told:
    """Outcomes by point, and the progress that is made of them."""

    def __init__(self, asked: int, progress: Progress | None) -> None:
        self._asked = asked
        self._progress = progress
        self._found: dict[int, list[Outcome]] = {}
        self._count = 0
        self.tell()

    def add(self, point: int, outcome: Outcome) -> None:
        self._found.setdefault(point, []).append(outcome)
        self._count += 1
        self.tell()

    def of(self, point: int) -> list[Outcome]:
        return sorted(self._found.get(point, []), key=lambda outcome: outcome.seed)

    def tell(self, fraction: float = 0.0, text: str = "") -> None:
        """``fraction`` and ``text`` are those of the run that is going on."""
        if self._progress is not None:
            more = f" · {text.partition(': ')[2]}" if text else ""
            done = (self._count + max(0.0, min(1.0, fraction))) / self._asked
            self._progress(done, f"running: {self._count} of {self._asked} runs{more}")


def _one_by_one(jobs: Sequence[tuple[int, Plan]], runs_in: Path | None, told: _Told) -> bool:
    """Whether it was interrupted."""
    for number, job in jobs:
        outcome = measure(job, runs_in, told.tell)
        if outcome is None:
            return True
        told.add(number, outcome)
    return False


def _in_parallel(jobs: Sequence[tuple[int, Plan]], workers: int, told: _Told) -> bool:
    """Whether it was interrupted. Processes are started afresh: a forked one has this one's threads' locks."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context, initializer=_begin_work) as pool:
        futures = {pool.submit(measure, job): number for number, job in jobs}
        seeds = {future: job.seed for future, (_, job) in zip(futures, jobs, strict=True)}
        try:
            for future in as_completed(futures):
                try:
                    outcome = future.result()
                except BrokenProcessPool:
                    died = "the process that ran it, or another one beside it, has died"
                    outcome = Outcome(seed=seeds[future], state="unknown", why=died)
                if outcome is None:
                    pool.shutdown(wait=False, cancel_futures=True)
                    return True
                told.add(futures[future], outcome)
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            return True
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return False


def _begin_work() -> None:
    """In a worker: between two runs an interrupt is this program's business and not its own, and what a lock prints
    must not get between the lines of a result document."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.stdout = sys.stderr


def measure(plan: Plan, runs_in: Path | None = None, progress: Progress | None = None) -> Outcome | None:
    """Run a completed plan; None if it was interrupted. A run that breaks is unknown: nobody knows what it would have
    shown."""
    try:
        result = run(plan, store=runs_in, progress=progress)
    except UsageError:
        raise
    except Exception as error:  # noqa: BLE001 - one run of many
        return Outcome(seed=plan.seed, state="unknown", why=f"the run broke: {type(error).__name__}: {error}")
    return None if result.interrupted else summary(result)


def summary(result: Result) -> Outcome:
    """What is kept of a run. It is violated if a checker of safety says invalid, else unknown if one of them, or the
    one that sees to it that the faults took effect, cannot tell."""
    safety = {name: verdict for name, verdict in result.verdicts.items() if name not in SERVICE}
    invalid = tuple(name for name, verdict in safety.items() if verdict.valid is False)
    doubts = [f"{name}: {verdict.explanation}" for name, verdict in safety.items() if verdict.valid is None]
    stats, resource = result.document["stats"], _stats(result.verdicts, "resource")
    leases = [(call.done.value or {}).get("valid_for") for call in result.history.calls("acquire") if call.done]
    return Outcome(
        seed=result.plan.seed,
        state="violated" if invalid else "unknown" if doubts else "valid",
        why="" if invalid or not doubts else doubts[0],
        invalid=invalid,
        stalled=any(result.verdicts[name].valid is False for name in SERVICE if name in result.verdicts),
        first_s=first_violation_s(invalid, safety, result.history.origin),
        overlaps=_stats(result.verdicts, "mutual-exclusion").get("violations", 0),
        writes=resource.get("updates", 0),
        lost=resource.get("lost", 0),
        acquires=stats["acquires_ok"],
        seconds=stats["seconds"],
        lease_s=max((round(lease, 2) for lease in leases if lease is not None), default=None),
        folder=None if result.folder is None else str(result.folder),
    )


def _stats(verdicts: dict[str, Verdict], name: str) -> dict[str, Any]:
    return verdicts[name].stats if name in verdicts else {}


# Figures.


def _point(point: tuple[str, float, float, float], asked: int, outcomes: list[Outcome]) -> Document:
    cluster, hold, pause, ttl = point
    found = figures(outcomes)
    return {
        **{"cluster": cluster, "ttl": ttl, "hold": hold, "pause": pause, "asked": asked},
        **found,
        "longer_lease_s": _longer(found["lease_s"], ttl),
    }


def _longer(lease: float | None, ttl: float) -> float | None:
    """The lease that was granted, where it is longer than was asked for (a service may have a shortest one, or count
    whole seconds); clocks and rounding make no such difference."""
    return lease if lease is not None and lease > 1.1 * ttl + 0.05 else None


def figures(outcomes: Sequence[Outcome]) -> Document:
    """What the runs of one point say together; unknown runs are counted, and in no other figure.

    ``rate`` is the fraction of violated runs, with Wilson's 95 % interval; ``lost_fraction`` the lost updates of all
    runs by their acknowledged ones, and beside it the least and the most that one run lost; ``first_s`` the median time
    to the first violation, of those runs that had one. What has no value is None.
    """
    known = [outcome for outcome in outcomes if outcome.state != "unknown"]
    violated = [outcome for outcome in known if outcome.state == "violated"]
    seconds = sum(outcome.seconds for outcome in known)
    fractions = [outcome.lost / outcome.writes for outcome in known if outcome.writes]
    low, high = wilson(len(violated), len(known))
    firsts = [outcome.first_s for outcome in violated if outcome.first_s is not None]
    leases = [outcome.lease_s for outcome in known if outcome.lease_s is not None]
    return {
        "runs": len(outcomes),
        "violated": len(violated),
        "valid": len(known) - len(violated),
        "unknown": len(outcomes) - len(known),
        "stalled": sum(outcome.stalled for outcome in known),
        "rate": _ratio(len(violated), len(known)),
        "rate_low": low,
        "rate_high": high,
        "writes": sum(outcome.writes for outcome in known),
        "lost": sum(outcome.lost for outcome in known),
        "lost_fraction": _ratio(sum(outcome.lost for outcome in known), sum(outcome.writes for outcome in known)),
        "lost_least": round(min(fractions), 6) if fractions else None,
        "lost_most": round(max(fractions), 6) if fractions else None,
        "first_s": round(statistics.median(firsts), 3) if firsts else None,
        "overlaps": sum(outcome.overlaps for outcome in known),
        "acquires_per_second": _ratio(sum(outcome.acquires for outcome in known), seconds),
        "lease_s": max(leases, default=None),
        "why_unknown": next((outcome.why for outcome in outcomes if outcome.state == "unknown"), ""),
        "outcomes": [msgspec.to_builtins(outcome) for outcome in outcomes],
    }


def _ratio(part: float, whole: float) -> float | None:
    return round(part / whole, 6) if whole else None


def wilson(hits: int, runs: int) -> tuple[float | None, float | None]:
    """The 95 % interval of a probability of which ``hits`` of ``runs`` were seen (Wilson 1927); None without runs."""
    if not runs:
        return None, None
    z = statistics.NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    seen, extra = hits / runs, z * z / runs
    middle = (seen + extra / 2) / (1 + extra)
    half = z / (1 + extra) * math.sqrt(seen * (1 - seen) / runs + extra / (4 * runs))
    return round(max(0.0, middle - half), 6), round(min(1.0, middle + half), 6)


def exit_status(document: Document) -> int:
    """1 if a run of any point was violated or stalled, else 3 if one is unknown or has not been measured, else 0."""
    points = document["points"]
    if any(point["violated"] or point["stalled"] for point in points):
        return VIOLATION
    return UNKNOWN if any(point["unknown"] or point["runs"] < point["asked"] for point in points) else VALID
