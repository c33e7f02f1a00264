"""Ablation: show that a failure scenario needs each of its faults, and that each part of its cure is one.

Each fault is removed by itself, and each difference between the failure's plan and its cure's (``ROW.safe.toml``) is
applied by itself. The failure must vanish each time. Otherwise it happens for another reason than the one that the
scenario tells, or with less than that. Where the lock is a model of a library's bug, the cure's lock is the same model
with the fixed line, so that applying it puts the fix back.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import msgspec
from msgspec.structs import replace as with_

from harness.documents.ablation import SCHEMA, AblationDocument, AblationOutcome, AblationState
from harness.documents.run import ScenarioState
from harness.errors import UNKNOWN, VALID, VIOLATION, HarnessError, UsageError
from harness.plan import FaultSpec, Mechanism, Plan
from harness.plan.mechanism import VIOLATION as VIOLATION_STEP
from harness.plan.mechanism import parse
from harness.run.plans.completion import complete
from harness.run.pool import AbandonedJob, open_pool, results
from harness.run.processes.signals import sigterm_interrupts
from harness.run.runs import run
from harness.run.verdicts.expectation import judge
from harness.run.verdicts.judging import versions
from harness.scenarios import catalogue
from harness.scenarios.catalogue import Scenario

ABOUT: Final = frozenset({"title", "source", "about", "twin", "expect", "smoke", "runs_on", "time_limit"})
"""Keys of a plan that say something about it, or how long to watch; they are no cure."""
OF_THE_LOCK: Final = ("lock", "lock_options", "kind", "nodes", "server_options", "requires", "python", "lease")
"""Keys that belong to the lock: where the lock differs, they are one difference together."""
FOUND: Final = ("as-expected", "late")
"""States of a run in which the failure happened for the stated reason."""
OnAblation = Callable[[AblationOutcome, int, int], None]
"""Callback with an outcome, the number of outcomes so far, and their total."""


@dataclass(frozen=True, slots=True)
class Ablation:
    """A change of a failure's plan. ``mechanism`` is that of the failure, the plan's own lacks the steps of absent
    faults. ``explained`` is what the scenario says about the change, ``refused`` why it cannot run."""

    scenario: str
    mechanism: Mechanism | None
    kind: Literal["fault", "cure"]
    change: str
    plan: Plan
    explained: str = ""
    refused: str = ""

    def outcome(self, state: AblationState, why: str) -> AblationOutcome:
        return AblationOutcome(
            scenario=self.scenario,
            mechanism=self.mechanism,
            kind=self.kind,
            change=self.change,
            state=state,
            why=why,
            explained=self.explained,
        )


# The changes of a scenario.


def ablations(failure: Scenario) -> list[Ablation]:
    """Return the changes after which the failure must vanish. Raises UsageError for a scenario that is no failure, and
    for one without a cure."""
    if failure.plan.expect is None or failure.plan.expect.safe:
        raise UsageError(f"{failure.path}: only a known failure (expect.safe = false) can be ablated")
    return [*_without_faults(failure), *_with_cures(failure, cure_of(failure))]


def cure_of(failure: Scenario) -> Scenario:
    """Return the cure, which is the file ``NAME.safe.toml`` beside the failure's."""
    path = failure.path.with_name(f"{failure.name}.safe{catalogue.SUFFIX}")
    if not path.exists():
        raise UsageError(f"{failure.path}: its cure would be {path.name}, which does not exist")
    return catalogue.find(f"{failure.name}.safe" if failure.catalogued else str(path))


def _without_faults(failure: Scenario) -> Iterator[Ablation]:
    faults = failure.plan.faults
    for number, spec in enumerate(faults):
        alike = sum(other.fault == spec.fault for other in faults) > 1
        change = f"without {spec.fault} ({_when(spec)})" if alike else f"without {spec.fault}"
        plan = with_(failure.plan, faults=(*faults[:number], *faults[number + 1 :]))
        yield _ablation(failure, "fault", change, plan, spec.decoration)


def _when(spec: FaultSpec) -> str:
    if spec.on is None:
        return f"at {spec.at:g} s" if spec.at is not None else f"every {spec.every:g} s"
    client = "" if spec.client is None else f" of c{spec.client}"
    return f"on {spec.on}{client}, number {spec.nth}"


def _with_cures(failure: Scenario, cure: Scenario) -> Iterator[Ablation]:
    for keys in differences(failure.plan, cure.plan):
        changes = {key: getattr(cure.plan, key) for key in keys}
        shown = ", ".join(f"{key} = {_short(value)}" for key, value in changes.items())
        yield _ablation(failure, "cure", shown, with_(failure.plan, **changes), cure.plan.twin)


def differences(failure: Plan, cure: Plan) -> list[tuple[str, ...]]:
    """Return the keys in which two plans differ, those of the lock together if the lock itself differs. The same faults
    at other moments then belong to it, because another lock sends other commands."""
    failure, cure = _undecorated(failure), _undecorated(cure)
    fields = [name for name in Plan.__struct_fields__ if name not in ABOUT]
    differing = [name for name in fields if getattr(failure, name) != getattr(cure, name)]
    if "lock" not in differing:
        return [(name,) for name in differing]
    same_faults = [spec.fault for spec in failure.faults] == [spec.fault for spec in cure.faults]
    keys = (*OF_THE_LOCK, "faults") if same_faults else OF_THE_LOCK
    of_lock = tuple(name for name in keys if name in differing)
    return [of_lock, *((name,) for name in differing if name not in of_lock)]


def _undecorated(plan: Plan) -> Plan:
    return with_(plan, faults=tuple(with_(spec, decoration="") for spec in plan.faults))


def _ablation(failure: Scenario, kind: Literal["fault", "cure"], change: str, plan: Plan, explained: str) -> Ablation:
    assert failure.plan.expect is not None
    fitting = _without_absent_faults(plan)
    return Ablation(failure.name, failure.plan.expect.mechanism, kind, change, fitting, explained, _refused(fitting))


def _without_absent_faults(plan: Plan) -> Plan:
    """Return the plan without the mechanism's steps of faults that it does not have: they would be absent anyhow, so
    they do not show that the failure has vanished."""
    assert plan.expect is not None
    mechanism = plan.expect.mechanism
    if mechanism is None:
        return plan
    present = {spec.fault for spec in plan.faults}

    def possible(steps: Iterable[str]) -> tuple[str, ...]:
        return tuple(text for text in steps if not parse(text).of_fault or parse(text).subject in present)

    less = with_(mechanism, order=possible(mechanism.order) or (VIOLATION_STEP,), never=possible(mechanism.never))
    return with_(plan, expect=with_(plan.expect, mechanism=less))


def _short(value: Any) -> str:
    text = str(msgspec.to_builtins(value))
    return text if len(text) <= 80 else f"{text[:77]}..."


def _refused(plan: Plan) -> str:
    if plan.runs_on and "sim" not in plan.runs_on:
        return f"a scenario for {' and '.join(plan.runs_on)} only"
    try:
        complete(with_(plan, cluster="sim").check())
    except UsageError as error:
        return str(error)
    return ""


# Execution.


def run_ablation(ablation: Ablation) -> AblationOutcome:
    """Run a changed plan on the simulator, and say whether its failure vanishes."""
    if ablation.refused:
        return ablation.outcome("not-run", ablation.refused)
    assert ablation.plan.expect is not None
    try:
        result = run(complete(with_(ablation.plan, cluster="sim")), store=None)
    except HarnessError as error:
        return ablation.outcome("error", str(error))
    except Exception as error:  # noqa: BLE001 - one broken run must not end the study
        return ablation.outcome("error", f"{type(error).__name__}: {error}")
    if result.interrupted:
        raise KeyboardInterrupt
    judgement = judge(ablation.plan.expect, result.verdicts, result.history, result.decision)
    return ablation.outcome(_state(ablation.kind, judgement.state), f"{judgement.state}: {judgement.why}")


def _state(kind: Literal["fault", "cure"], found: ScenarioState) -> AblationState:
    """Return what a run's state says about a change. A fault that cannot strike without the removed one shows that this
    is needed; but a cure under which a fault cannot strike has not been tested."""
    if found in FOUND:
        return "survives"
    return "unknown" if kind == "cure" and found == "unknown" else "vanishes"


def ablate(
    scenarios: Iterable[Scenario],
    *,
    workers: int | None = None,
    scheduler: str | None = None,
    on_outcome: OnAblation = lambda outcome, number, of: None,  # noqa: ARG005
) -> AblationDocument:
    """Ablate failure scenarios, and return the document with the outcomes in their order.

    ``workers`` and ``scheduler`` are as in :func:`harness.studies.nightly.nightly`."""
    todo = [one for scenario in scenarios for one in ablations(scenario)]
    began = time.monotonic()
    outcomes: list[AblationOutcome] = []
    interrupted = False
    try:
        with sigterm_interrupts(), contextlib.closing(_run_all(todo, workers, scheduler)) as finished:
            for outcome in finished:
                outcomes.append(outcome)
                on_outcome(outcome, len(outcomes), len(todo))
    except KeyboardInterrupt:
        interrupted = True
    return AblationDocument(
        schema=SCHEMA,
        seconds=round(time.monotonic() - began, 1),
        status=status_of(outcomes, interrupted=interrupted),
        interrupted=interrupted,
        versions=dict(versions()),
        outcomes=tuple(outcomes),
    )


def status_of(outcomes: Sequence[AblationOutcome], *, interrupted: bool = False) -> int:
    """Return the exit status: 1 if a failure survives unexplained; 3 if a cure could not be tested and the scenario
    does not say why, if a run broke, or if it was interrupted; else 0."""
    unexplained = {outcome.state for outcome in outcomes if outcome.unexplained}
    if "survives" in unexplained:
        return VIOLATION
    broke = any(outcome.state == "error" for outcome in outcomes)
    return UNKNOWN if unexplained or broke or interrupted else VALID


def _run_all(
    todo: Sequence[Ablation], workers: int | None, scheduler: str | None
) -> Generator[AblationOutcome, None, None]:
    """Yield the outcomes in order."""
    with (
        open_pool(1 if len(todo) == 1 and not scheduler else workers, scheduler) as pool,
        contextlib.closing(results(todo, run_ablation, pool)) as finished,
    ):
        for ablation, outcome in finished:
            yield ablation.outcome("error", outcome.why) if isinstance(outcome, AbandonedJob) else outcome
