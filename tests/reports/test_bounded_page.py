"""The report of a long run has as many elements as that of a short one, and a step changes as few of them.

These are counts, so they are the same on a slow machine; ``benchmarks.viewer`` measures times.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Browser, Page

from harness.reports import run_report
from tests.reports import sample
from tests.reports.opened import CANVAS, Reported, messages_shown, view

pytestmark = [pytest.mark.browser, pytest.mark.slow]
FEW: Final = 2_000
"""Operations for which the sample is made; about half of them are in it."""
MOST_ELEMENTS: Final = 3_500
MOST_CHANGED: Final = 1_500
"""Elements that one step adds, removes or alters, if it draws the rows again."""
FACTOR: Final = 1.25
ELEMENTS = "document.getElementsByTagName('*').length"
FRAMES = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
WATCH = """() => {
  const size = (node) => (node.nodeType === Node.ELEMENT_NODE ? 1 + node.getElementsByTagName("*").length : 1);
  const sum = (nodes) => [...nodes].reduce((total, node) => total + size(node), 0);
  const records = (record) => sum(record.addedNodes) + sum(record.removedNodes) + (record.type === "childList" ? 0 : 1);
  const observer = new MutationObserver(() => {});
  observer.observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
  window.changedBy = (key) => {
    observer.takeRecords();
    const canvas = document.getElementById("sequence-canvas");
    canvas.dispatchEvent(new KeyboardEvent("keydown", { key, cancelable: true }));
    return observer.takeRecords().reduce((total, record) => total + records(record), 0);
  };
}"""
CHANGES = """(count) => {
  const most = (key) => Math.max(...Array.from({ length: count }, () => changedBy(key)));
  return [most("ArrowDown"), most("ArrowUp"), changedBy("End"), changedBy("Home"), changedBy("n"), changedBy("p")];
}"""
"""The most elements that a step changes, the changes of long steps, and of steps to other violations."""


@dataclass(frozen=True)
class Opened:
    """A report in a browser, and how many calls its run has."""

    page: Page
    calls: int


def open_report(browser: Browser, path: Path) -> Opened:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(path.as_uri())
    messages_shown(page)
    view(page)
    return Opened(page, page.evaluate("shownRun.run.calls.start.length"))


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run_report.write(sample.write(tmp_path_factory.mktemp("few"), "large", FEW))


def scroll(page: Page, share: float) -> None:
    page.evaluate(
        f"(() => {{ const c = document.getElementById('sequence-canvas'); c.scrollTop = {share} * c.scrollHeight; }})()"
    )


def search(page: Page) -> None:
    page.fill("#timeline-find input", "SET k0")
    page.press("#timeline-find input", "Enter")


def press(page: Page, selector: str, *keys: str) -> None:
    page.focus(selector)
    for key in keys:
        page.keyboard.press(key)


ACTIONS: Final[dict[str, Callable[[Page], object]]] = {
    "first paint": lambda page: None,
    "steps": lambda page: press(page, "#sequence-canvas", *["ArrowDown"] * 40),
    "the next violation": lambda page: page.click("[data-do=next]"),
    "all messages": lambda page: page.select_option("#sequence-mode", "all"),
    "steps among all": lambda page: press(page, "#sequence-canvas", "End", "ArrowUp", "Home"),
    "a scroll": lambda page: scroll(page, 0.5),
    "a scroll to the end": lambda page: scroll(page, 1),
    "the whole run": lambda page: page.click("[data-do=whole]"),
    "zooms": lambda page: press(page, CANVAS, *"+" * 12, *"-" * 4),
    "a search": search,
}


def counts(page: Page) -> dict[str, int]:
    """Return the number of elements after each action."""
    found = {}
    for name, act in ACTIONS.items():
        act(page)
        page.evaluate(FRAMES)
        found[name] = int(page.evaluate(ELEMENTS))
    return found


def test_the_number_of_elements_does_not_grow_with_the_run(browser: Browser, few: Path, reported: Reported) -> None:
    short, long = open_report(browser, few), open_report(browser, reported("large"))
    assert 500 < short.calls < 2_000
    assert long.calls > 95_000
    before, after = counts(short.page), counts(long.page)
    print(f"\n{short.calls:,} calls: {before}\n{long.calls:,} calls: {after}")
    for name in ACTIONS:
        assert after[name] < MOST_ELEMENTS, name
        assert after[name] < FACTOR * before[name], name
    short.page.close()
    long.page.close()


def test_a_step_changes_as_few_elements_of_a_long_run_as_of_a_short_one(
    browser: Browser, few: Path, reported: Reported
) -> None:
    found = {}
    for path in (few, reported("large")):
        opened = open_report(browser, path)
        opened.page.evaluate(WATCH)
        for mode in ("decisive", "all"):
            opened.page.select_option("#sequence-mode", mode)
            found[opened.calls, mode] = opened.page.evaluate(CHANGES, 80)
        opened.page.close()
    print(f"\n{found}")
    (short, _), *_, (long, _) = found
    assert long > 50 * short
    for (calls, mode), changed in found.items():
        assert 5 < max(changed) < MOST_CHANGED, (calls, mode)
        assert max(changed) < FACTOR * max(*found[short, mode], *found[short, "all"]), (calls, mode)
