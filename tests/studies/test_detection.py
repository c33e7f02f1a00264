"""Detection rates: repeated runs of a known failure on containers, and the alarm on a fall of the rate."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.cli.main import main
from harness.cli.nightly import _print
from harness.documents.nightly import Detection, NightlyDocument, ScenarioOutcome
from harness.documents.run import ScenarioState
from harness.plan import Expect, FaultSpec, Plan
from harness.reports import nightly_report
from harness.scenarios import catalogue
from harness.studies import nightly_cases, results_db
from harness.studies.detection import ALARM, KNOWN, MOST, Counts, chance, repeated, repeats, until_known
from harness.studies.nightly import nightly
from harness.studies.nightly_cases import Case, run_case
from harness.studies.results_db import RESULTS_DB
from tests.reports.nights import add, night, outcome, read

NAME = "ttl-pause-write"
ALWAYS = Counts(20, 20)


def run_of(state: ScenarioState = "as-expected", **changed: Any) -> ScenarioOutcome:
    given = outcome(NAME, "docker", state=state, why=f"it was {state}", real_seconds=2.0, **changed)
    return msgspec.convert(given, ScenarioOutcome)


def runs_of(*states: ScenarioState) -> Callable[[], ScenarioOutcome]:
    """Return a function that makes one run after the other; one more would be an error."""
    left = iter(states)
    return lambda: run_of(next(left))


def by_enumeration(now: Counts, before: Counts) -> float:
    """Return the probability by all ways in which the runs that found the failure may be spread over all runs."""
    total, found = now.runs + before.runs, now.found + before.found
    spread = [ways[: now.runs] for ways in product((0, 1), repeat=total) if sum(ways) == found]
    return sum(sum(first) <= now.found for first in spread) / len(spread)


@pytest.mark.parametrize("now", [Counts(0, 1), Counts(1, 3), Counts(2, 2), Counts(0, 4)])
@pytest.mark.parametrize("before", [Counts(5, 5), Counts(3, 6), Counts(0, 4)])
def test_the_chance_of_so_few_detections_is_that_of_all_ways_to_spread_them(now: Counts, before: Counts) -> None:
    assert chance(now, before) == pytest.approx(by_enumeration(now, before))


def test_nothing_is_compared_without_runs() -> None:
    assert chance(Counts(0, 3), Counts()) is None
    assert chance(Counts(), ALWAYS) is None


@pytest.mark.parametrize(
    ("before", "states", "found", "state"),
    [
        (ALWAYS, ["as-expected"], 1, "as-expected"),
        (Counts(), ["as-expected"] * 2, 2, "as-expected"),
        (Counts(9, 9), ["as-expected"] * 2, 2, "as-expected"),
        (Counts(), ["missed", "as-expected", *["as-expected"] * 4], 5, "as-expected"),
        (ALWAYS, ["missed", *["as-expected"] * 4], 4, "as-expected"),
        (ALWAYS, ["missed"] * 3, 0, "missed"),
        (Counts(10, 10), ["missed"] * 4, 0, "missed"),
        (Counts(10, 20), ["unknown", "missed", "missed", "missed", "missed", "missed"], 0, "unknown"),
        (Counts(), ["missed"] * 6, 0, "missed"),
        (ALWAYS, ["violated"], 0, "violated"),
        (ALWAYS, ["missed", "error"], 0, "error"),
    ],
)
def test_a_scenario_is_repeated_until_its_rate_is_known(
    before: Counts, states: list[ScenarioState], found: int, state: str
) -> None:
    got = repeated(runs_of(*states), before)
    assert got.detection is not None
    assert got.state == state
    ended = states[-1] in ("violated", "error")
    assert (got.detection.found, got.detection.runs) == (found, len(states) - ended)
    assert got.real_seconds == 2.0 * len(states)


def test_an_alarm_says_the_counts_and_the_probability() -> None:
    got = repeated(runs_of("missed", "missed", "missed"), ALWAYS)
    assert got.why == "the detection rate has fallen: found in 0 of 3 runs, in 20 of 20 before (p = 0.00056)"


def test_one_miss_is_no_alarm_and_is_told() -> None:
    got = repeated(runs_of("missed", "as-expected", "as-expected", "as-expected", "as-expected"), ALWAYS)
    assert got.why == "it was as-expected; found in 4 of 5 runs, in 20 of 20 before (p = 0.2)"


def test_an_unchanged_rate_alarms_no_more_often_than_stated() -> None:
    """All possible nights of a scenario that is found in half of its runs, weighted by their probabilities."""
    before = Counts(10, 20)
    alarms = 0.0
    for states in product((True, False), repeat=MOST):
        names: list[ScenarioState] = ["as-expected" if found else "missed" for found in states]
        alarms += prod(0.5 for _ in states) * (repeated(runs_of(*names), before).state == "missed")
    assert alarms <= ALARM


def test_a_rate_that_fell_from_always_to_a_quarter_alarms_in_most_nights() -> None:
    alarms = 0.0
    for states in product((True, False), repeat=MOST):
        names: list[ScenarioState] = ["as-expected" if found else "missed" for found in states]
        weight = prod(0.25 if found else 0.75 for found in states)
        alarms += weight * (repeated(runs_of(*names), Counts(40, 40)).state == "missed")
    assert alarms > 0.5


@pytest.mark.parametrize(
    ("states", "unknown"),
    [
        (["as-expected"], 0),
        (["violated"], 0),
        (["unknown", "as-expected"], 1),
        (["unknown", "violated"], 1),
        (["unknown", "unknown", "missed"], 2),
        (["unknown", "unknown", "unknown"], 2),
    ],
)
def test_a_scenario_is_run_again_only_while_it_is_unknown(states: list[ScenarioState], unknown: int) -> None:
    got = until_known(runs_of(*states))
    assert (got.state, got.unknown_runs) == (states[-1], unknown)
    assert got.real_seconds == 2.0 * len(states)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, True),
        ({"cluster": "sim"}, False),
        ({"faults": (FaultSpec("kill", at=1.0),)}, False),
        ({"expect": Expect(safe=True)}, False),
        ({"expect": None}, False),
    ],
)
def test_only_failures_with_a_fault_on_an_event_are_repeated_on_containers(
    changed: dict[str, Any], expected: bool
) -> None:
    plan = Plan(
        lock="redis-token", cluster="docker", faults=(FaultSpec("kill", on="acquire"),),
        expect=Expect(safe=False, invalid=("mutual-exclusion",)),
    )  # fmt: skip
    assert repeats(msgspec.structs.replace(plan, **changed)) is expected


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Case]:
    """Replace runs on containers by stored outcomes, all missed, and return the cases that were run."""
    cases: list[Case] = []

    def run_once(case: Case, _store: Path, _open_cluster: Any) -> ScenarioOutcome:
        cases.append(case)
        return run_of("missed")

    monkeypatch.setattr(nightly_cases, "_run_once", run_once)
    monkeypatch.setattr(
        "harness.studies.nightly.run_cases", lambda todo, store, *_: ((case, run_case(case, store)) for case in todo)
    )
    return cases


def missing_night(store: Path) -> NightlyDocument:
    return nightly("full", "docker", store=store, scenarios=[catalogue.find(NAME)], workers=1)


def test_a_night_compares_with_the_stored_runs(tmp_path: Path, made: list[Case]) -> None:
    for day in range(1, KNOWN + 11):
        add(tmp_path / RESULTS_DB, night(day, [outcome(NAME, "docker"), outcome(f"{NAME}.safe", "docker")]))
    document = missing_night(tmp_path)
    (got,) = document.outcomes
    assert got.detection == Detection(found=0, runs=3, before_found=20, before_runs=20, chance=1 / 1771)
    assert (got.state, document.status, len(made)) == ("missed", 1, 3)
    results_db.add(tmp_path / RESULTS_DB, document)
    (stored,) = results_db.outcomes(tmp_path / RESULTS_DB, [KNOWN + 11])[KNOWN + 11]
    assert stored == got


def test_a_night_without_stored_runs_reports_a_miss_as_it_is(tmp_path: Path, made: list[Case]) -> None:
    (got,) = missing_night(tmp_path).outcomes
    assert got.state == "missed"
    assert len(made) == MOST
    assert got.why == "it was missed; found in 0 of 6 runs"


def test_a_night_names_the_scenarios_that_it_ran_again(
    tmp_path: Path, made: list[Case], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    coming = runs_of("unknown", "as-expected")
    monkeypatch.setattr(nightly_cases, "_run_once", lambda *_: coming())
    cure = catalogue.find(f"{NAME}.safe")
    document = nightly("full", "docker", store=tmp_path, scenarios=[cure], workers=1)
    assert (document.status, document.outcomes[0].unknown_runs, made) == (0, 1, [])
    _print(document, json=False)
    assert f"run again, because a run was unknown: {NAME} on docker\n" in capsys.readouterr().out


def detected(found: int, runs: int, **before: Any) -> dict[str, Any]:
    return outcome(NAME, "docker", detection={"found": found, "runs": runs, **before})


def test_the_page_and_the_trends_show_the_rates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    later = detected(3, 4, before_found=2, before_runs=2, chance=0.67)
    again = outcome(f"{NAME}.safe", "docker", unknown_runs=1)
    page = nightly_report.write(read(night(2, [later, again])), tmp_path).read_text()
    assert "found in 3 of 4 runs, before in 2 of 2" in page
    assert "after 1 unknown run" in page
    for day, one in ((1, detected(2, 2)), (2, later)):
        add(tmp_path / RESULTS_DB, night(day, [one]))
    with pytest.raises(SystemExit):
        main(["trends", "--out", str(tmp_path), "--html", str(tmp_path / "trends.html")])
    told = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith(NAME)]
    assert [NAME, "█▆", "3", "of", "4", "2", "of", "2", "0.67"] in told
    assert '<td class="number">3 of 4</td>' in (tmp_path / "trends.html").read_text()


@pytest.mark.docker
@pytest.mark.xdist_group("docker")
def test_a_failure_is_repeated_on_containers(tmp_path: Path) -> None:
    document = nightly("full", "docker", store=tmp_path, scenarios=[catalogue.find("redis-restart-empty")], workers=1)
    (got,) = document.outcomes
    assert got.detection is not None
    assert got.detection.runs >= 2, got.why
    assert got.state == "as-expected"
    assert len(list((tmp_path / got.lock).iterdir())) == got.detection.runs
