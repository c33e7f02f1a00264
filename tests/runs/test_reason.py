"""The reason for a verdict is one sentence, and the same wherever a user reads it."""

from __future__ import annotations

import html
import json
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from harness.cli.run import app
from harness.documents.run import load_run
from harness.plan import Expect, load
from harness.reports import junit
from harness.run.store import REPORT, RESULTS
from harness.run.verdicts.judging import rejudge
from harness.scenarios.catalogue import Scenario
from harness.serve.index import Index
from harness.studies.compare.cells import findings_of
from harness.studies.nightly import nightly

REASON = "Safe with fencing: two clients held the lock at the same time"
COMMAND = ["redis-fenced", "--nemesis", "client-pause", "--fencing", "on", "--time-limit", "12s", "--json"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run redis-fenced with clients that are paused for longer than their lease, and return the run's folder."""
    store = tmp_path_factory.mktemp("store")
    result = CliRunner().invoke(app, [*COMMAND, "--out", str(store)])
    assert result.exit_code == 0, result.output
    (run,) = (store / "redis-fenced").iterdir()
    assert json.loads(result.stdout)["runs"][0]["results"]["reason"] == load_run(run / RESULTS).reason
    return run


def test_the_reason_says_why_two_holders_did_no_harm(folder: Path) -> None:
    results = load_run(folder / RESULTS)
    assert (results.valid, results.verdict) == (True, "safe with fencing")
    assert results.reason.startswith(REASON)
    assert results.reason.count(".") == 1, "one sentence"
    assert results.checkers["mutual-exclusion"].state == "known-limit"
    assert results.checkers["mutual-exclusion"].required is False
    assert results.checkers["mutual-exclusion"].limits == ("late-client",)


def test_the_report_and_the_list_of_runs_give_the_same_reason(folder: Path) -> None:
    reason = load_run(folder / RESULTS).reason
    page = html.unescape((folder / REPORT).read_text())
    assert reason in page
    assert "Safe with fencing in this run" in page
    (row,) = Index(folder.parent.parent).runs()
    assert (row.state, row.sentence) == ("valid", reason)


def test_a_comparison_gives_the_same_reason(folder: Path) -> None:
    found = findings_of(rejudge(folder))
    assert (found.state, found.why) == ("fenced", load_run(folder / RESULTS).reason)


@pytest.mark.slow
def test_a_nightly_run_gives_the_same_reason_in_its_junit_file(folder: Path, tmp_path: Path) -> None:
    plan = load(folder / "plan.toml")
    path = tmp_path / "fenced-pause.safe.toml"
    expect = Expect(safe=True, invalid=("mutual-exclusion",))
    scenario = Scenario("fenced-pause.safe", path, msgspec.structs.replace(plan, expect=expect))
    document = nightly("full", "sim", store=tmp_path, scenarios=[scenario], workers=1)
    outcome = next(outcome for outcome in document.outcomes if outcome.seed == plan.seed)
    assert (outcome.state, outcome.reason) == ("as-expected", load_run(folder / RESULTS).reason)
    assert outcome.states["mutual-exclusion"] == "known-limit"
    assert f"verdict: {outcome.reason}" in html.unescape(junit.write(document, tmp_path / "junit.xml").read_text())
