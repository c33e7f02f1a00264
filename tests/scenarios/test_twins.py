"""A re-enactment of software that runs in containers is that scenario's quick simulated twin: both fail alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.plan import Expect, Plan
from harness.run.lock_facts import stated_origin
from harness.scenarios import catalogue
from harness.studies.nightly_cases import cases, run_case

TWINS = {
    "consul-isolated.stops": "consul-isolated.api",
    "nrl-expired": "nrl-expired.node",
}
"""Re-enactment → the scenario that runs the software."""
pairs = pytest.mark.parametrize(("twin", "real"), TWINS.items())


def expected(name: str) -> tuple[Plan, Expect]:
    plan = catalogue.find(name).plan
    assert plan.expect is not None
    return plan, plan.expect


@pairs
def test_twin_names_the_scenario_of_the_software_and_both_expect_the_same_cause(twin: str, real: str) -> None:
    (model, of_model), (software, of_software) = expected(twin), expected(real)
    assert f"simulated twin of {real}" in " ".join(model.about.split())
    origin, library = stated_origin(model.lock), stated_origin(software.lock)
    assert origin is not None
    assert origin.kind == "model"
    assert library is not None
    assert library.kind == "library"
    assert of_model.mechanism is not None
    assert of_software.mechanism is not None
    assert of_model.mechanism.cause == of_software.mechanism.cause
    assert set(of_model.invalid) & set(of_software.invalid)


@pytest.mark.slow
@pytest.mark.parametrize("twin", TWINS)
def test_twin_fails_on_the_simulator(twin: str, tmp_path: Path) -> None:
    [case] = cases("smoke", "sim", [catalogue.find(twin)])
    assert run_case(case, tmp_path).state == "as-expected"


@pytest.mark.parametrize(
    "real",
    [pytest.param(real, marks=pytest.mark.long if "consul" in real else pytest.mark.docker) for real in TWINS.values()],
)
def test_software_fails_in_containers(real: str, tmp_path: Path) -> None:
    [case] = cases("smoke", "docker", [catalogue.find(real)])
    outcome = run_case(case, tmp_path)
    assert outcome.state == "as-expected", outcome.why
