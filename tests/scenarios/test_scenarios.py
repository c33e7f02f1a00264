"""Every scenario ends as expected on the simulator with two more seeds.

CI runs the first seed with ``harness nightly``, as users do, on containers too.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from harness.studies.nightly_cases import Case, cases, run_case

SEEDS = [1, 2]
ON_SIM = [case for case in cases("smoke", "sim") if not case.refused]


def name(case: Case) -> str:
    return case.scenario


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("case", ON_SIM, ids=name)
def test_scenario_ends_as_expected_on_the_simulator(case: Case, seed: int, tmp_path: Path) -> None:
    seeded = msgspec.structs.replace(case.plan, seed=case.plan.seed + seed)
    outcome = run_case(Case(case.scenario, case.cluster, seeded), tmp_path)
    assert outcome.state == "as-expected", outcome.why
