"""Sweeps: measures and counts, which depend neither on the number of workers nor on invalid input."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from harness.checkers.base import Verdict, Violation
from harness.cli.main import main
from harness.documents import RunDocument, SweepDocument, plain
from harness.documents.run import RunStats
from harness.documents.sweep import SweepRun
from harness.errors import UsageError
from harness.plan import Plan
from harness.reports import sweep_report
from harness.run.verdicts.judging import Result
from harness.studies import sweep as sweeps
from harness.studies.sweep import Grid, exit_status, figures, planned, summary, sweep, wilson
from tests.checkers.story import Story

from .deciding import decided

PLAN = Plan(lock="redis-token", clients=3, time_limit=9.0, rest=0.02)
GRID = Grid(ttl=(0.5, 3.0), hold=(0.2,), pause=(1.5,), every=2.0, seeds=2)


def sweep_run(**changes: Any) -> SweepRun:
    known = {"seed": 0, "state": "valid", "writes": 100, "acquires": 100, "seconds": 10.0}
    return SweepRun(**{**known, **changes})


POINT = ("sim", 0.1, 3.0, 1.0)
"""Cluster, hold, pause and ttl."""


def command(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["sweep", *arguments])
    return int(ended.value.code or 0)


# Measures.


@pytest.fixture(scope="module")
def document() -> SweepDocument:
    return sweep(PLAN, GRID, workers=1)


@pytest.mark.slow
def test_only_leases_shorter_than_the_pause_are_violated(document: SweepDocument) -> None:
    short, long = document.points
    assert (short.ttl, short.runs, short.violated, short.unknown) == (0.5, 2, 2, 0)
    assert short.overlaps >= short.violated
    assert 0 < short.lost < short.writes
    assert (short.lost_least or 0.0) <= (short.lost_fraction or 0.0) <= (short.lost_most or 0.0)
    assert GRID.every < (short.first_s or 0.0) < PLAN.time_limit
    assert (long.violated, long.valid, long.lost, long.first_s) == (0, 2, 0, None)
    assert exit_status(document) == 1


@pytest.mark.slow
def test_the_number_of_workers_does_not_change_the_document(
    document: SweepDocument, capfd: pytest.CaptureFixture[str]
) -> None:
    fractions: list[float] = []
    again = sweep(PLAN, GRID, workers=2, progress=lambda fraction, _: fractions.append(fraction))
    assert again == document
    assert fractions == [number / 4 for number in range(5)]
    assert capfd.readouterr().out == ""


def test_a_pause_of_zero_adds_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Plan] = []

    def measured(plan: Plan, *_: Any) -> SweepRun:
        seen.append(plan)
        return sweep_run(seed=plan.seed)

    monkeypatch.setattr(sweeps, "measure", measured)
    plan = replace(PLAN, time_limit=33.0)
    sweep(plan, Grid(ttl=(1.0,), pause=(0.0, 2.0), seeds=3), workers=1)
    assert [plan.seed for plan in seen] == [0, 1, 2, 0, 1, 2]
    assert [len(plan.faults) for plan in seen] == [0, 0, 0, 5, 5, 5]


def test_the_seed_decides_the_time_of_the_one_pause_per_interval() -> None:
    jobs = planned(replace(PLAN, time_limit=34.0), Grid(ttl=(1.0, 2.0), pause=(3.0,), seeds=2))
    moments = [[fault.at for fault in job.faults] for _, job in jobs]
    assert moments[0] == moments[2][: len(moments[0])]
    assert moments[0] != moments[1]
    for row in moments:
        assert len(row) == 5
        assert all(5.0 * number <= (at or 0) <= 5.0 * number + 2.0 for number, at in enumerate(row, 1))
    faults = {(fault.fault, fault.for_, fault.every, str(fault.params)) for _, job in jobs for fault in job.faults}
    assert faults == {("client-pause", 3.0, None, "{'target': 'one'}")}


def test_a_failed_run_is_unknown_and_an_interrupted_one_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(plan: Plan, **_: Any) -> Result:
        raise OSError("no space left")

    monkeypatch.setattr(sweeps, "run", broken)
    document = sweep(PLAN, GRID, workers=1)
    assert [point.unknown for point in document.points] == [2, 2]
    assert "no space left" in document.points[0].why_unknown
    assert exit_status(document) == 3
    monkeypatch.setattr(sweeps, "measure", lambda plan, *_: sweep_run() if plan.ttl == 0.5 else None)
    document = sweep(PLAN, GRID, workers=1)
    assert document.interrupted
    assert [point.runs for point in document.points] == [2, 0]
    assert exit_status(document) == 3


# Counts.


def test_unknown_runs_count_only_as_unknown() -> None:
    runs = [
        sweep_run(seed=0, state="violated", lost=10, first_s=4.0, overlaps=3),
        sweep_run(seed=1, state="violated", lost=30, first_s=8.0, overlaps=1, stalled=True),
        sweep_run(seed=2),
        sweep_run(seed=3, state="unknown", writes=900, lost=900, overlaps=9, acquires=900, why="not seen"),
    ]
    totals = plain(figures(POINT, 4, runs))
    assert {name: totals[name] for name in ("runs", "violated", "valid", "unknown", "stalled")} == {
        "runs": 4, "violated": 2, "valid": 1, "unknown": 1, "stalled": 1,
    }  # fmt: skip
    assert totals["rate"] == pytest.approx(2 / 3, abs=1e-6)
    assert (totals["writes"], totals["lost"], totals["overlaps"]) == (300, 40, 4)
    assert totals["lost_fraction"] == pytest.approx(40 / 300, abs=1e-6)
    assert (totals["lost_least"], totals["lost_most"]) == (0.0, 0.3)
    assert (totals["first_s"], totals["acquires_per_second"], totals["why_unknown"]) == (6.0, 10.0, "not seen")


def test_figures_are_none_without_a_conclusive_run() -> None:
    totals = plain(figures(POINT, 1, [sweep_run(state="unknown")]))
    names = ("rate", "rate_low", "rate_high", "lost_fraction", "lost_least", "first_s", "acquires_per_second")
    assert {totals[name] for name in names} == {None}


@pytest.mark.parametrize(
    ("hits", "runs", "low", "high"),
    [(0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (5, 10, 0.2366, 0.7634), (1, 5, 0.0362, 0.6245)],
)
def test_wilson_interval_matches_published_tables(hits: int, runs: int, low: float, high: float) -> None:
    """The tables are from Brown, Cai and DasGupta 2001 and from R's prop.test without correction."""
    assert list(wilson(hits, runs)) == pytest.approx([low, high], abs=1e-4)


def summary_of(**verdicts: Verdict) -> SweepRun:
    """Return the summary of a run in which a client held the lock for 2 s."""
    story = Story().acquire("c0", 1.0, 1.5, valid_for=2.0)
    found = {name.replace("_", "-"): verdict for name, verdict in verdicts.items()}
    result = Result(
        plan=PLAN,
        history=story.history(),
        verdicts=found,
        decision=decided(found),
        results=RunDocument(schema=2, valid=None, stats=RunStats(acquires_ok=1, seconds=9.0)),
        folder=None,
    )
    return summary(result)


def test_the_summary_of_a_run_has_its_state_and_times() -> None:
    origin = Story().history().origin
    overlap = Violation("overlap", "k0", "", origin + 5_000_000_000, origin + 9_000_000_000)
    lost = Violation("lost-update", "k0", "", origin + 6_500_000_000, origin + 7_000_000_000)
    late = Violation("late", "k0", "", origin, origin)
    fine, unsure = Verdict(True, ""), Verdict(None, "who knows")
    resource = Verdict(False, "", (lost,), {"updates": 10, "lost": 4})
    mutex = Verdict(False, "", (overlap,), {"violations": 6})
    stalled = Verdict(False, "", (late,))

    run = summary_of(mutual_exclusion=mutex, resource=resource, faults=unsure, liveness=fine)
    assert (run.state, run.why, run.invalid) == ("violated", "", ("mutual-exclusion", "resource"))
    assert (run.first_s, run.overlaps, run.writes, run.lost, run.lease_s) == (5.0, 6, 10, 4, 2.0)
    assert summary_of(mutual_exclusion=fine, resource=resource).first_s == 6.5
    run = summary_of(mutual_exclusion=fine, faults=unsure)
    assert (run.state, run.why) == ("unknown", "faults: who knows")
    run = summary_of(mutual_exclusion=fine, liveness=stalled, deadlock=unsure)
    assert (run.state, run.stalled, run.first_s) == ("valid", True, None)


@pytest.mark.parametrize(("ttl", "lease", "longer"), [(1.0, 2.0, 2.0), (2.0, 2.0, None), (2.0, None, None)])
def test_a_lease_longer_than_requested_is_reported(
    ttl: float, lease: float | None, longer: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeps, "measure", lambda plan, *_: sweep_run(lease_s=lease))
    document = sweep(PLAN, Grid(ttl=(ttl,), seeds=1, pause=(0.0,)), workers=1)
    assert document.points[0].longer_lease_s == longer
    assert exit_status(document) == 0


# Refused requests.


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"ttl": ()}, "ttl: expected a value"),
        ({"ttl": (0.0,)}, "ttl must be more than 0"),
        ({"hold": (1.0, 1.0)}, "hold: 1.0 is given more than once"),
        ({"pause": (-1.0,)}, "pause must not be negative"),
        ({"pause": (6.0,)}, "a pause of 6 s does not fit between two"),
        ({"fault": "kill"}, "client-pause or server-pause"),
        ({"seeds": 0}, "seeds must be at least 1"),
        ({"clusters": ("moon",)}, "cluster must be one of"),
        ({"target": "nobody", "every": 3.0, "pause": (2.0,)}, "nobody"),
        ({"every": 30.0}, "runs of 9 s are too short for a pause every 30 s"),
    ],
)
def test_an_invalid_grid_is_refused_before_any_run(changes: dict[str, Any], expected: str) -> None:
    asked: list[str] = []

    def folder() -> Path:
        asked.append("")
        return Path()

    with pytest.raises(UsageError, match=expected):
        sweep(PLAN, Grid(**{"ttl": (1.0,), **changes}), workers=1, runs_in=folder)
    assert not asked


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("redis-token", "--ttl", ""), "ttl: expected durations with commas"),
        (("redis-token", "--ttl", "1s,soon"), "ttl: expected a duration"),
        (("redis-tokn",), "did you mean redis-token"),
        (("redis-token", "--lock-option", "x"), "NAME=VALUE"),
        (("redis-token", "--lock-option", "x=1"), "redis-token has no lock_options, got 'x'"),
        (("redis-token", "--kind", "redis-single", "--topology", "single"), "give one of them"),
        (("redis-token", "--workers", "-1"), "workers must not be negative"),
    ],
)
def test_invalid_input_is_one_message(
    arguments: tuple[str, ...], expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(*arguments, "--out", str(tmp_path / "store")) == 2
    said = capsys.readouterr().err.strip()
    assert expected in said
    assert said.startswith("harness: ")
    assert "\n" not in said
    assert not (tmp_path / "store").exists()


# Output files.


@pytest.mark.slow
def test_a_sweep_writes_its_document_page_and_points(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    grid = ("--ttl", "500ms,3s", "--hold", "200ms", "--pause", "1500ms", "--every", "2s")
    page, points = tmp_path / "page.html", tmp_path / "points.csv"
    files = ("--out", str(tmp_path), "--html", str(page), "--csv", str(points))
    runs = ("--seeds", "1", "--clients", "3", "--time-limit", "20s", "--workers", "1", "--json")
    assert command("redis-token", *grid, *runs, *files) == 1
    printed = json.loads(capsys.readouterr().out)
    (folder,) = (tmp_path / "sweeps").iterdir()
    assert folder.name.endswith("Z-redis-token")
    assert json.loads((folder / "sweep.json").read_text()) == printed
    assert {path.name for path in folder.iterdir()} == {f"sweep.{end}" for end in ("json", "csv", "html", "svg", "png")}
    with points.open() as lines:
        rows = list(csv.DictReader(lines))
    assert [row["ttl"] for row in rows] == ["0.5", "3.0"]
    assert [row["violated"] for row in rows] == ["1", "0"]
    assert rows[1]["first_s"] == ""
    assert page.read_text() == (folder / "sweep.html").read_text()
    assert "<svg" in page.read_text()


@pytest.mark.slow
def test_the_same_sweep_gives_the_same_report(tmp_path: Path, document: SweepDocument) -> None:
    first, second = document.points
    first = replace(first, why_unknown="<never> struck")
    bare = figures((second.cluster, second.hold, second.pause, second.ttl), 2, [])
    points = tuple(
        replace(point, cluster=cluster, pause=pause)
        for cluster in ("sim", "docker")
        for pause in (0.0, 1.0)
        for point in (first, bare)
    )
    several = replace(document, points=points, started_at=UNSET, command=UNSET)
    texts = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        page = sweep_report.write(several, tmp_path / name)
        texts.append([page.read_text(), (tmp_path / name / "sweep.svg").read_text()])
    assert texts[0] == texts[1]
    assert "&lt;never&gt; struck" in texts[0][0]
    assert "<dt>Started</dt><dd>–</dd>" in texts[0][0]
    assert all(text in texts[0][1] for text in ("pause 1 s, docker", "no pause, sim", "hold 200 ms"))
