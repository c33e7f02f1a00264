"""No page that we write has a serious accessibility fault, in any look, and the check detects planted faults."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace
from playwright.sync_api import Browser

from harness.plan import Plan
from harness.reports import linearization, nightly_report, sweep_report, trends_report
from harness.studies.sweep import Grid, sweep
from harness.studies.trends import trends
from tests.reports import axe, nights
from tests.reports.test_linearization import double_hold

pytestmark = pytest.mark.browser
MUTATIONS = {
    "color-contrast": ("</main>", '<p style="color: #aaa; background: #fff">hardly to be read</p></main>'),
    "button-name": ("</main>", "<button></button></main>"),
    "label": ("</main>", '<input type="search"></main>'),
    "html-has-lang": ('<html lang="en">', "<html>"),
}


def nightly(folder: Path) -> Path:
    return nightly_report.write(nights.read(nights.explored()), folder)


def trend(folder: Path) -> Path:
    for day in (20, 21):
        nights.add(folder / "results.db", {**nights.explored(), "started_at": f"2026-11-{day}T02:00:00Z"})
    return trends_report.write(trends(folder / "results.db", last=14), folder / "trends.html")


def swept(folder: Path) -> Path:
    grid = Grid(ttl=(0.5, 3.0), hold=(0.2,), pause=(0.0, 1.5), every=2.0, seeds=1)
    found = sweep(Plan(lock="redis-token", clients=3, time_limit=6.0), grid, workers=1)
    return sweep_report.write(replace(found, started_at="2026-11-21T02:00:00Z", command="harness sweep"), folder)


def linearization_page(folder: Path) -> Path:
    return linearization.write(double_hold(), folder / "linearization.html")


@pytest.mark.slow
def test_the_report_of_a_violation_has_no_serious_fault(browser: Browser, reported: Callable[[str], Path]) -> None:
    page = browser.new_page()
    page.goto(reported("violation").as_uri())
    assert axe.serious(page) == []
    page.close()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["violation", "valid", "unknown", "interrupted"])
def test_every_kind_of_report_has_no_serious_fault_in_any_look(
    browser: Browser, reported: Callable[[str], Path], kind: str
) -> None:
    assert axe.in_every_look(browser, reported(kind).as_uri()) == []


@pytest.mark.slow
@pytest.mark.parametrize("written", [nightly, trend, swept, linearization_page])
def test_every_other_page_has_no_serious_fault_in_any_look(
    browser: Browser, tmp_path: Path, written: Callable[[Path], Path]
) -> None:
    assert axe.in_every_look(browser, written(tmp_path).as_uri()) == []


@pytest.mark.slow
def test_planted_faults_are_detected(browser: Browser, reported: Callable[[str], Path], tmp_path: Path) -> None:
    text = reported("valid").read_text()
    for old, new in MUTATIONS.values():
        assert text.count(old) == 1
        text = text.replace(old, new)
    (tmp_path / "mutant.html").write_text(text)
    found = axe.in_every_look(browser, (tmp_path / "mutant.html").as_uri())
    for rule in MUTATIONS:
        assert sum(f": {rule} (" in line for line in found) == len(axe.LOOKS), found
