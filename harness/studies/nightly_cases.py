"""The cases of a nightly run: each scenario on every cluster that supports it, with each seed.

Worker processes run them. Runs on containers are sorted by the containers that they need, so that a worker can reuse
them from one run to the next.
"""

from __future__ import annotations

import contextlib
import time
import traceback
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from harness.documents import present
from harness.documents.lock import LockOrigin
from harness.documents.nightly import ExpectedVerdicts, ScenarioOutcome
from harness.documents.trace import ServerTrace
from harness.errors import HarnessError, MissingLibrary, UsageError
from harness.faults.upgrade import RollingUpgrade
from harness.fidelity.trace.check import not_specified
from harness.plan import Plan
from harness.run.containers.cluster_pool import sharing_key
from harness.run.containers.container_images import Report, build_images
from harness.run.plans.completion import complete
from harness.run.plans.lock_facts import stated_origin
from harness.run.pool import AbandonedJob, open_pool, results, results_of_neighbours
from harness.run.pool.containers import reused_cluster
from harness.run.runs import run
from harness.run.verdicts.expectation import ExpectationResult, judge
from harness.run.verdicts.judging import Result
from harness.run.with_report import with_report
from harness.scenarios import catalogue
from harness.scenarios.catalogue import Scenario

from .detection import Counts, repeated, until_known
from .scenario_command import scenario_command
from .server_images import DEFAULT, images_named, plan_on, reported_server, runs_on, service_of
from .traces import check_run

SUITES: Final = ("smoke", "full", "mutants")
CLUSTERS: Final = {"sim": ("sim",), "docker": ("docker",), "both": ("sim", "docker")}
SEEDS: Final = {"smoke": 1, "full": 5, "mutants": 1}
"""Number of runs of each scenario on the simulator, with the same seeds every night."""
FRESH: Final = {"smoke": 1, "full": 2, "mutants": 1}
"""Number of further runs with fresh seeds, if a nightly run has them."""
FIRST_FRESH: Final = max(SEEDS.values())
"""Smallest fresh seed: lower ones may be fixed."""
OnOutcome = Callable[[ScenarioOutcome, int, int], None]
"""Callback with an outcome, the number of outcomes so far, and their total."""


@dataclass(frozen=True, slots=True)
class Case:
    """One run to make: a scenario on a cluster, with a seed. ``refused`` is the reason if it cannot run there.
    ``image`` is the name of the servers' image, if the nightly run has several.

    With ``before``, the counts of its stored runs, it is repeated until its detection rate is known."""

    scenario: str
    cluster: str
    plan: Plan
    refused: str = ""
    before: Counts | None = None
    image: str = ""

    @property
    def key(self) -> tuple[str, str, str, int]:
        return self.scenario, self.cluster, self.image, self.plan.seed

    @property
    def is_simulated(self) -> bool:
        """Return True if the simulator has these servers: others, such as those that replace them in an upgrade, may
        give replies that it cannot give."""
        upgraded = any(spec.fault == RollingUpgrade.name for spec in self.plan.faults)
        return self.image in ("", DEFAULT) and not upgraded


def _no_report(line: str) -> None:
    """No-op progress callback."""


# Selection of cases.


def cases(
    suite: str,
    cluster: str,
    scenarios: Iterable[Scenario] | None = None,
    *,
    seed: int | None = None,
    images: Sequence[str] = (),
) -> list[Case]:
    """Return the runs of a suite (``smoke``, ``full``, ``mutants``) on a cluster (``sim``, ``docker``, ``both``). On
    containers the smoke suite has only the few scenarios that are marked for it. ``seed`` is the first fresh seed. With
    ``images`` each scenario runs on those of its own service, and scenarios of no such service are left out."""
    if suite not in SUITES:
        raise UsageError(f"suite must be one of {', '.join(SUITES)}, got {suite!r}")
    if cluster not in CLUSTERS:
        raise UsageError(f"cluster must be one of {', '.join(CLUSTERS)}, got {cluster!r}")
    wanted = list(scenarios_of(suite) if scenarios is None else scenarios)
    found = []
    for backend in CLUSTERS[cluster]:
        for scenario in wanted:
            if backend == "docker" and suite == "smoke" and not scenario.plan.smoke:
                continue
            if images:
                found += _cases_on_images(scenario, images)
                continue
            first = _case(scenario, backend)
            found.append(first)
            if backend == "sim" and not first.refused:
                found += [_with_seed(first, first.plan.seed + later) for later in range(1, SEEDS[suite])]
                if seed is not None:
                    found += [_with_seed(first, seed + later) for later in range(FRESH[suite])]
    for image in images:
        if image != DEFAULT and not any(case.image == image for case in found):
            raise UsageError(f"--images: no scenario of the suite {suite} runs on {image}")
    if not found:
        raise UsageError(f"suite {suite} on {cluster}: none of the scenarios belongs to it")
    return found


def check_images(images: Sequence[str], cluster: str) -> None:
    """Raise UsageError for images of which no matrix can be made."""
    images_named(",".join(images))
    if cluster != "docker":
        raise UsageError("--images compares real servers: add --cluster docker")
    for image in images:
        service_of(image)


def _cases_on_images(scenario: Scenario, images: Sequence[str]) -> list[Case]:
    """Return the runs of a scenario on the images of its service; none if only the default image is one."""
    case = _case(scenario, "docker")
    if case.refused and not case.plan.kind:
        return []
    fitting = [image for image in images if runs_on(case.plan, image)]
    if fitting == [DEFAULT]:
        return []
    return [
        replace(case, image=image)
        if case.refused
        else replace(case, image=image, plan=complete(plan_on(case.plan, image)))
        for image in fitting
    ]


def scenarios_of(suite: str) -> Iterable[Scenario]:
    return catalogue.mutants() if suite == "mutants" else catalogue.all()


def _with_seed(case: Case, seed: int) -> Case:
    return replace(case, plan=msgspec.structs.replace(case.plan, seed=seed))


def _case(scenario: Scenario, backend: str) -> Case:
    plan = msgspec.structs.replace(scenario.plan, cluster=backend)
    if plan.expect is None:
        raise UsageError(f"{scenario.path}: a scenario of a suite must say what is expected of it ([expect])")
    error = _error(plan, backend)
    if error is None:
        return Case(scenario.name, backend, complete(plan))
    errors = [_error(plan, other) for other in CLUSTERS["both"]]
    installable = scenario.catalogued and any(isinstance(one, MissingLibrary) for one in errors)
    if all(errors) and not installable:  # no cluster can run it
        raise UsageError(f"{scenario.path}: {error}")
    return Case(scenario.name, backend, plan, str(error))


def refusal(plan: Plan, backend: str) -> str:
    """Return the reason why a plan cannot be run on a backend; "" if it can."""
    error = _error(plan, backend)
    return "" if error is None else str(error)


def _error(plan: Plan, backend: str) -> UsageError | None:
    if plan.runs_on and backend not in plan.runs_on:
        return UsageError(f"a scenario for {' and '.join(plan.runs_on)} only")
    try:
        complete(msgspec.structs.replace(plan, cluster=backend))
    except UsageError as error:
        return error
    return None


# One case.


def run_case(case: Case, store: Path, open_cluster: Any = None) -> ScenarioOutcome:
    """Run a case, several times if its detection rate counts, and on containers if it is unknown. An unexpected outcome
    is stored with its report; on containers every outcome is, and the traffic of the servers is recorded and checked,
    where there is a specification for it."""

    def run_once() -> ScenarioOutcome:
        return _run_once(case, store, open_cluster)

    if case.refused:
        return _outcome(case, ExpectationResult("not-run", case.refused), None, 0.0)
    if case.before is not None:
        return repeated(run_once, case.before)
    return until_known(run_once) if case.cluster == "docker" else run_once()


def _run_once(case: Case, store: Path, open_cluster: Any) -> ScenarioOutcome:
    plan = case.plan
    began = time.monotonic()
    options = {} if open_cluster is None else {"open_cluster": open_cluster}
    real = plan.cluster == "docker"
    record = real and case.is_simulated and not not_specified(plan.kind)
    try:
        result = run(
            plan,
            store=store if real else None,
            command=_command(case),
            record_wire=record,
            trace="off",  # what servers received is recorded, and a log of the clients' sockets would slow them down
            **options,
        )
    except HarnessError as error:
        return _outcome(case, ExpectationResult("error", str(error)), None, time.monotonic() - began)
    except Exception as error:  # noqa: BLE001 - one broken run must not end the suite
        last = traceback.extract_tb(error.__traceback__)[-1]
        why = f"{type(error).__name__}: {error} ({Path(last.filename).name}:{last.lineno})"
        return _outcome(case, ExpectationResult("error", why), None, time.monotonic() - began)
    if result.interrupted:
        raise KeyboardInterrupt
    judgement = judge_run(result)
    if result.valid and case.scenario.startswith(catalogue.MUTANTS):
        judgement = replace(judgement, state="missed", why=f"the lock is wrong, and the verdict is: {result.reason}")
    if judgement.state != "as-expected":
        try:
            result = with_report(result, store, _command(case))
        except Exception as error:  # noqa: BLE001 - the finding counts, though it cannot be stored
            judgement = replace(judgement, why=f"{judgement.why} (no report: {error})")
    return _outcome(case, judgement, result, time.monotonic() - began)


def judge_run(result: Result) -> ExpectationResult:
    """Compare a run's result with the expectations of its plan."""
    assert result.plan.expect is not None
    return judge(result.plan.expect, result.verdicts, result.history, result.decision)


def _command(case: Case) -> str:
    return scenario_command(case.scenario, case.cluster, image=case.image, seed=case.plan.seed)


def _outcome(case: Case, judgement: ExpectationResult, result: Result | None, seconds: float) -> ScenarioOutcome:
    plan, expect = case.plan, case.plan.expect
    assert expect is not None
    return ScenarioOutcome(
        scenario=case.scenario,
        row=case.scenario.partition(".")[0],
        title=plan.title,
        safe=expect.safe,
        lock=plan.lock,
        origin=_origin(plan, result),
        kind=plan.kind,
        faults=tuple(spec.fault for spec in plan.faults),
        workload=plan.workload,
        cluster=case.cluster,
        image=case.image,
        server="" if result is None or not case.image else reported_server(result),
        seed=plan.seed,
        state=judgement.state,
        why=judgement.why,
        expected=ExpectedVerdicts(invalid=expect.invalid, valid=expect.valid, untested=expect.untested),
        valid=None if result is None else result.valid,
        checkers={} if result is None else {name: verdict.valid for name, verdict in result.verdicts.items()},
        states={} if result is None else {name: it.state for name, it in result.decision.properties.items()},
        reason="" if result is None else result.reason,
        found_s=judgement.found_s,
        time_limit=plan.time_limit,
        real_seconds=round(seconds, 3),
        acquires=0 if result is None else result.results.stats.acquires_ok,
        folder=None if result is None or result.folder is None else str(result.folder),
        traces=() if result is None or plan.cluster == "sim" or not case.is_simulated else _traces(result),
    )


def _traces(result: Result) -> tuple[ServerTrace, ...]:
    assert result.folder is not None, "a run on containers is stored"
    if why := not_specified(result.plan.kind):
        servers = result.history.nemesis("start")[0].value["servers"]
        return tuple(ServerTrace(host=host, state="unknown", why=why) for host in servers)
    try:
        return check_run(result.folder).servers
    except Exception as error:  # noqa: BLE001 - the verdict of the run counts, though its servers could not be checked
        return (ServerTrace(host="", state="unknown", why=f"{type(error).__name__}: {error}"),)


def _origin(plan: Plan, result: Result | None) -> LockOrigin | None:
    """Return what the plan's lock is. Without a result, a user's own lock is not asked."""
    facts = None if result is None else present(result.results.lock_facts)
    return stated_origin(plan.lock, plan.requires) if facts is None or plan.requires else facts.origin


def run_cases(
    todo: Sequence[Case], store: Path, workers: int | None, scheduler: str | None, report: Report = _no_report
) -> Generator[tuple[Case, ScenarioOutcome], None, None]:
    """Yield each case as soon as it is done. Cases on containers come last, because they need the whole machine.
    ``report`` is called with each step while their images are built."""
    real = sorted((case for case in todo if case.cluster == "docker"), key=_cluster_sort_key)
    simulated = [case for case in todo if case.cluster == "sim"]
    if simulated:
        with open_pool(1 if len(simulated) == 1 and not scheduler else workers, scheduler) as pool:
            work = partial(_run_case_on_worker, pool.shared(store))
            yield from _outcomes(results(simulated, work, pool, in_order=False))
    if real:
        build_images((case.plan for case in real if not case.refused), report)
        with open_pool(1 if len(real) == 1 else workers, tidy=True) as pool:
            yield from _outcomes(results_of_neighbours(real, partial(_run_case_on_worker, store), pool))


def _outcomes(
    results_: Generator[tuple[Case, ScenarioOutcome | AbandonedJob], None, None],
) -> Generator[tuple[Case, ScenarioOutcome], None, None]:
    with contextlib.closing(results_) as finished:
        for case, outcome in finished:
            if isinstance(outcome, AbandonedJob):
                outcome = _outcome(case, ExpectationResult("error", outcome.why), None, 0.0)  # noqa: PLW2901
            yield case, outcome


def _run_case_on_worker(store: Path, case: Case) -> ScenarioOutcome:
    return run_case(case, store, None if case.cluster == "sim" else reused_cluster())


def _cluster_sort_key(case: Case) -> tuple[str, ...]:
    """Sort key: cases on the same clusters come one after the other."""
    return *sharing_key(case.plan), case.scenario
