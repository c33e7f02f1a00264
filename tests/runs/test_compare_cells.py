"""Comparisons: the state of a run, the contents of cells, and the runs of a cell."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.checkers.base import Verdict
from harness.documents import RunDocument
from harness.plan import FaultSpec, Plan
from harness.run.verdicts.judging import Result
from harness.studies.compare import cells
from harness.studies.compare.cells import WORST_FIRST, RunFindings, lapse, state_of
from harness.studies.compare.plans import ComparisonRequest, jobs
from harness.studies.compare.trials import run_job
from tests.checkers.story import Story

from .deciding import decided

SAFE = dict.fromkeys(
    ("deadlock", "fairness", "faults", "fencing", "liveness", "mutual-exclusion", "ownership", "reentrancy", "resource",
     "try-lock"), True,
)  # fmt: skip
FENCED = Plan(lock="", fencing="on")


def verdicts(**changes: bool | None) -> Mapping[str, Verdict]:
    said = {**SAFE, **{name.replace("_", "-"): valid for name, valid in changes.items()}}
    return {name: Verdict(valid, name) for name, valid in said.items()}


# The state of a run.


@pytest.mark.parametrize(
    ("said", "fencing", "state"),
    [
        ({}, "off", "safe"),
        ({"mutual_exclusion": False}, "off", "unsafe"),  # though it caused no violation in this run
        ({"mutual_exclusion": False}, "on", "fenced"),
        ({"mutual_exclusion": False, "ownership": False}, "on", "fenced"),
        ({"mutual_exclusion": False, "resource": False}, "on", "unsafe"),
        ({"mutual_exclusion": False, "fencing": False}, "on", "unsafe"),
        ({"resource": False}, "off", "unsafe"),
        ({"ownership": False}, "off", "unsafe"),
        ({"deadlock": False}, "off", "unavailable"),
        ({"liveness": False}, "on", "unavailable"),
        ({"liveness": False, "mutual_exclusion": False}, "on", "unavailable"),
        ({"liveness": False, "mutual_exclusion": False}, "off", "unsafe"),
        ({"faults": None}, "off", "unknown"),
        ({"faults": None, "mutual_exclusion": False}, "off", "unsafe"),
        ({"faults": None, "mutual_exclusion": False}, "on", "unknown"),
        ({"faults": None, "deadlock": False}, "off", "unavailable"),
        ({"mutual_exclusion": None}, "off", "unknown"),
        ({"liveness": None}, "off", "unknown"),
        ({"fairness": False}, "off", "safe"),  # promises that do not depend on faults
        ({"reentrancy": None}, "off", "safe"),
    ],
)
def test_verdicts_determine_the_state_of_a_run(said: dict[str, bool | None], fencing: Any, state: str) -> None:
    assert state_of(decided(verdicts(**said), Plan(lock="", fencing=fencing))) == state


def test_a_lock_that_is_never_granted_again_is_unavailable() -> None:
    assert state_of(decided(verdicts()), lapsed=True) == "unavailable"
    assert state_of(decided(verdicts(mutual_exclusion=False), FENCED), lapsed=True) == "unavailable"
    assert state_of(decided(verdicts(mutual_exclusion=False)), lapsed=True) == "unsafe"


def test_a_fault_that_never_struck_makes_a_safe_run_unknown() -> None:
    assert state_of(decided(verdicts()), struck=False) == "unknown"
    assert state_of(decided(verdicts(mutual_exclusion=False), FENCED), struck=False) == "unknown"
    assert state_of(decided(verdicts(mutual_exclusion=False)), struck=False) == "unsafe"


def story(last_asked: float = 29.0, granted_again: float | None = None, healed: float = 5.0) -> Story:
    told = Story().acquire("c0", 1.0, 1.1).release("c0", 1.5).fault(0, "kill-amnesia", ["n1"], 5.0, healed)
    if granted_again is not None:
        told.acquire("c1", granted_again - 0.1, granted_again).release("c1", granted_again + 0.2)
    return told.acquire("c2", last_asked, last_asked + 0.5, "info")


def test_a_lapse_needs_requests_without_a_grant_until_the_end() -> None:
    plan = Plan(lock="etcd-mutex", time_limit=30.0)
    assert lapse(plan, story().history()) == (
        "No client was granted the lock after 1.100 s, although clients requested it until the end at 30 s."
    )
    assert (
        lapse(plan, story(granted_again=28.0).history()) == ""
    )  # a waiter with a shorter timeout than some leases keeps waiting
    assert lapse(plan, story(granted_again=25.0).history()) == "", "two leases and a hold are not over yet"
    assert lapse(plan, story(last_asked=4.0).history()) == "", "nobody wanted it any more"
    assert lapse(plan, story(healed=16.0).history()) == "", "what was sent at 16 s may still come at 27 s"


@pytest.mark.parametrize(
    ("said", "fencing", "struck", "why"),
    [
        ({"fairness": None, "faults": None}, "off", True, "faults: faults"),  # fairness was not requested
        ({"faults": None}, "off", False, cells.NEVER),
        ({"mutual_exclusion": False}, "off", False, "Two held it."),  # no fault
        ({"mutual_exclusion": False, "liveness": False}, "on", True, "liveness"),
        ({"mutual_exclusion": False}, "on", True, "Two held it."),
    ],
)
def test_a_cell_gives_the_reason_for_its_state(
    said: dict[str, bool | None], fencing: Any, struck: bool, why: str
) -> None:
    told = Story(ttl=2.0, slack=1.0, hold=0.5).acquire("c0", 1.0, 1.1).release("c0", 1.5)
    if struck:
        told.fault(0, "client-pause", ["c0"], 2.0, 3.0)
    plan = Plan(lock="redis-fenced", fencing=fencing, faults=(FaultSpec("client-pause"),))
    document = RunDocument(schema=2, valid=None, reason="Two held it.", summary="Two held it. c0 was paused.")
    found = dict(verdicts(**said))
    run = Result(plan, told.history(), found, decided(found, plan), document, None)
    assert cells.findings_of(run).why == why


@pytest.mark.parametrize(("valid", "state"), [(None, "unknown"), (False, "unavailable")])
def test_a_lock_that_was_never_granted_is_not_safe(valid: bool | None, state: str) -> None:
    told = Story(ttl=2.0, slack=1.0, hold=0.5)
    for second in range(1, 30):
        told.call(
            "c0", "acquire", second, second + 0.1, "info", asked={"timeout": 1.0}, error="Indeterminate: ValueError"
        )
    found_by = dict(verdicts(liveness=valid))
    run = Result(
        Plan(lock="redis-token"),
        told.history(),
        found_by,
        decided(found_by),
        RunDocument(schema=2, valid=valid),
        None,
    )
    found = cells.findings_of(run)
    assert found.state == state
    assert (found.why == "29 of 29 acquires ended with Indeterminate: ValueError.") == (valid is None)


def test_a_cell_shows_the_first_of_its_worst_runs() -> None:
    runs = [
        RunFindings("safe", "all is well"),
        RunFindings("fenced", "late", two_holders=True),
        RunFindings("unknown", "not seen"),
    ]
    plan = Plan(lock="redis-fenced", kind="redis-single", fencing="on", seed=2)
    found = cells.cell(runs, plan, "client-pause", "harness run ...", "store/it")
    assert (found.state, found.why, found.runs, found.seed) == ("unknown", "not seen", 3, 2)
    assert found.counts == {"unknown": 1, "fenced": 1, "safe": 1}
    assert (found.two_holders, found.tokens_fell, found.run) == (True, False, "store/it")
    for number, state in enumerate(WORST_FIRST):
        mixed = [RunFindings(other, "") for other in (*reversed(WORST_FIRST[number:]), state)]
        assert (mixed[cells.worst(mixed)].state, cells.worst(mixed)) == (state, len(mixed) - 2)


# Runs of a cell.


@pytest.mark.slow
def test_a_run_whose_fault_did_not_test_the_lock_is_replaced_by_one_with_the_next_seed(tmp_path: Path) -> None:
    """With seed 1 the partitions begin while nobody holds the lock, or nobody else wants it."""
    asked = ComparisonRequest(locks=("redis-fenced",), nemeses=("partition-node",), runs=1, seed=1)
    found = run_job(tmp_path, "harness compare", jobs(asked)[0]).cell
    assert found is not None
    assert (found.state, found.runs, found.counts) == ("safe", 1, {"safe": 1})
    assert found.seed == 2
    assert str(found.command).endswith("--seed 2")


@pytest.mark.slow
def test_as_many_runs_as_a_cell_has_are_replaced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seeds: list[int] = []

    def unexposed(result: Result) -> RunFindings:
        seeds.append(result.plan.seed)
        return RunFindings("unknown", "not exposed", exposed=False)

    monkeypatch.setattr("harness.studies.compare.trials.cells.findings_of", unexposed)
    asked = ComparisonRequest(locks=("redis-token",), nemeses=("client-pause",), runs=2, seed=5, time_limit=10.0)
    found = run_job(tmp_path, "harness compare", jobs(asked)[0]).cell
    assert found is not None
    assert seeds == [5, 7, 8, 6]
    assert (found.state, found.runs, found.seed) == ("unknown", 2, 8)
