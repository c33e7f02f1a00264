"""Links from the page of a stored run to the moments of its violations, among the messages of its report."""

from __future__ import annotations

import html
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from harness.plan import FaultSpec, Plan
from harness.reports import model, run_report
from harness.run.runs import run
from harness.serve.app import application
from tests.reports import axe
from tests.reports.opened import messages_shown, wait_until
from tests.serve.asking import request, serve_store

LINK = re.compile(r'<li><a href="([^"]+)#t=([0-9.]+)&amp;violation=([0-9]+)">')


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with one run, in which a paused client and another one hold the lock."""
    store = tmp_path_factory.mktemp("store")
    fault = FaultSpec("client-pause", on="acquire", nth=2, for_=3.0)
    plan = Plan(lock="redis-token", clients=3, seed=1, time_limit=6.0, ttl=2.0, hold=0.05, faults=(fault,))
    result = run(plan, store=store)
    assert result.folder is not None
    run_report.write(result.folder)
    return store


def folder_of(store: Path) -> Path:
    return next(path for path in (store / "redis-token").iterdir() if not path.is_symlink())


def address(store: Path) -> str:
    return f"/runs/redis-token/{folder_of(store).name}/"


def test_the_page_of_a_run_links_to_its_violations(store: Path) -> None:
    page = request(application(store), address(store)).text
    results = json.loads((folder_of(store) / "results.json").read_text())
    evidence = [one for checker in results["checkers"].values() for one in checker.get("evidence", ())]
    found = LINK.findall(page)
    report = f"/store/redis-token/{folder_of(store).name}/report.html"
    assert found
    assert all(link == report for link, _, _ in found)
    assert len(found) == sum(one["from_ns"] is not None for one in evidence)
    assert [float(at) for _, at, _ in found] == sorted(float(at) for _, at, _ in found)
    numbered = model.load(folder_of(store)).evidence
    assert [int(number) for _, _, number in found] == [one.number for one in numbered]
    sentences = re.findall(r"</a> (.+)</li>", page.split('<ol class="moments">')[1].split("</ol>")[0])
    assert [html.unescape(one) for one in sentences] == [one.sentence for one in numbered]
    assert f'href="{report}#messages"' in page


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "trace.log.gz").unlink(),
        lambda folder: (folder / "report.html").unlink(),
        lambda folder: (folder / "history.jsonl").write_text("no JSON\n"),
        lambda folder: change_evidence(folder, from_ns=10**400),
        lambda folder: change_evidence(folder, from_ns="soon"),
    ],
    ids=["no trace", "no report", "broken history", "huge time", "wrong type"],
)
def test_a_run_without_readable_moments_has_no_links_to_them(store: Path, tmp_path: Path, change: Any) -> None:
    shutil.copytree(store / "redis-token", tmp_path / "redis-token", symlinks=True)
    change(folder_of(tmp_path))
    answer = request(application(tmp_path), address(tmp_path))
    assert answer.status == 200
    assert LINK.findall(answer.text) == []


def change_evidence(folder: Path, **changed: Any) -> None:
    path = folder / "results.json"
    results = json.loads(path.read_text())
    for checker in results["checkers"].values():
        for one in checker.get("evidence", ()):
            one.update(changed)
    path.write_text(json.dumps(results))


def test_a_sentence_of_a_violation_is_escaped(store: Path, tmp_path: Path) -> None:
    shutil.copytree(store / "redis-token", tmp_path / "redis-token", symlinks=True)
    change_evidence(folder_of(tmp_path), sentence="<script>alert(1)</script>")
    page = request(application(tmp_path), address(tmp_path)).text
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page


@pytest.mark.slow
@pytest.mark.browser
def test_a_moment_opens_the_viewer_in_the_served_report(store: Path, browser: Browser) -> None:
    with serve_store(store) as base:
        page = browser.new_page()
        complaints: list[str] = []
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(f"{base}{address(store)}")
        assert axe.faults(page) == []
        link = page.locator("ol.moments a").last
        at = float(link.inner_text().removesuffix(" s"))
        number = page.locator("ol.moments a").count()
        link.click()
        page.wait_for_url("**/report.html#t=*")
        messages_shown(page)
        time = re.search(r"Time\n([0-9.]+) s", page.inner_text("#sequence-facts"))
        assert time is not None
        assert float(time[1]) == pytest.approx(at, abs=0.001)
        title = page.inner_text("#sequence-title")
        assert f": Violation {number}: " in title
        page.focus("#sequence-canvas")
        page.keyboard.press("ArrowDown")
        wait_until(page, f"document.getElementById('sequence-title').textContent !== {title!r}")
        assert complaints == []
        page.close()
