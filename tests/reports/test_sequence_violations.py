"""The steps from violation to violation among the messages of a report, and what the report says that it leaves out."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from playwright.sync_api import Browser, Page

from harness.documents.messages import TRACE, load_messages, pack_messages
from harness.reports import model, run_report, sequence_groups
from harness.trace.reading import load_trace
from tests.reports.opened import messages_shown

COUNT = 120
Json = dict[str, Any]


def with_violations(traced: Path, folder: Path, count: int) -> Path:
    """Return a copy of a traced run in which its violations are listed again and again, ``count`` in all."""
    shutil.copytree(traced, folder)
    results = json.loads((folder / "results.json").read_text())
    checker = results["checkers"]["mutual-exclusion"]
    found = checker["evidence"]
    checker["evidence"] = [shifted(found[number % len(found)], number) for number in range(count)]
    results["checkers"] = {"mutual-exclusion": checker}
    (folder / "results.json").write_text(json.dumps(results))
    return folder


def shifted(evidence: Json, number: int) -> Json:
    """Return a violation that begins ``number`` ms later."""
    later = number * 1_000_000
    return evidence | {"from_ns": evidence["from_ns"] + later, "until_ns": evidence["until_ns"] + later}


@pytest.fixture(scope="module")
def many(traced: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = with_violations(traced, tmp_path_factory.mktemp("many") / "run", COUNT)
    run_report.write(folder)
    return folder


@pytest.fixture
def page(browser: Browser, many: Path) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto((many / "report.html").as_uri())
    messages_shown(page)
    yield page
    page.close()
    assert complaints == []


def chosen(page: Page) -> int:
    """Return the number of the violation that the list, the diagram and the timeline all show."""
    listed = page.evaluate("document.getElementById('sequence-groups').selectedOptions[0].text")
    number = int(re.match(r"Violation (\d+): ", listed)[1])  # type: ignore[index]
    assert f": Violation {number}: " in page.inner_text("#sequence-title")
    assert page.evaluate("shownRun.run.violations[shownRun.chosen].number") == number
    return number


@pytest.mark.slow
@pytest.mark.browser
def test_the_reader_steps_through_every_violation(page: Page) -> None:
    seen = [chosen(page)]
    for _ in range(COUNT):
        page.evaluate("document.querySelector('[data-group=next]').click()")
        seen.append(chosen(page))
        assert page.inner_text("#sequence-place") == f"{seen[-1]} of {COUNT}"
        assert page.locator("#sequence-groups option").count() <= 43
    assert seen == [*range(1, COUNT + 1), 1]
    page.focus("#sequence-canvas")
    for key, number in (("p", COUNT), ("p", COUNT - 1), ("n", COUNT)):
        page.keyboard.press(key)
        assert chosen(page) == number


@pytest.mark.slow
@pytest.mark.browser
def test_the_list_of_violations_leads_to_those_that_it_leaves_out(page: Page) -> None:
    for wanted in ("… 99 later", "… 78 later", "… 57 later"):
        page.select_option("#sequence-groups", label=wanted)
    assert chosen(page) == 64
    page.select_option("#sequence-groups", label="… 43 earlier")
    assert chosen(page) == 43


@pytest.mark.slow
@pytest.mark.browser
def test_a_violation_without_kept_messages_says_so(browser: Browser, traced: Path, tmp_path: Path) -> None:
    """The messages before the last violation are kept, as if there were too many."""
    folder = with_violations(traced, tmp_path / "run", 2)
    change_last(folder)
    last = model.load(folder).evidence[-1].start
    trace = load_trace(folder)
    assert trace is not None
    assert last is not None
    kept = tuple(one for one in trace.messages if (one.replied or 0) < last - 1_000_000_000)
    left = len(trace.messages) - len(kept) + 7
    (folder / TRACE).write_bytes(pack_messages(msgspec.structs.replace(trace, messages=kept, dropped=left)))
    text = run_report.write(folder).read_text(encoding="utf-8")
    assert f"Around violations these are the first {len(kept):,}; {left:,} later ones are left out." in text
    page = browser.new_page()
    page.goto((folder / "report.html").as_uri())
    messages_shown(page)
    assert page.inner_text("#sequence-gap") == ""
    page.focus("#sequence-canvas")
    page.keyboard.press("n")
    assert page.inner_text("#sequence-gap") == "No message around this violation is in this page; its events are."
    assert not page.locator("button[data-messages='2']").is_visible()
    assert page.locator("button[data-messages='1']").is_visible()
    page.close()


def change_last(folder: Path) -> None:
    """Move the last violation to the end of the run, and leave out its holds."""
    results = json.loads((folder / "results.json").read_text())
    end = model.load(folder).history.time[-1]
    results["checkers"]["mutual-exclusion"]["evidence"][-1] |= {"from_ns": end, "until_ns": end, "involved": []}
    (folder / "results.json").write_text(json.dumps(results))


@pytest.mark.slow
def test_a_page_has_a_bounded_number_of_violations_and_says_how_many_it_leaves_out(
    traced: Path, tmp_path: Path
) -> None:
    sizes = []
    for count in (20, 1_000, 2_000):
        folder = with_violations(traced, tmp_path / str(count), count)
        view = model.load(folder)
        text = run_report.render(view)
        data = text.split('id="sequence-data">')[1].split("</script>")[0]
        sizes.append(len(data))
        said = f"The first {sequence_groups.MOST_GROUPS} can be shown with their messages."
        assert (said in text) == (count > sequence_groups.MOST_GROUPS)
    assert sizes[1] < sizes[0] + 200_000
    assert abs(sizes[2] - sizes[1]) < 2_000


@pytest.mark.slow
def test_a_page_with_some_messages_names_the_commands_that_add_the_others(traced: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(traced, folder)
    trace = load_trace(folder)
    assert trace is not None
    results = json.loads((folder / "results.json").read_text())
    results["replay"] = "harness replay 'my store/run' --trust"
    results["checkers"]["mutual-exclusion"]["stats"]["violations"] = 38
    (folder / "results.json").write_text(json.dumps(results))
    view = model.load(folder)
    text = run_report.render(view)
    assert f"This page has {len(trace.messages):,} of {trace.total:,} messages, those around violations." in text
    run = "&#39;my store/run&#39;"
    assert f"<code>harness trace {run} --all</code>, then <code>harness report {run}</code>" in text
    listed = len(view.evidence)
    assert f"This page has {listed} of {view.found} violations, those that results.json lists." in text
    assert view.found > listed
    whole = load_trace(folder, whole=True)
    assert whole is not None
    (folder / TRACE).write_bytes(pack_messages(whole))
    assert load_messages(folder) == whole
    assert "<code>harness trace" not in run_report.render(model.load(folder))
