"""A scenario on a service that only containers have, and its simulated twin, fail in the same way."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.scenarios import catalogue
from harness.studies.nightly_cases import cases, run_case

TWINS = ["getlock-multi-primary"]
"""Scenarios with a twin: NAME.sim has the same lock and the same expectation, on another kind of cluster."""


@pytest.mark.parametrize("name", TWINS)
def test_twins_differ_only_in_the_servers(name: str) -> None:
    for real, simulated in ((name, f"{name}.sim"), (f"{name}.safe", f"{name}.sim.safe")):
        real_plan, simulated_plan = catalogue.find(real).plan, catalogue.find(simulated).plan
        assert real_plan.lock == simulated_plan.lock
        assert real_plan.expect == simulated_plan.expect, "the same checkers, and the same mechanism"
        assert real_plan.faults == simulated_plan.faults
        assert real_plan.kind != simulated_plan.kind


@pytest.mark.parametrize("name", TWINS)
def test_the_twin_fails_as_expected_on_the_simulator(name: str, tmp_path: Path) -> None:
    [case] = cases("smoke", "sim", [catalogue.find(f"{name}.sim")])
    outcome = run_case(case, tmp_path)
    assert outcome.state == "as-expected", outcome.why


@pytest.mark.long
@pytest.mark.parametrize("name", TWINS)
def test_the_real_service_fails_as_expected(name: str, tmp_path: Path) -> None:
    case, *_ = cases("full", "docker", [catalogue.find(name)])
    outcome = run_case(case, tmp_path)
    assert outcome.state == "as-expected", outcome.why
