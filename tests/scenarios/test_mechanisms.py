"""A scenario whose mechanism is changed is red: what it states is compared with what happened."""

from __future__ import annotations

from typing import Final, get_args

import pytest
from msgspec.structs import replace

from harness.plan import Expect
from harness.plan.mechanism import Cause
from harness.run.plans.completion import complete
from harness.run.runs import run
from harness.run.verdicts.expectation import judge
from harness.run.verdicts.judging import Result
from harness.scenarios import catalogue
from tests.scenarios.test_files import REFUSED

STATED: Final = [
    name
    for name in catalogue.names()
    if (expect := catalogue.find(name).plan.expect) is not None
    and expect.mechanism is not None
    and name not in REFUSED["sim"]
]
DEFAULT: Final = 8
"""The number of scenarios in the default tests; the others are the same check."""


def test_every_failure_states_its_mechanism() -> None:
    expected = {name: catalogue.find(name).plan.expect for name in catalogue.names()}
    assert [name for name, one in expected.items() if one and not one.safe and one.mechanism is None] == []


def simulated(name: str) -> tuple[Result, Expect]:
    plan = complete(replace(catalogue.find(name).plan, cluster="sim"))
    assert plan.expect is not None
    return run(plan, store=None), plan.expect


def state(result: Result, expect: Expect) -> str:
    return judge(expect, result.verdicts, result.history, result.decision).state


def mutated(expect: Expect) -> dict[str, Expect]:
    """Return the expectation with other causes, with a client that did not take part, and with an event too many."""
    stated = expect.mechanism
    assert stated is not None
    changed = {cause: replace(stated, cause=cause) for cause in get_args(Cause) if cause != stated.cause}
    changed["between"] = replace(stated, between=("c99", "any"))
    changed["event"] = replace(stated, order=(*stated.order, "c99 acquire"))
    return {name: replace(expect, mechanism=mechanism) for name, mechanism in changed.items()}


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if number % (len(STATED) // DEFAULT) == 0 else [pytest.mark.slow])
        for number, name in enumerate(STATED)
    ],
)
def test_a_changed_mechanism_turns_its_scenario_red(name: str) -> None:
    result, expect = simulated(name)
    assert state(result, expect) == "as-expected"
    assert {what: state(result, changed) for what, changed in mutated(expect).items()} == dict.fromkeys(
        mutated(expect), "other-cause"
    )
