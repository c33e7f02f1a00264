"""The suite: every scenario on every cluster that can do it, each held against what is expected of it.

Simulated runs go to a pool of processes. On containers the scenarios are sorted by what they run on, so that a cluster
is started once for all of its kind, and shared out to lanes, each a process that goes through its clusters one after
the other.
"""

from __future__ import annotations

import contextlib
import os
import time
import traceback
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from scenarios import catalogue
from scenarios.catalogue import Scenario

from .completion import complete
from .errors import UNKNOWN, VALID, HarnessError, UsageError
from .expectation import Judgement, Outcome, judge, status_of
from .fault_specs import needs
from .lanes import shared_out, terminable
from .plan import Plan
from .reported import reported
from .runs import Result, run, versions

SCHEMA: Final = 1
SUITES: Final = ("smoke", "full")
CLUSTERS: Final = {"sim": ("sim",), "docker": ("docker",), "both": ("sim", "docker")}
SEEDS: Final = {"smoke": 1, "full": 5}
"""Runs of each scenario on the simulator."""
LANES: Final = 2
"""Clusters of containers at work at a time, unless somebody says otherwise: runs on them wait most of the time, and are
told by events, but a machine that is too busy stretches every pause."""
DIED: Final = Judgement("error", "the process that ran it has died")
Tell = Callable[[Outcome, int, int], None]
"""Called with each outcome, how many there are by now, and how many there will be."""


@dataclass(frozen=True, slots=True)
class Case:
    """One run to make: a scenario on a cluster, with a seed. ``refused`` is why it cannot be made there."""

    scenario: str
    cluster: str
    plan: Plan
    refused: str = ""


# What there is to do.


def cases(suite: str, cluster: str, scenarios: Iterable[Scenario] | None = None) -> list[Case]:
    """The runs of a suite (``smoke``, ``full``) on a cluster (``sim``, ``docker``, ``both``). On real clusters the
    smoke suite has a few scenarios only, those that say so."""
    if suite not in SUITES:
        raise UsageError(f"suite must be {' or '.join(SUITES)}, got {suite!r}")
    if cluster not in CLUSTERS:
        raise UsageError(f"cluster must be one of {', '.join(CLUSTERS)}, got {cluster!r}")
    wanted = list(catalogue.all() if scenarios is None else scenarios)
    found = []
    for backend in CLUSTERS[cluster]:
        for scenario in wanted:
            if backend == "docker" and suite == "smoke" and not scenario.plan.smoke:
                continue
            first = _case(scenario, backend)
            more = SEEDS[suite] if backend == "sim" and not first.refused else 1
            found += [first, *(_seeded(first, seed) for seed in range(1, more))]
    if not found:
        raise UsageError(f"suite {suite} on {cluster}: none of the scenarios belongs to it")
    return found


def _seeded(case: Case, later: int) -> Case:
    return replace(case, plan=msgspec.structs.replace(case.plan, seed=case.plan.seed + later))


def _case(scenario: Scenario, backend: str) -> Case:
    plan = msgspec.structs.replace(scenario.plan, cluster=backend)
    if plan.expect is None:
        raise UsageError(f"{scenario.path}: a scenario of a suite must say what is expected of it ([expect])")
    refused = refusal(plan, backend)
    if not refused:
        return Case(scenario.name, backend, complete(plan))
    if all(refusal(plan, other) for other in CLUSTERS["both"]):  # it is no cluster's fault
        raise UsageError(f"{scenario.path}: {refused}")
    return Case(scenario.name, backend, plan, refused)


def refusal(plan: Plan, backend: str) -> str:
    """Why a plan cannot be run on a backend; nothing if it can."""
    if plan.runs_on and backend not in plan.runs_on:
        return f"a story of {' and '.join(plan.runs_on)} only"
    try:
        complete(msgspec.structs.replace(plan, cluster=backend))
    except UsageError as error:
        return str(error)
    return ""


# One of them.


def play(case: Case, store: Path, open_cluster: Any = None) -> Outcome:
    """Run a case. What is not as expected is kept in the store, with its report; on containers everything is."""
    plan = case.plan
    if case.refused:
        return _outcome(case, Judgement("not-run", case.refused), None, 0.0)
    began = time.monotonic()
    options = {} if open_cluster is None else {"open_cluster": open_cluster}
    try:
        result = run(plan, store=store if plan.cluster == "docker" else None, command=_command(case), **options)
    except HarnessError as error:
        return _outcome(case, Judgement("error", str(error)), None, time.monotonic() - began)
    except Exception as error:  # noqa: BLE001 - one broken run must not end the night
        last = traceback.extract_tb(error.__traceback__)[-1]
        why = f"{type(error).__name__}: {error} ({Path(last.filename).name}:{last.lineno})"
        return _outcome(case, Judgement("error", why), None, time.monotonic() - began)
    if result.interrupted:
        raise KeyboardInterrupt
    judgement = judged(result)
    if judgement.state != "as-expected":
        try:
            result = reported(result, store, _command(case))
        except Exception as error:  # noqa: BLE001 - what was found counts, though it cannot be kept
            judgement = replace(judgement, why=f"{judgement.why} (no report: {error})")
    return _outcome(case, judgement, result, time.monotonic() - began)


def judged(result: Result) -> Judgement:
    """What the run of a plan with expectations came to."""
    assert result.plan.expect is not None
    return judge(result.plan.expect, result.verdicts, result.history.origin)


def _command(case: Case) -> str:
    return f"harness scenario run {case.scenario} --cluster {case.cluster} --seed {case.plan.seed}"


def _outcome(case: Case, judgement: Judgement, result: Result | None, seconds: float) -> Outcome:
    plan, expect = case.plan, case.plan.expect
    assert expect is not None
    return Outcome(
        scenario=case.scenario,
        row=case.scenario.partition(".")[0],
        title=plan.title,
        safe=expect.safe,
        lock=plan.lock,
        kind=plan.kind,
        faults=tuple(spec.fault for spec in plan.faults),
        workload=plan.workload,
        cluster=case.cluster,
        seed=plan.seed,
        state=judgement.state,
        why=judgement.why,
        expected={"invalid": list(expect.invalid), "valid": list(expect.valid)},
        valid=None if result is None else result.valid,
        checkers={} if result is None else {name: verdict.valid for name, verdict in result.verdicts.items()},
        found_s=judgement.found_s,
        time_limit=plan.time_limit,
        real_seconds=round(seconds, 3),
        acquires=0 if result is None else result.document["stats"]["acquires_ok"],
        folder=None if result is None or result.folder is None else str(result.folder),
    )


# All of them.


def nightly(
    suite: str = "smoke",
    cluster: str = "sim",
    *,
    store: Path = Path("store"),
    scenarios: Iterable[Scenario] | None = None,
    workers: int | None = None,
    lanes: int = LANES,
    tell: Tell = lambda outcome, number, of: None,  # noqa: ARG005
) -> dict[str, Any]:
    """Run a suite and return the night's document (plain data; ``outcomes`` in the order of the scenarios). With one
    worker everything simulated runs in this process."""
    todo = cases(suite, cluster, scenarios)
    started, began = datetime.now(UTC), time.monotonic()
    outcomes: dict[tuple[str, str, int], Outcome] = {}
    interrupted = False
    try:
        with terminable(), contextlib.closing(_played(todo, store, workers or os.cpu_count() or 1, lanes)) as played:
            for case, outcome in played:
                outcomes[case.scenario, case.cluster, case.plan.seed] = outcome
                tell(outcome, len(outcomes), len(todo))
    except KeyboardInterrupt:
        interrupted = True
    order = [(case.scenario, case.cluster, case.plan.seed) for case in todo]
    in_order = [outcomes[name] for name in order if name in outcomes]
    states = [outcome.state for outcome in in_order]
    nothing = interrupted or all(state == "not-run" for state in states)
    return {
        "schema": SCHEMA,
        "started_at": f"{started:%Y-%m-%dT%H:%M:%SZ}",
        "suite": suite,
        "clusters": list(CLUSTERS[cluster]),
        "seconds": round(time.monotonic() - began, 1),
        "versions": versions(),
        "status": status_of(states) or (UNKNOWN if nothing else VALID),
        "interrupted": interrupted,
        "outcomes": msgspec.to_builtins(in_order),
    }


def _played(todo: Sequence[Case], store: Path, workers: int, lanes: int) -> Generator[tuple[Case, Outcome], None, None]:
    """Each as soon as it is done: first those on the simulator, then those on containers, which want the machine for
    themselves."""
    real = sorted((case for case in todo if case.cluster == "docker"), key=_where)
    for some, count in (([case for case in todo if case.cluster == "sim"], workers), (real, lanes)):
        with contextlib.closing(shared_out(some, partial(_play, store), count)) as done:
            for case, outcome in done:
                yield case, outcome or _outcome(case, DIED, None, 0.0)


def _play(store: Path, case: Case, open_cluster: Any) -> Outcome:
    return play(case, store, open_cluster)


def _where(case: Case) -> tuple[str, ...]:
    """Cases with the same clusters come one after the other."""
    plan = case.plan
    needed = {need for spec in plan.faults for need in needs(spec)}
    return plan.kind, str(plan.nodes), str("disk" in needed), case.scenario
