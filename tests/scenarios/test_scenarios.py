"""Every scenario ends as expected on the simulator with another seed, and one that it cannot run says why.

CI runs the first seed with ``harness nightly``, as users do, on containers too.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from harness.scenarios import catalogue
from harness.scenarios.catalogue import Scenario
from harness.studies.nightly_cases import Case, cases, run_case

SEED = 1


def name(scenario: Scenario) -> str:
    return scenario.name


@pytest.mark.slow
@pytest.mark.parametrize("scenario", list(catalogue.all()), ids=name)
def test_scenario_ends_as_expected_on_the_simulator(scenario: Scenario, tmp_path: Path) -> None:
    [case] = cases("smoke", "sim", [scenario])
    seeded = msgspec.structs.replace(case.plan, seed=case.plan.seed + SEED)
    outcome = run_case(Case(case.scenario, case.cluster, seeded, case.refused), tmp_path)
    assert outcome.state == ("not-run" if case.refused else "as-expected"), outcome.why
