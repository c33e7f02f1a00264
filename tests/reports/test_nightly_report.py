"""The pages of a nightly run and of the trends: the verdict first, nothing fetched, and links that move with the
store."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from harness.documents import DocumentError, TrendsDocument, convert
from harness.reports import night as views
from harness.reports import nightly_report, trends_report
from harness.reports.nightly_report import link
from harness.studies.trends import trends
from tests.reports import nights
from tests.reports.test_run_page import Page


def page_of(tmp_path: Path, document: dict[str, Any]) -> Page:
    return Page(nightly_report.write(nights.read(document), tmp_path / "page").read_text())


def cells(document: dict[str, Any]) -> dict[tuple[str, str], list[tuple[str, str]]]:
    """Return the texts of the table and the notes beside them, by row and cluster."""
    view = views.read(nights.read(document))
    return {
        (row.name, cluster): [(line.outcome_text, line.note) for line in cell]
        for row in nightly_report.rows(view)
        for cluster, cell in zip(view.clusters, row.cells, strict=True)
    }


@pytest.mark.parametrize(
    ("outcomes", "tone", "headline"),
    [
        (nights.plain(), "valid", "All 6 as expected"),
        (
            [*nights.plain(), nights.missed_outcome("a"), nights.outcome("b", state="error")],
            "invalid",
            "2 of 8 not as expected",
        ),
        ([*nights.plain(), nights.outcome("b", state="unknown")], "unknown", "1 of 7 not as expected"),
        ([*nights.plain(), nights.outcome("b", state="not-run")], "valid", "All 6 as expected"),
        ([nights.outcome("b", state="not-run")], "unknown", "Nothing ran"),
        ([], "unknown", "Nothing ran"),
    ],
)
def test_the_verdict_comes_first(tmp_path: Path, outcomes: list[nights.Json], tone: str, headline: str) -> None:
    page = page_of(tmp_path, nights.night(21, outcomes))
    assert page.words[0] == headline
    assert page.headings[0] == "h1"
    assert f"verdict {tone}" in page.values("class")


def test_a_new_failure_and_a_survivor_are_said_first(tmp_path: Path) -> None:
    page = page_of(tmp_path, nights.night(21, nights.plain()) | {
        key: nights.explored()[key] for key in ("ablations", "exploration")
    })  # fmt: skip
    assert page.words[0] == "All 6 as expected, 1 change without effect, 1 new failure"
    assert "verdict invalid" in page.values("class")
    text = " ".join(page.words)
    assert "Exploration found 1 failure that no earlier night had found." in text
    assert "client: client-pause inject → first lease-end → violation" in text
    assert "All nights together have explored 50% of 4 pairs of lock and fault." in text


def test_the_heat_map_says_what_each_pair_has_shown() -> None:
    found = views.read(nights.read(nights.explored())).exploration
    assert found is not None
    assert [failure.state for failure in found.failures] == ["new", "gone", "error", "known"]
    (token, cells), (redlock, others) = found.rows
    assert (token, redlock, found.faults) == ("redis-token", "redlock", ("client-pause", "kill", "latency"))
    assert [(cell.failing, cell.sign) for cell in cells] == [(True, "1"), (False, ""), (False, "")]
    assert "fewer than 1.0% of them fail" in cells[1].text, "rule of three"
    assert [cell.level for cell in cells] == [4, 3, 0]
    assert [cell.level for cell in others] == [-1, -1, 0], "only latency can strike it"


def test_an_interrupted_nightly_run_is_not_green(tmp_path: Path) -> None:
    page = page_of(tmp_path, nights.night(21, nights.plain(), interrupted=True, planned=326))
    assert "verdict unknown" in page.values("class")
    assert page.words[0] == "Interrupted after 6 of 326 runs: all as expected so far"
    red = nights.night(21, [*nights.plain(), nights.missed_outcome("a")], interrupted=True, planned=326)
    assert page_of(tmp_path, red).words[0] == "Interrupted after 7 of 326 runs: 1 not as expected"


def test_an_old_interrupted_nightly_run_does_not_know_how_many_were_planned(tmp_path: Path) -> None:
    page = page_of(tmp_path, nights.night(21, nights.plain(), interrupted=True))
    assert page.words[0] == "Interrupted after 6 of an unknown number of runs: all as expected so far"
    assert "Interrupted." in page.words


def test_failed_outcomes_follow_with_their_reason_worst_first(tmp_path: Path) -> None:
    page = page_of(tmp_path, nights.mixed())
    heads = [word for word in page.words if re.search(r" on (sim|docker), seed \d$", word)]
    assert heads == [
        "clock-jump-redlock.safe on sim, seed 3",
        "clock-jump-redlock on sim, seed 0",
        "clock-jump-redlock on docker, seed 0",
        "failover-lost-lock on sim, seed 0",
        "clock-jump-redlock.safe on docker, seed 0",
    ]
    assert "mutual-exclusion said valid in 20 s, and should have said invalid: two holders at once" in page.words
    assert page.words[1].startswith("1 lock that should be safe was violated; 1 known failure was not found; 1 was ")
    assert page.words[1].endswith("1 could not run on the requested cluster.")


def test_the_table_has_the_outcome_of_each_row_on_each_cluster() -> None:
    told = cells(nights.mixed())
    assert told["ttl-pause-write", "docker"] == [
        ("failure found in 2.5 s", "redis-token · seed 0 · 400 ms"),
        ("cure valid", "redis-token-fenced · seed 0 · 400 ms"),
    ]
    assert [said for said, _ in told["clock-jump-redlock", "sim"]] == ["failure not found", "cure violated after 3 s"]
    assert [said for said, _ in told["clock-jump-redlock", "docker"]] == [
        "failure found too late, after 11.2 s",
        "cure: no verdict",
    ]
    assert told["failover-lost-lock", "docker"] == [("failure not run", "redis-sentinel: docker has no engine here")]


def test_a_model_says_that_it_is_not_the_library(tmp_path: Path) -> None:
    sentence = "A model of the algorithm of RedLock.net 2.2 (RedLock.cs), not RedLock.net itself."
    library = {"kind": "library", "software": "aiozk", "version": "0.32.0", "what": "", "source": "", "fix": ""}
    outcomes = [nights.missed_outcome("a"), nights.outcome("b", origin=library), nights.outcome("c", origin=None)]
    view = views.read(nights.read(nights.night(21, outcomes)))
    assert {row.name: row.models for row in nightly_report.rows(view)} == {"a": (sentence,), "b": (), "c": ()}
    words = page_of(tmp_path, nights.night(21, outcomes)).words
    assert words.count(sentence) == 2, "beside the outcome that is not as expected, and in the table"


def test_seeds_of_a_scenario_share_a_line_that_names_the_worst() -> None:
    seeds = [nights.outcome("a", seed=seed, found_s=float(seed)) for seed in range(1, 4)]
    others = [nights.outcome("a.safe"), nights.outcome("a.other"), nights.outcome("a.other.safe")]
    told = cells(nights.night(21, [*seeds, *others]))["a", "sim"]
    assert told[0] == ("failure found in 2 s", "etcd-mutex · seeds 1, 2, 3 · 1.2 s")
    assert [said for said, _ in told] == ["failure found in 2 s", "cure valid", "failure found in 2.5 s", "cure valid"]
    assert [note.partition("etcd")[0] for _, note in told] == ["", "", ".other · ", ".other · "], (
        "one lock, two variants"
    )
    told = cells(nights.night(21, [*seeds, nights.missed_outcome("a", seed=7)]))["a", "sim"]
    assert told == [("failure not found", "etcd-mutex · seed 7 of 4 · 1.6 s")]


def test_the_footer_speaks_of_links_only_if_there_are_any(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    for folder, linked in ((str(run), True), (str(tmp_path / "removed"), False), (None, False)):
        document = nights.read(nights.night(21, [nights.missed_outcome("a", folder=folder)]))
        page = nightly_report.write(document, tmp_path / "night").read_text()
        assert ("Each link leads to the folder of its run" in page) is linked, folder


def test_links_are_relative_and_move_with_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = Path("store/redlock/run #1")
    run.mkdir(parents=True)
    assert link(str(run), Path("store/nightly")) == "../redlock/run%20%231"
    (run / "report.html").touch()
    assert link(str(run), Path("store/nightly")) == "../redlock/run%20%231/report.html"
    assert link(str(tmp_path / run), Path("store")) == "redlock/run%20%231/report.html"
    assert link("store/gone", Path("store")) == ""
    document = nights.read(nights.night(21, [nights.missed_outcome("a", folder=str(run))]))
    path = nightly_report.write(document, Path("store/nightly"))
    (target, *_) = [value for value in Page(path.read_text()).values("href") if value]
    assert (path.parent / target.replace("%20", " ").replace("%23", "#")).resolve() == run.absolute() / "report.html"
    assert os.sep * 2 not in target


def trends_page(tmp_path: Path, count: int = 3) -> str:
    """Return the page of two equal nightly runs and one with a missed and a later failure, or of the first
    ``count``."""
    last = [nights.missed_outcome("ttl-pause-write"), *nights.plain(clock_jump_redlock={"found_s": 7.5})[1:]]
    db = tmp_path / "results.db"
    for day, outcomes in list(enumerate((nights.plain(), nights.plain(), last), 19))[:count]:
        nights.add(db, nights.night(day, outcomes))
    return trends_report.write(trends(db, last=14), tmp_path / "trends.html").read_text()


def test_the_trends_page_shows_the_planted_changes(tmp_path: Path) -> None:
    page = Page(trends_page(tmp_path))
    assert page.words[0] == "1 newly failing, 1 found later"
    text = " ".join(page.words)
    assert "ttl-pause-write on sim: as-expected → missed" in text
    assert "clock-jump-redlock on sim: 2.50 s → 7.50 s" in text
    labels = page.values("aria-label")
    assert "2026-11-19 02:00: 2.50 s; 2026-11-20 02:00: 2.50 s; 2026-11-21 02:00: 7.50 s" in labels
    assert "2026-11-19 02:00: 100% of 1; 2026-11-20 02:00: 100% of 1; 2026-11-21 02:00: 0% of 1" in labels


def test_the_charts_draw_the_values(tmp_path: Path) -> None:
    text = trends_page(tmp_path)

    def charts(name: str) -> list[str]:
        return re.findall(f'<svg class="chart {name}.*?</svg>', text)

    (redlock,) = [svg for svg in charts("found") if "7.50 s" in svg]
    heights = [float(y) for y in re.findall(r'<circle cx="[\d.]+" cy="([\d.]+)"', redlock)]
    assert heights[0] == heights[1] > heights[2] == trends_report.EDGE
    floor = trends_report.HEIGHT - trends_report.EDGE
    assert (floor - heights[2]) / (floor - heights[0]) == pytest.approx(3, abs=0.05)
    (token,) = [svg for svg in charts("rate") if "100% of 1; 2026-11-21 02:00: 0% of 1" in svg]
    assert re.findall(r'<rect class="(some|none)"', token) == ["some", "some", "none"]


def test_a_missing_value_interrupts_the_line() -> None:
    draw = trends_report._line
    assert 'd="M1.0 2.0L3.0 4.0M5.0 6.0"' in draw([(1, 2), (3, 4), None, (5, 6)])
    assert draw([None, None]) == ""


def test_one_nightly_run_gives_a_page(tmp_path: Path) -> None:
    assert Page(trends_page(tmp_path, count=1)).words[0] == "Nothing to compare yet"


def test_pages_fetch_nothing_and_escape_foreign_text(tmp_path: Path) -> None:
    db = tmp_path / "evil.db"
    for day in (20, 21):
        evil = nights.mixed() if day == 21 else nights.night(day, [], clusters=["docker", "sim"])
        nights.add(db, evil | {"started_at": f"2026-11-{day}T02:00:00Z"})
    for page in (
        nightly_report.write(nights.read(nights.mixed()), tmp_path),
        trends_report.write(trends(db, last=2), tmp_path / "t"),
    ):
        text = page.read_text()
        assert not re.search(r"https?://|@import|<link|<img|<iframe|\bsrc=", text)
        assert "&lt;b&gt;&#34;two&#34; &amp; &#39;three&#39;&lt;/b&gt;" in text
        assert '<b>"two"' not in text


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ({"schema": 2}, "schema: expected 1, got 2"),
        ({"schema": 1}, "expected the key 'started_at'"),
        (nights.night(21, [nights.outcome("a", found_s="soon")]), r"outcomes\[0\].found_s: expected a number"),
        (nights.night(21, [], started_at="at two"), "started_at: expected a time"),
    ],
)
def test_a_malformed_document_is_refused_with_its_place(tmp_path: Path, document: nights.Json, told: str) -> None:
    with pytest.raises(DocumentError, match=told):
        nightly_report.write(nights.read(document), tmp_path / "page")
    assert not (tmp_path / "page").exists()


def test_series_that_differ_in_length_from_the_nightly_runs_are_refused(tmp_path: Path) -> None:
    document = {
        "schema": 1, "suite": "smoke", "clusters": ["sim"], "factor": 2.0, "compared": None,
        "nights": [{"started_at": "2026-11-21T02:00:00Z"}],
        "series": [{"lock": "a", "rate": [1.0, 1.0], "found_s": [None], "runs": [1]}],
    }  # fmt: skip
    with pytest.raises(DocumentError, match=r"series\[0\].rate: expected 1 values, one a nightly run, got 2"):
        trends_report.write(convert(document, TrendsDocument, "trends"), tmp_path / "trends.html")
    assert not (tmp_path / "trends.html").exists()


def test_an_impossible_reply_turns_the_night_red_and_is_shown(tmp_path: Path) -> None:
    checked = {**nights.IMPOSSIBLE_REPLY, "state": "possible", "difference": None}
    etcd = {**checked, "state": "unknown", "why": "not checked: there is no specification for etcd"}
    outcomes = [
        nights.outcome("a", traces=[nights.IMPOSSIBLE_REPLY]),
        nights.outcome("b", traces=[checked]),
        nights.outcome("c", traces=[etcd]),
    ]
    page = page_of(tmp_path, nights.night(21, outcomes))
    assert page.words[0] == "All 3 as expected, traffic of 1 run impossible"
    assert "verdict invalid" in page.values("class")
    text = " ".join(page.words)
    assert "Traffic of 2 runs checked (1,400 requests), 1 impossible; 1 not checked: there is no specification" in text
    assert "After 1.250 s 10.0.0.2:4000 got nil to ['GET', 'k0']; possible: '<b>'." in text


def test_traffic_that_is_possible_leaves_the_verdict_and_a_night_without_recordings_says_nothing(
    tmp_path: Path,
) -> None:
    checked = {**nights.IMPOSSIBLE_REPLY, "state": "possible", "difference": None}
    recorded = page_of(tmp_path, nights.night(21, [nights.outcome("b", traces=[checked])]))
    assert recorded.words[0] == "All 1 as expected"
    assert "Traffic of the real servers" in recorded.words
    assert "Traffic of the real servers" not in page_of(tmp_path, nights.night(21, nights.plain())).words
