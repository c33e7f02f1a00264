"""The diagrams of the page "Ten failures in pictures" name the cause of each failure, in the order of time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
import pytest

from harness.reports import model, run_report, sequence, timeline
from harness.run.runs import run
from harness.scenarios import catalogue

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROOT: Final = Path(__file__).parents[2]
CAUSES: Final = {
    "ttl-pause-write": [
        "c0 holds k0", "c0 is paused", "c0's lease ends", "c0's k0 on n1 expires", "c1 holds k0", "Violation",
    ],
    "rl-clock-jump": ["c0 holds k0", "n3's wall clock jumps", "c0's k0 on n3 is gone", "c1 holds k0", "Violation"],
    "redis-async-failover": [
        "n1 is cut off from n2", "c0 holds k0", "the primary n1 dies", "c2 holds k0", "Violation",
    ],
    "redis-restart-empty": ["c2 holds k0", "n1 is killed", "n1 answers again, without k0", "c1 holds k0", "Violation"],
    "lost-reply-acquire": ["an answer from n1 to c0 is lost", "Violation", "SETNX k0 1 (reply lost)"],
    "del-foreign": ["c0 holds k0", "c0's k0 on n1 expires", "c1 holds k0", "Violation", "c0 removes c1's k0 on n1"],
    "redis-split-brain": ["c0 and n1 are cut off", "c1 holds k0", "c0 holds k0", "Violation"],
    "zk-pause": ["c0 holds k0", "c0 is paused", "c0's k0 on n1 expires", "c1 holds k0", "Violation"],
    "fu-conn-lost": [
        "c0 holds k0", "connections of c0 are reset", "c0's k0 on n1 is gone, its hold", "c2 holds k0", "Violation",
    ],
    "mc-evict": ["c2 holds k0", "n1 runs out of memory", "c2's k0 on n1 is gone", "c0 holds k0", "Violation"],
}  # fmt: skip
"""Texts that the diagram of each scenario shows, from top to bottom."""
LOST: Final = {"SETNX k0 1 (reply lost)": "(lost)"}
"""Texts of rows that the page words otherwise."""


def lines(data: timeline.Data, view: model.RunView) -> list[str]:
    """Return the texts of the first violation's diagram, or of the first overlap's, in the order of time."""
    groups: list[dict[str, Any]] = data["groups"]
    group = next((one for one in groups if one["kind"] == "overlap"), groups[0])
    texts = [
        (time, text)
        for time, _, kind, text, part_of, _ in data["events"]
        if time <= group["last"] and (kind != "violation" or part_of == group["number"])
    ]
    assert view.trace is not None
    for message in (view.trace.messages[i] for i in np.cumsum(group["decisive"])):
        if message.sent is not None and message.executed is not None and message.replied is None:
            texts.append(((message.executed - view.history.origin) // 1000, f"{message.request} (reply lost)"))
    return [text for _, text in sorted(texts, key=lambda one: one[0])]


def stored_run(name: str, store: Path) -> Path:
    """Run a scenario in the simulator, and return the folder of the run."""
    result = run(msgspec.structs.replace(catalogue.find(name).plan, cluster="sim"), store=store, trace="on")
    assert result.folder is not None
    return result.folder


def assert_in_order(wanted: list[str], shown: list[str]) -> None:
    """Assert that each text is in a line at or after that of the text before it."""
    at = 0
    for text in wanted:
        at = next((i for i in range(at, len(shown)) if text in shown[i]), -1)
        assert at >= 0, f"{text!r} does not follow in {shown}"


@pytest.mark.few(1)
@pytest.mark.parametrize("name", CAUSES)
def test_the_diagram_names_the_cause(name: str, tmp_path: Path) -> None:
    view = model.load(stored_run(name, tmp_path))
    facts = timeline.find_facts(view)
    data = sequence.build(view, facts, timeline.build(view, facts)["offsets"])
    assert data is not None
    assert_in_order(CAUSES[name], lines(data, view))


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize("name", sorted(CAUSES))
def test_the_rows_of_the_page_name_the_cause(browser: Browser, name: str, tmp_path: Path) -> None:
    """The rows are those that the page copies as text, which it also draws."""
    from tests.reports.opened import messages_shown, wait_until  # here, since the other tests need no browser

    page = browser.new_page()
    page.goto(run_report.write(stored_run(name, tmp_path)).as_uri())
    messages_shown(page)
    page.evaluate("navigator.clipboard.writeText = (text) => { window.copied = text; return Promise.resolve(); }")
    page.click("[data-step=copy]")
    wait_until(page, "window.copied !== undefined")
    copied = page.evaluate("window.copied").splitlines()
    page.close()
    assert_in_order([LOST.get(text, text) for text in CAUSES[name]], copied[1:])


def test_the_page_has_a_picture_of_each() -> None:
    page = (ROOT / "docs" / "failures.md").read_text(encoding="utf-8")
    for name in CAUSES:
        assert f"`{name}`: " in page
        assert f"](failures/{name}.png)" in page
        assert (ROOT / "docs" / "failures" / f"{name}.png").is_file()
