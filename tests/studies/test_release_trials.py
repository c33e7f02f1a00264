"""Trials with one release: what counts as failing, as passing and as unknown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from harness.checkers.base import Verdict
from harness.documents.bisect import BisectQuestion
from harness.documents.versions import VersionPlan
from harness.errors import EnvironmentLacking, HarnessError, UsageError
from harness.plan import Plan
from harness.studies import release_trials
from harness.studies.release_trials import Releases, cell_of, refuse_other_clusters, try_release

PLAN = Plan(lock="redis-py-lock", requires=("six==1.17.0", "Redis==8.1.0"))
GOOD = {"faults": True, "mutual-exclusion": True, "liveness": True}


@dataclass
class Simulator:
    """Stands in for runs: ``verdicts`` by seed, and whether an environment can be built."""

    verdicts: dict[int, Any] = field(default_factory=dict)
    lacking: HarnessError | None = None
    plans: list[Plan] = field(default_factory=list)

    def interpreter_of(self, plan: Plan, progress: Callable[[str], None] | None = None) -> str:
        del plan, progress
        if self.lacking is not None:
            raise self.lacking
        return "python"

    def run(self, plan: Plan) -> Any:
        self.plans.append(plan)
        found = self.verdicts.get(plan.seed, GOOD)
        if isinstance(found, BaseException):
            raise found
        verdicts = {name: Verdict(valid, f"{name} says so") for name, valid in found.items() if name != "interrupted"}
        return SimpleNamespace(
            plan=plan,
            verdicts=verdicts,
            interrupted="interrupted" in found,
            results=SimpleNamespace(summary=f"summary of {plan.seed}"),
        )


@pytest.fixture
def simulator(monkeypatch: pytest.MonkeyPatch) -> Simulator:
    found = Simulator()
    monkeypatch.setattr(release_trials, "run", found.run)
    monkeypatch.setattr(release_trials, "interpreter_of", found.interpreter_of)
    return found


def question(*look_for: str, runs: int = 1) -> BisectQuestion:
    return BisectQuestion(plan=PLAN, look_for=look_for, seeds=tuple(range(runs)))


def releases() -> Releases:
    return Releases("redis", lambda line: None)


def test_the_release_takes_the_place_of_any_other_of_the_package(simulator: Simulator) -> None:
    assert try_release(question(), "3.5.3", releases()).outcome == "good"
    assert simulator.plans[0].requires == ("six==1.17.0", "redis==3.5.3")


def test_the_first_run_with_the_failure_ends_a_trial(simulator: Simulator) -> None:
    simulator.verdicts = {1: {**GOOD, "liveness": False, "mutual-exclusion": False}}
    trial = try_release(question(runs=4), "1.0", releases())
    assert (trial.outcome, trial.runs, trial.seed) == ("bad", 2, 1)
    assert trial.invalid == ("mutual-exclusion", "liveness"), "the gravest first"
    assert trial.summary == "summary of 1"
    assert trial.seconds >= 0


def test_only_the_requested_checkers_count(simulator: Simulator) -> None:
    simulator.verdicts = {0: {**GOOD, "liveness": False}}
    assert try_release(question("mutual-exclusion"), "1.0", releases()).outcome == "good"
    assert try_release(question("liveness"), "1.0", releases()).outcome == "bad"


@pytest.mark.parametrize("name", ["faults", "mutual-exclusion"])
def test_a_run_without_a_verdict_is_unknown(simulator: Simulator, name: str) -> None:
    simulator.verdicts = {1: {**GOOD, name: None}}
    trial = try_release(question("mutual-exclusion", runs=3), "1.0", releases())
    assert (trial.outcome, trial.runs) == ("unknown", 3)
    assert trial.reason == f"{name}: {name} says so"


def test_a_checker_that_does_not_apply_is_no_answer(simulator: Simulator) -> None:
    trial = try_release(question("fencing"), "1.0", releases())
    assert (trial.outcome, trial.reason) == ("unknown", "fencing does not apply to this run")


def test_a_failure_outweighs_an_unknown_run(simulator: Simulator) -> None:
    simulator.verdicts = {0: {**GOOD, "liveness": None}, 1: {**GOOD, "liveness": False}}
    assert try_release(question(runs=2), "1.0", releases()).outcome == "bad"


@pytest.mark.parametrize("error", [UsageError("no release fits"), EnvironmentLacking("uv failed: no wheel")])
def test_a_release_that_cannot_be_installed_is_missing(simulator: Simulator, error: HarnessError) -> None:
    simulator.lacking = error
    trial = try_release(question(), "1.0", releases())
    assert (trial.outcome, trial.reason, trial.runs) == ("missing", str(error), 0)
    assert cell_of(VersionPlan(name="p", plan=PLAN, seeds=(0,)), "1.0", releases()).state == "missing"
    assert simulator.plans == []


def test_a_lock_that_cannot_be_run_with_a_release_is_unknown(simulator: Simulator) -> None:
    simulator.verdicts = {0: UsageError("redis-py-lock needs the Python module 'redis.lock'")}
    trial = try_release(question(), "1.0", releases())
    assert (trial.outcome, trial.reason) == ("unknown", "redis-py-lock needs the Python module 'redis.lock'")


def test_an_interrupted_run_ends_the_search(simulator: Simulator) -> None:
    simulator.verdicts = {0: {**GOOD, "interrupted": True}}
    with pytest.raises(KeyboardInterrupt):
        try_release(question(), "1.0", releases())


def test_a_cell_has_a_run_for_each_seed(simulator: Simulator) -> None:
    simulator.verdicts = {4: {**GOOD, "liveness": False}, 5: {**GOOD, "liveness": None}}
    found = cell_of(VersionPlan(name="p", plan=PLAN, seeds=(3, 4, 5)), "1.0", releases())
    assert (found.state, found.reason) == ("violated", "")
    assert [(run.seed, run.invalid) for run in found.runs] == [(3, ()), (4, ("liveness",)), (5, ())]
    assert found.runs[2].valid == ("faults", "mutual-exclusion")
    unknown = cell_of(VersionPlan(name="p", plan=PLAN, seeds=(3, 5)), "1.0", releases())
    assert (unknown.state, unknown.reason) == ("unknown", "liveness: liveness says so")


def test_plans_for_containers_only_are_refused() -> None:
    for plan in (Plan(lock="x", cluster="docker"), Plan(lock="x", runs_on=("docker",))):
        with pytest.raises(UsageError, match="on the simulator"):
            refuse_other_clusters(plan)
    refuse_other_clusters(PLAN)
