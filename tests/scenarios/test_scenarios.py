"""Every scenario is as expected on the simulator, with further seeds too: the first is that of ``harness nightly``,
which CI runs as users do, on containers as well."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from harness.nightly import Case, cases, play

SEEDS = [1, 2]
ON_SIM = [case for case in cases("smoke", "sim") if not case.refused]


def name(case: Case) -> str:
    return case.scenario


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("case", ON_SIM, ids=name)
def test_on_the_simulator(case: Case, seed: int, tmp_path: Path) -> None:
    seeded = msgspec.structs.replace(case.plan, seed=case.plan.seed + seed)
    outcome = play(Case(case.scenario, case.cluster, seeded), tmp_path)
    assert outcome.state == "as-expected", outcome.why
