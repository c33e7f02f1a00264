"""``harness trends``: it reports the planted changes in the last of three nightly runs, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import convert

from harness.cli.main import main
from harness.cli.trends import sparkline
from harness.documents import plain as plain_data
from harness.documents.nightly import ScenarioOutcome
from harness.studies.results_db import RESULTS_DB
from harness.studies.trends import compare
from tests.reports.nights import add, missed_outcome, night, outcome, plain

Capsys = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Three nightly runs. In the last one a failure is missed, and another takes three times as long to be found."""
    last = [
        missed_outcome("ttl-pause-write") if one["scenario"] == "ttl-pause-write" else one
        for one in plain(clock_jump_redlock={"found_s": 7.5})
    ]
    for day, outcomes in ((19, plain()), (20, plain()), (21, last)):
        add(tmp_path / RESULTS_DB, night(day, outcomes))
    return tmp_path


def trends_output(capsys: Capsys, store: Path, *options: str) -> str:
    """Return what the command prints, and assert that it succeeds."""
    with pytest.raises(SystemExit) as ended:
        main(["trends", "--out", str(store), *options])
    assert ended.value.code == 0
    return capsys.readouterr().out


def trends_error(capsys: Capsys, *options: str) -> str:
    with pytest.raises(SystemExit) as ended:
        main(["trends", *options])
    assert ended.value.code == 2
    return capsys.readouterr().err


def test_trends_report_the_planted_changes(store: Path, capsys: Capsys) -> None:
    lines = [line.rstrip() for line in trends_output(capsys, store).splitlines()]
    assert lines[0] == "2026-11-21T02:00:00Z compared with 2026-11-20T02:00:00Z, suite smoke on sim"
    red = lines.index("1 newly failing")
    assert lines[red + 1].startswith(
        "  ttl-pause-write on sim: as-expected → missed: mutual-exclusion said valid in 20"
    )
    later = lines.index("1 found later by a factor of more than 2")
    assert lines[later + 1] == "  clock-jump-redlock on sim: 2.50 s → 7.50 s, 3 times as long"
    assert lines[later + 2] == ""
    assert not any("newly as expected" in line or "appeared" in line or "failover-lost-lock" in line for line in lines)


def test_the_table_has_a_row_for_each_lock_and_fault(store: Path, capsys: Capsys) -> None:
    rows = [line.split() for line in trends_output(capsys, store).splitlines()]
    assert ["redis-token", "client-pause", "sim", "██▁", "0%", "██·", "–"] in rows
    assert ["redlock", "clock-jump", "sim", "███", "100%", "▃▃█", "7.50", "s"] in rows
    assert ["redlock-fenced", "clock-jump", "sim", "▁▁▁", "0%", "···", "–"] in rows


def test_the_document_has_the_planted_changes(store: Path, capsys: Capsys) -> None:
    document = json.loads(trends_output(capsys, store, "--json"))
    assert [one["as_expected"] for one in document["nights"]] == [6, 6, 5]
    compared = document["compared"]
    assert [(one["scenario"], one["before"], one["now"]) for one in compared["newly_red"]] == [
        ("ttl-pause-write", "as-expected", "missed")
    ]
    assert [(one["scenario"], one["ratio"]) for one in compared["slower"]] == [("clock-jump-redlock", 3.0)]
    (redlock,) = [one for one in document["series"] if one["lock"] == "redlock"]
    assert (redlock["runs"], redlock["rate"], redlock["found_s"]) == ([1, 1, 1], [1.0, 1.0, 1.0], [2.5, 2.5, 7.5])


def test_a_later_recovery_is_newly_as_expected_and_found_earlier(store: Path, capsys: Capsys) -> None:
    add(store / RESULTS_DB, night(22, plain()))
    text = trends_output(capsys, store)
    assert "1 newly as expected\n  ttl-pause-write on sim: missed → as-expected" in text
    assert "1 found earlier" in text
    assert "7.50 s → 2.50 s, 0.33 times as long" in text


def test_equal_nightly_runs_are_reported_as_unchanged(store: Path, capsys: Capsys) -> None:
    for day in (23, 24):
        add(store / RESULTS_DB, night(day, plain()))
    assert "\nnothing changed\n" in trends_output(capsys, store)


def test_a_larger_factor_reports_fewer_changes(store: Path, capsys: Capsys) -> None:
    assert "found later" not in trends_output(capsys, store, "--factor", "3")


def test_the_last_option_limits_the_number_of_nightly_runs(store: Path, capsys: Capsys) -> None:
    assert len(json.loads(trends_output(capsys, store, "--json", "--last", "2"))["nights"]) == 2


def test_nightly_runs_of_different_suites_or_clusters_are_not_compared(store: Path, capsys: Capsys) -> None:
    add(store / RESULTS_DB, night(22, plain(), suite="full"))
    assert trends_output(capsys, store) == (
        "only one nightly run of suite full on sim is stored (2026-11-22T02:00:00Z); trends need two\n"
    )
    assert "1 newly failing" in trends_output(capsys, store, "--suite", "smoke")
    add(store / RESULTS_DB, night(23, plain(), clusters=["sim", "docker"]))
    assert "suite smoke on docker, sim is stored" in trends_output(capsys, store)
    assert "1 newly failing" in trends_output(capsys, store, "--suite", "smoke", "--cluster", "sim")
    assert trends_output(capsys, store, "--cluster", "docker").startswith("no such nightly run is stored; ")


def test_one_nightly_run_gives_a_document_and_a_page(tmp_path: Path, capsys: Capsys) -> None:
    add(tmp_path / RESULTS_DB, night(21, plain()))
    assert json.loads(trends_output(capsys, tmp_path, "--json"))["compared"] is None
    page = tmp_path / "pages" / "trends.html"
    assert "only one nightly run of suite smoke on sim is stored" in trends_output(
        capsys, tmp_path, "--html", str(page)
    )
    assert "Nothing to compare yet" in page.read_text()


def test_a_missing_database_names_the_command_that_creates_it(tmp_path: Path, capsys: Capsys) -> None:
    told = trends_error(capsys, "--out", str(tmp_path))
    assert "harness nightly" in told
    assert len(told.splitlines()) == 1


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--last", "1"), "last must be at least 2, got 1"),
        (("--factor", "nan"), "factor must be above 1, got nan"),
        (("--factor", "1"), "factor must be above 1, got 1"),
        (("--cluster", "moon"), "cluster must be one of sim, docker, both, got 'moon'"),
        (("--html", "/dev/null/page.html"), "cannot write /dev/null/page.html"),
    ],
)
def test_invalid_options_are_one_message(store: Path, capsys: Capsys, options: tuple[str, ...], told: str) -> None:
    err = trends_error(capsys, "--out", str(store), *options)
    assert told in err
    assert len(err.splitlines()) == 1


def changes(before: list[dict[str, Any]], now: list[dict[str, Any]]) -> dict[str, list[tuple[str, Any, Any]]]:
    """Return the non-empty parts of a comparison with factor 2, as (scenario, before, now)."""
    told = compare(convert(before, list[ScenarioOutcome]), convert(now, list[ScenarioOutcome]), 2.0)
    return {
        name: [(one["scenario"], *(one.get(key, one.get(f"{key}_s")) for key in ("before", "now"))) for one in some]
        for name, some in plain_data(told).items()
        if some
    }


@pytest.mark.parametrize(
    ("before", "now", "told"),
    [
        ("as-expected", "violated", "newly_red"),
        ("as-expected", "unknown", "newly_red"),
        ("not-run", "late", "newly_red"),
        (None, "missed", "newly_red"),
        ("error", "as-expected", "newly_green"),
        ("as-expected", "not-run", "changed"),
        ("not-run", "as-expected", "changed"),
        ("missed", "not-run", "changed"),
        ("missed", "error", "changed"),
        (None, "as-expected", "appeared"),
        ("violated", None, "disappeared"),
    ],
)
def test_each_change_of_state_has_a_name(before: str | None, now: str | None, told: str) -> None:
    both = [[] if state is None else [outcome("a", state=state)] for state in (before, now)]
    assert changes(*both) == {told: [("a", before, now)]}


def test_each_cluster_is_compared_with_itself() -> None:
    before = [outcome("a", "sim"), outcome("a", "docker", state="missed")]
    now = [outcome("a", "sim", state="missed"), outcome("a", "docker", state="missed")]
    assert changes(before, now) == {"newly_red": [("a", "as-expected", "missed")]}


def test_seeds_are_merged_by_worst_state_and_median_time() -> None:
    before = [outcome("a", seed=seed, found_s=1.0) for seed in range(3)]
    now = [outcome("a", seed=0, found_s=9.0), missed_outcome("a", seed=1), outcome("a", seed=2, found_s=1.0)]
    assert changes(before, now) == {"newly_red": [("a", "as-expected", "missed")], "slower": [("a", 1.0, 5.0)]}


def test_differences_of_short_times_are_ignored() -> None:
    assert changes([outcome("a", found_s=0.0)], [outcome("a", found_s=0.19)]) == {}
    assert changes([outcome("a", found_s=0.0)], [outcome("a", found_s=0.21)]) == {"slower": [("a", 0.0, 0.21)]}


def test_times_of_cures_are_not_compared() -> None:
    both = [[outcome("a.safe", found_s=found_s)] for found_s in (1.0, 9.0)]
    assert changes(*both) == {}


def test_a_sparkline_has_one_character_per_nightly_run() -> None:
    assert sparkline([0.0, 0.5, 1.0, None], 1.0) == "▁▅█·"
    assert sparkline([0.0, None], 0.0) == "▁·"
