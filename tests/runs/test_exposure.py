"""Runs whose fault struck at a quiet moment test nothing; the same fault while a key is held and wanted does."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from harness import run
from harness.faults.catalogue import default_specs
from harness.plan import Expect, FaultSpec, Plan
from harness.run.verdicts.judging import Result

LATENCY = FaultSpec("latency", at=1.0, for_=0.5)


def attempt(**settings: Any) -> Result:
    return run(Plan(lock="zookeeper-sequential", clients=2, faults=(LATENCY,), time_limit=12.0, **settings))


def test_a_fault_before_the_second_client_began_makes_the_run_unknown() -> None:
    result = attempt(stagger=3.0)
    assert result.verdicts["faults"].valid is True
    assert result.decision.properties["exposure"].state == "not-tested"
    assert result.valid is None
    never = "latency struck 1 time, never while one client held a key and another one wanted it"
    assert result.reason == f"Nothing was proved: exposure: {never}, so it did not test the lock."


def test_exposure_is_required_whatever_the_user_requires() -> None:
    assert attempt(stagger=3.0, require=("mutual-exclusion",)).valid is None


@pytest.mark.slow
def test_a_fault_while_two_clients_compete_makes_no_doubt() -> None:
    result = attempt()
    assert result.decision.properties["exposure"].state == "kept"
    assert result.valid is True, result.reason


@pytest.mark.slow
def test_a_scenario_chooses_the_moment_of_its_faults() -> None:
    result = attempt(stagger=3.0, expect=Expect(safe=True))
    assert result.decision.properties["exposure"].required is False
    assert result.valid is True, result.reason
    assert result.results.scenario.state == "as-expected"  # type: ignore[union-attr]


def struck(result: Result) -> int:
    return sum(op.type == "invoke" for op in result.history.nemesis("inject"))


@pytest.mark.slow
def test_a_fault_strikes_again_until_it_has_tested_the_lock() -> None:
    """The first strike comes while c1 has not begun."""
    jump = FaultSpec("clock-jump", on="acquire", times=1000, every=1.0)
    setting: dict[str, Any] = {"lock": "zookeeper-sequential", "clients": 2, "stagger": 3.0, "time_limit": 16.0}
    once, always, enough = (
        run(Plan(**setting, faults=(msgspec.structs.replace(jump, **change),)))
        for change in ({"times": 1}, {}, {"until_exposed": True})
    )
    assert once.decision.properties["exposure"].state == "not-tested"
    assert enough.decision.properties["exposure"].state == "kept"
    assert 1 == struck(once) < struck(enough) < struck(always)


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "setting"), [
    ("clock-jump", {"seed": 3, "hold": 0.1}),
    ("clock-jump", {"stagger": 3.0}),
    ("delayed-request", {"stagger": 3.0}),
])  # fmt: skip
def test_named_faults_that_strike_once_strike_again_where_needed(fault: str, setting: dict[str, Any]) -> None:
    """The first strike comes while no waiter looks at the key before the end of the hold."""
    again = default_specs(fault, 2.0)[0]
    once, enough = (
        run(Plan(lock="redlock", clients=2, time_limit=16.0, faults=(spec,), **setting))
        for spec in (msgspec.structs.replace(again, times=1), again)
    )
    assert struck(once) == 1
    assert once.decision.properties["exposure"].state == "not-tested"
    assert struck(enough) > 1
    assert enough.decision.properties["exposure"].state == "kept"
