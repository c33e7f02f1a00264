"""Merging, running and finding checkers."""

from __future__ import annotations

import json

import pytest

from harness.checkers import catalogue
from harness.checkers.base import Verdict, Violation, conclude
from harness.checkers.resource import ResourceChecker
from harness.checkers.running import run_all
from harness.checkers.view import View, view
from harness.history import History, HistoryError, Op
from tests.checkers.story import Story


@pytest.mark.parametrize("answer", [{"value": 0}, {"value": 0, "arrival": None}, 5])
def test_an_access_without_its_arrival_is_unknown_and_named(answer: object) -> None:
    history = Story().call("a", "read", 1.0, 1.1, got=answer).history()
    found = run_all(history, [ResourceChecker()])["resource"]
    assert found.valid is None
    assert "the field 'arrival'" in found.explanation
    assert "(read ok)" in found.explanation
    assert "the checker failed" not in found.explanation


class Broken:
    name = "broken"

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def check(self, history: History) -> Verdict:
        raise self.error


def test_a_checker_that_raises_is_unknown() -> None:
    verdict = run_all(History(), [Broken(ZeroDivisionError("by nought"))])["broken"]
    assert verdict.valid is None
    assert "ZeroDivisionError: by nought" in verdict.explanation


class Constant:
    def __init__(self, name: str, verdict: Verdict) -> None:
        self.name = name
        self.verdict = verdict

    def check(self, history: History) -> Verdict:
        return self.verdict


@pytest.mark.parametrize(
    ("verdict", "name", "expected"),
    [
        (Verdict(True, ""), "mutual-exclusion", None),
        (Verdict(False, "", (Violation("overlap", "k0", "it happened", 1, 2),)), "mutual-exclusion", False),
        (Verdict(True, "", applies=False), "fencing", True),
        (Verdict(True, ""), "answers", True),
    ],
)
@pytest.mark.parametrize("recorded", [True, False])
def test_one_client_keeps_no_property_of_two(
    verdict: Verdict, name: str, expected: bool | None, recorded: bool
) -> None:
    story = Story() if recorded else Story(clients=["c0"])
    if recorded:
        story.nemesis(1.0, "stop", "info", {"reason": "done", "contacted": ["c0"]})
    found = run_all(story.history(reason=None), [Constant(name, verdict)])[name]
    assert found.valid is expected
    assert ("c0" in found.explanation) == (expected is None)


def test_keyboard_interrupt_passes_through() -> None:
    with pytest.raises(KeyboardInterrupt):
        run_all(History(), [Broken(KeyboardInterrupt())])


def test_violations_remain_when_a_run_is_cut_short() -> None:
    history = Story().history(reason=None)
    violation = Violation("overlap", "k0", "it happened", 1, 2)
    assert conclude(history, [violation], fine="").valid is False
    assert conclude(history, [], fine="").valid is None
    assert conclude(Story().history(), [], fine="all well").explanation == "all well"


def test_find_returns_every_checker_and_suggests_the_nearest_name() -> None:
    names = {checker.name for checker in catalogue.all()}
    assert {"mutual-exclusion", "fencing", "resource", "ownership", "deadlock", "liveness", "faults"} <= names
    assert catalogue.find("fencing").name == "fencing"
    with pytest.raises(catalogue.UnknownChecker, match="did you mean 'mutual-exclusion'"):
        catalogue.find("mutual-exclusive")


def test_every_checker_gives_unknown_for_an_empty_history() -> None:
    verdicts = run_all(History(), catalogue.all())
    assert all(verdict.valid is None for verdict in verdicts.values()), verdicts
    json.dumps({name: verdict.to_json() for name, verdict in verdicts.items()})


def test_a_completion_without_an_invocation_is_refused() -> None:
    with pytest.raises(HistoryError, match="entry 0"):
        view(History([Op(0, 1, 1, 0, "ok", "acquire", "k0")]))


@pytest.mark.parametrize(
    ("ns", "text"), [(1, "1 ns"), (1_000, "0.001 ms"), (92_000_000, "92 ms"), (1_250_000_000, "1.250 s")]
)
def test_a_duration_is_written_in_a_suitable_unit(ns: int, text: str) -> None:
    assert View.span(ns) == text
