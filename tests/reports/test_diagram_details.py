"""Details of a report's diagrams: owners of equal values, several keys, drifting clocks, labels and names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Page

from harness.history import NEMESIS, SECOND, History, Op, OpType
from harness.plan import FaultSpec, Plan
from harness.reports import model, run_report, sequence, timeline, words
from harness.run.runs import run
from tests.reports.opened import Open, messages_shown, view

Shown = Callable[[Path], Page]


@pytest.fixture
def shown(browser: Browser) -> Iterator[Shown]:
    """Return a function that opens the report of a run when its messages are drawn."""
    pages = []

    def show(folder: Path) -> Page:
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        pages.append(page)
        page.goto((folder / "report.html").as_uri())
        messages_shown(page)
        return page

    yield show
    for page in pages:
        page.close()


def stored(store: Path, plan: Plan) -> Path:
    """Run a plan with a trace, write its report, and return its folder."""
    result = run(plan, store=store, trace="on")
    assert result.folder is not None
    assert result.valid is False
    run_report.write(result.folder)
    return result.folder


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose clients all write the same value, and one crashes while it holds the lock."""
    crash = FaultSpec("client-crash", on="acquire", nth=4)
    plan = Plan(lock="redis-setnx", time_limit=8.0, faults=(crash,))
    return stored(tmp_path_factory.mktemp("store"), plan)


@pytest.mark.slow
@pytest.mark.browser
def test_a_value_that_several_clients_write_belongs_to_the_last_of_them(shown: Shown, crashed: Path) -> None:
    page = shown(crashed)
    found = model.load(crashed)
    (dead,) = [op.node for op in found.history.nemesis("crash")]
    assert dead is not None
    others = {state.by for state in found.keys if state.owner is not None} - {dead}
    assert others, "another client wrote the value before"
    assert page.inner_text("#sequence-facts").split("Holders by servers\n")[1].split("\n")[0] == f"n1: {dead}"
    server = next(row for row in page.locator("#sequence-hosts tr").all_inner_texts() if row.startswith("n1"))
    assert f"k0 for {dead}" in server


def data_of(folder: Path) -> timeline.Data:
    found = model.load(folder)
    facts = timeline.find_facts(found)
    data = sequence.build(found, facts, timeline.build(found, facts)["offsets"])
    assert data is not None
    return data


def test_a_hold_that_ends_with_its_client_has_one_event_at_its_end(crashed: Path) -> None:
    found = model.load(crashed)
    (death,) = found.history.nemesis("crash")
    time = round((death.time - found.history.origin) / 1000)
    events = [event for event in data_of(crashed)["events"] if event[0] == time and event[1] == death.node]
    assert [kind for _, _, kind, *_ in events if kind in ("release", "died")] == ["died"]


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of twelve clients with three keys, in which the holder of one is paused past its lease."""
    pause = FaultSpec("client-pause", on="acquire", nth=2, for_=3.0)
    plan = Plan(lock="redis-token", clients=12, keys=3, seed=1, time_limit=5.0, hold=0.3, ttl=2.0, faults=(pause,))
    return stored(tmp_path_factory.mktemp("store"), plan)


@pytest.mark.slow
def test_messages_of_other_keys_are_not_decisive(crowded: Path) -> None:
    found, data = model.load(crowded), data_of(crowded)
    assert found.trace is not None
    overlap = next(group for group in data["groups"] if group["kind"] == "overlap")
    decisive = [found.trace.messages[i] for i in np.cumsum(overlap["decisive"])]
    keys = {one.request.split()[1 if one.name == "SET" else 3] for one in decisive}
    assert keys == {overlap["key"]}
    assert len(decisive) < 12


@pytest.mark.slow
@pytest.mark.browser
def test_the_diagram_of_a_violation_shows_its_own_key_only(shown: Shown, crowded: Path) -> None:
    page = shown(crowded)
    key = next(group["key"] for group in data_of(crowded)["groups"] if group["kind"] == "overlap")
    bars = "[...document.querySelectorAll('#sequence-canvas rect.held title, #sequence-canvas rect.kept title')]"
    texts: list[str] = page.evaluate(f"{bars}.map((one) => one.textContent)")
    assert len(texts) > 3
    assert all(key in text for text in texts)
    gone = page.locator("#sequence-canvas .event.gone").all_text_contents()
    assert gone
    assert all(f"'s {key} on " in text for text in gone)
    page.select_option("#sequence-mode", "all")
    texts = page.evaluate(f"{bars}.map((one) => one.textContent)")
    keys = {word for text in texts if "for" in text for word in text.split() if word in ("k0", "k1", "k2")}
    assert len(keys) > 1
    places = "new Set([...document.querySelectorAll('#sequence-canvas rect.kept')].map((one) => one.getAttribute('x')))"
    assert page.evaluate(f"{places}.size") == len(keys), "the bars of several keys stand side by side"


DRAWN = """() => {
  const drawn = [], fill = CanvasRenderingContext2D.prototype.fillText;
  CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {
    drawn.push(text);
    fill.call(this, text, ...rest);
  };
  draw(shownRun);
  CanvasRenderingContext2D.prototype.fillText = fill;
  return drawn;
}"""


@pytest.mark.slow
@pytest.mark.browser
def test_a_violation_without_a_length_has_no_length_in_its_label(opened: Open) -> None:
    page = opened("violation")
    page.evaluate(
        "Object.assign(shownRun.run.violations[0], { kind: 'no-order', until: shownRun.run.violations[0].from })"
    )
    page.evaluate("showViolation(shownRun, 0)")
    drawn = page.evaluate(DRAWN)
    assert "no-order" in drawn
    assert not any(text.endswith(" 0 µs") for text in drawn)
    page.evaluate("showViolation(shownRun, 1)")
    assert any(text.startswith("overlap ") and text.endswith("ms") for text in page.evaluate(DRAWN))


@pytest.mark.slow
@pytest.mark.browser
def test_the_axis_has_no_time_before_the_run(opened: Open) -> None:
    page = opened("violation")
    page.evaluate("setView(shownRun, -600000, 3000000)")
    assert view(page)[0] < 0
    drawn = page.evaluate(DRAWN)
    assert "0.0 s" in drawn
    assert not any(text.startswith("-") for text in drawn)


def drifting() -> History:
    """Return a history in which n1's clock runs three times as fast from 1 s to 2 s."""
    named = {"id": 0, "fault": "clock-drift", "hosts": ["n1"]}
    observed = {"clock_ns": {"n1": 400_000_000}, "rate": 2.0}
    entries: list[tuple[float, OpType, str, Any]] = [
        (0, "info", "start", {}), (1, "invoke", "inject", named), (1.2, "ok", "inject", named | {"observed": observed}),
        (1.5, "info", "clocks", {"n1": SECOND}), (2, "ok", "heal", named | {"observed": {"clock_ns": {"n1": 0}}}),
    ]  # fmt: skip
    return History(
        Op(index=index, time=round(at * SECOND), wall=0, process=NEMESIS, type=kind, f=f, value=value)
        for index, (at, kind, f, value) in enumerate(entries)
    )


def test_a_drifting_clock_is_read_between_its_readings(crashed: Path) -> None:
    found = model.load(crashed)
    builder = timeline._Builder(found, 0, 3 * SECOND)
    steps = timeline.clock_offsets(builder, drifting())
    assert steps == {"n1": [[1_000_000, 0, 2.0], [2_000_000, 0]]}
    assert timeline.offset_before(steps["n1"], 1) == 2_000_000


@pytest.mark.slow
@pytest.mark.browser
def test_the_pages_read_a_drifting_clock_between_its_readings(opened: Open) -> None:
    page = opened("violation")
    page.evaluate("shownRun.run.offsets = { n1: [[1e6, 0, 2], [2e6, 0]] }; showRun(shownRun.run)")
    read = "[0.5, 1, 1.25, 1.999999, 2, 3].map((s) => offsetAt(shownRun.run.offsets.n1, s * 1e6))"
    assert page.evaluate(read) == [0, 0, 500_000, 1_999_998, 0, 0]
    assert page.evaluate("shownRun.largestOffset") == 1_999_998
    page.evaluate("setView(shownRun, 0, 3e6)")
    assert "correct, then 200 % too fast" in page.evaluate(DRAWN)


NAMES = """() => {
  const rows = document.querySelector("#sequence-canvas .rows"), number = (one, name) => Number(one.getAttribute(name));
  const long = [...rows.querySelectorAll("rect.kept")].find((one) => number(one, "height") > 600);
  if (!long) return -1;
  const x = number(long, "x") + number(long, "width") / 2;
  const from = number(long, "y"), end = from + number(long, "height");
  const own = (one) => number(one, "x") === x && number(one, "y") >= from && number(one, "y") <= end;
  return [...rows.querySelectorAll("text.who")].filter(own).length;
}"""
"""The number of names on the first long bar that is drawn, -1 without one."""


@pytest.mark.slow
@pytest.mark.browser
def test_a_long_bar_of_a_key_has_its_clients_name_in_every_view(traced_page: Page) -> None:
    page = traced_page
    page.select_option("#sequence-mode", "all")
    steps = page.evaluate("document.getElementById('sequence-canvas').scrollHeight / 400")
    for number in range(int(steps)):
        page.evaluate(f"document.getElementById('sequence-canvas').scrollTop = {400 * number}")
        page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        if (names := page.evaluate(NAMES)) >= 0:
            break
    assert names >= 2


@pytest.mark.parametrize(
    ("reasons", "left"),
    [
        (["deadlock: the run had one client", "handover: no key"], []),
        (["deadlock: the run had one client", "faults: none was seen"], ["faults: none was seen"]),
        (["no colon"], ["no colon"]),
    ],
)
def test_a_reason_that_the_summary_has_is_not_said_again(reasons: list[str], left: list[str]) -> None:
    summary = "Nothing was proved: deadlock and liveness: the run had one client; handover: no key."
    assert words.unsaid(reasons, summary) == left
