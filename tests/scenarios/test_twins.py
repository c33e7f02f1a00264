"""A scenario that runs on containers only has a quick twin on the simulator, which fails in the same way."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from harness.plan import Plan
from harness.plan.mechanism import KEY_EVENTS, Mechanism
from harness.scenarios import catalogue
from harness.studies.nightly_cases import cases, run_case
from tests.scenarios.test_cures import origin

TWIN_OF: Final = re.compile(r"\bthe quick simulated twin of ([\w.-]+\w)")
PAIRS: Final = [
    (found[1], name)
    for name in catalogue.names()
    if (found := TWIN_OF.search(" ".join(catalogue.find(name).plan.about.split())))
]
"""The scenario that runs the software, and its twin, which is a model, and whose text names it."""


def mechanism(name: str) -> Mechanism:
    plan = catalogue.find(name).plan
    assert plan.expect is not None
    assert plan.expect.mechanism is not None
    return plan.expect.mechanism


def calls(name: str) -> list[str]:
    """Return the events of a mechanism without the faults, which may differ, without the keys, which are not observed
    on every real server, and without the ends of leases, which the keys may show."""
    return [
        event
        for event in mechanism(name).order
        if not {"inject", "heal", "lease-end"} & set(event.replace("@", " ").split())
        and not any(key in event for key in KEY_EVENTS)
    ]


def ways_to_fail(plan: Plan) -> tuple[str, ...]:
    assert plan.expect is not None
    return plan.expect.invalid


def test_there_are_pairs() -> None:
    assert {"shedlock-skew.java", "consul-isolated.api", "nrl-expired.node"} <= {real for real, _ in PAIRS}


@pytest.mark.parametrize(("real", "twin"), PAIRS)
def test_twin_is_a_model_and_the_other_is_not(real: str, twin: str) -> None:
    """The other runs a library, or a lock of ours on the service itself."""
    assert origin(catalogue.find(real)).kind in ("library", "use", "catalogue")
    assert origin(catalogue.find(twin)).kind == "model"


@pytest.mark.parametrize(("real", "twin"), PAIRS)
def test_twin_is_expected_to_fail_in_the_same_way(real: str, twin: str) -> None:
    assert set(ways_to_fail(catalogue.find(real).plan)) & set(ways_to_fail(catalogue.find(twin).plan))
    assert mechanism(real).cause == mechanism(twin).cause
    assert mechanism(real).between == mechanism(twin).between
    events = iter(calls(twin))
    assert all(event in events for event in calls(real)), f"{calls(real)} is no part of {calls(twin)}"


@pytest.mark.long
@pytest.mark.timeout(1800)  # each release of a library has an image of its own
@pytest.mark.parametrize(("real", "twin"), PAIRS)
def test_both_fail_as_expected(real: str, twin: str, tmp_path: Path) -> None:
    for name, cluster in ((twin, "sim"), (real, "docker")):
        [case] = cases("full", cluster, [catalogue.find(name)])
        outcome = run_case(case, tmp_path / cluster)
        assert outcome.state == "as-expected", f"{name}: {outcome.why}"
