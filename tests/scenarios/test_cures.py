"""Scenarios say what they run, and a cure shows which change cures."""

from __future__ import annotations

from typing import Final

import pytest
from msgspec.structs import replace

from harness.documents.lock import LockOrigin
from harness.run.plans.lock_facts import stated_origin
from harness.scenarios import catalogue
from harness.scenarios.catalogue import Scenario
from harness.studies.ablation import Ablation, ablations, cure_of, differences, run_ablation
from tests.scenarios.test_files import REFUSED

FAILURES: Final = [name for name in catalogue.names() if not name.endswith(".safe")]
OWN: Final = "harness.scenarios.locks."


def origin(scenario: Scenario) -> LockOrigin:
    stated = stated_origin(scenario.plan.lock, scenario.plan.requires)
    assert stated is not None, f"{scenario.name}: {scenario.plan.lock} does not say what it is"
    return stated


def puts_fix_back(failure: Scenario) -> bool:
    """Return whether the cure is the failure's lock with a fix, and nothing else."""
    cure = cure_of(failure)
    wrong, fixed = origin(failure), origin(cure)
    return not wrong.fix and bool(fixed.fix) and replace(fixed, fix="") == wrong and not cure.plan.twin


def with_cures_lock(failure: Scenario) -> Ablation:
    """Return the failure with nothing but the lock of its cure."""
    (change,) = (one for one in ablations(failure) if one.kind == "cure" and "lock = " in one.change)
    return change


FIXED: Final = [name for name in FAILURES if puts_fix_back(catalogue.find(name))]


@pytest.mark.parametrize("name", FAILURES)
def test_a_cure_differs_in_one_thing_or_says_why(name: str) -> None:
    failure = catalogue.find(name)
    cure = cure_of(failure)
    differing = differences(failure.plan, cure.plan)
    assert differing, "the cure changes nothing"
    assert len(differing) == 1 or len(cure.plan.twin) > 40, f"it differs in {differing} and has no 'twin'"
    assert not failure.plan.twin, "only a cure has a twin to differ from"


@pytest.mark.parametrize("name", catalogue.names())
def test_a_scenario_says_what_its_lock_is(name: str) -> None:
    scenario = catalogue.find(name)
    stated = origin(scenario)
    if not scenario.plan.lock.startswith(OWN):
        return
    assert stated.what
    assert stated.kind == "variant" or stated.source
    if stated.kind in ("model", "use"):
        assert stated.software
        assert stated.version
    if stated.kind == "model":
        assert f"not {stated.software} itself" in stated.sentence


def test_enough_locks_are_cured_by_their_fix_alone() -> None:
    """A cure by another lock does not show which line was wrong."""
    assert len(FIXED) >= 30
    assert {"aiorl-watchdog", "extend-aba", "spring-unlock", "zk-reentry"} <= set(FIXED)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in FIXED if name not in REFUSED["sim"]])
def test_putting_the_fix_back_ends_the_failure(name: str) -> None:
    outcome = run_ablation(with_cures_lock(catalogue.find(name)))
    assert outcome.state == "vanishes", outcome.why
