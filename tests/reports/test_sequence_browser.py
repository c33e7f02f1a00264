"""The message viewer in a browser: steps by keys and mouse, addresses of steps, and what each step says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Page

from harness.documents.messages import TracedMessage
from harness.reports import model, run_report, sequence, sequence_groups, timeline
from tests.reports import axe
from tests.reports.opened import Open, messages_shown, wait_until
from tests.reports.opened import view as shown_times

pytestmark = pytest.mark.browser
WIDTHS = (1280, 800, 390)
MOST_DRAWN = 90
"""Rows that the box shows, and those drawn around it."""


@pytest.fixture(scope="module")
def folder(traced: Path) -> Path:
    return traced


@pytest.fixture(scope="module")
def view(folder: Path) -> model.RunView:
    return model.load(folder)


@pytest.fixture(scope="module")
def data(view: model.RunView) -> timeline.Data:
    facts = timeline.find_facts(view)
    found = sequence.build(view, facts, timeline.build(view, facts)["offsets"])
    assert found is not None
    return found


@pytest.fixture
def page(traced_page: Page) -> Page:
    return traced_page


def step_of(page: Page) -> tuple[int, int]:
    """Return the number of the chosen step, and the number of steps."""
    words = page.inner_text("#sequence-title").replace(":", "").split()
    return int(words[1]), int(words[3])


def messages_of(view: model.RunView) -> tuple[TracedMessage, ...]:
    assert view.trace is not None
    return view.trace.messages


def decisive(view: model.RunView, data: timeline.Data) -> list[TracedMessage]:
    group = next(one for one in data["groups"] if one["kind"] == "overlap")
    return [messages_of(view)[i] for i in np.cumsum(group["decisive"])]


@pytest.mark.slow
def test_keys_and_mouse_step_through_the_messages(page: Page) -> None:
    page.focus("#sequence-canvas")
    first, _ = step_of(page)
    for key, step in (("ArrowDown", first + 1), ("ArrowRight", first + 2), ("ArrowUp", first + 1), ("Home", 1)):
        page.keyboard.press(key)
        assert step_of(page)[0] == step
    page.keyboard.press("ArrowUp")
    assert step_of(page)[0] == 1
    page.click("[data-step=next]")
    assert step_of(page)[0] == 2
    page.click("[data-row='4'] text >> nth=0")
    assert step_of(page)[0] == 5
    assert page.locator(".chosen").get_attribute("data-row") == "4"


@pytest.mark.slow
def test_a_step_shows_the_source_the_keys_and_the_holders(page: Page, view: model.RunView, data: timeline.Data) -> None:
    message = next(one for one in decisive(view, data) if (one.name, one.reply) == ("SET", "+OK"))
    page.evaluate(f"location.hash = 'message={message.number}'")
    wait_until(page, f"document.querySelector('#sequence-facts').textContent.includes({message.request!r})")
    facts = page.inner_text("#sequence-facts")
    owner = message.request.split()[2]
    assert f"{message.server} after\nk0: {owner}" in facts
    assert f"{message.server} before\nk0: {owner}" not in facts
    assert "Holders by belief" in facts
    marked = page.inner_text("#sequence-source mark")
    assert marked.split()[0] == str(message.line)
    assert "node.set(" in marked


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gone", "fault"])
def test_an_event_of_servers_shows_their_keys_before_and_after(
    page: Page, view: model.RunView, data: timeline.Data, kind: str
) -> None:
    """The jump of clocks before the overlap ends the keys of its servers at the same time."""
    begun = next(one for one in data["groups"] if one["kind"] == "overlap")["from"]
    time, host, _, text, *_ = [one for one in data["events"] if one[2] == kind and one[0] <= begun][-1]
    page.evaluate(f"location.hash = 't={time / 1e6:.6f}'")
    for _ in range(20):
        if text in page.inner_text("#sequence-title"):
            break
        page.click("[data-step=next]")
    facts = page.inner_text("#sequence-facts")
    jump = next(one for one in view.faults if one.injected == view.history.origin + time * 1000)
    for server in (host,) if kind == "gone" else jump.hosts:
        before, after = (facts.split(f"{server} {which}\n")[1].split("\n")[0] for which in ("before", "after"))
        assert before.startswith("k0: ")
        assert after.startswith("k0: ")
        if kind == "gone":
            assert before.endswith(" left")
            assert after == "k0: no owner"


@pytest.mark.slow
def test_the_first_step_is_the_violation_and_its_diagram_names_the_cause(page: Page, view: model.RunView) -> None:
    found = next(one for one in view.evidence if one.kind == "overlap")
    clients = {one.client for one in found.involved}
    title = page.inner_text("#sequence-title")
    assert "both hold k0" in title
    assert all(client in title for client in clients)
    shown = page.locator("#sequence-canvas .row").all_text_contents()
    assert any("clock-jump: " in one and "wall clock" in one for one in shown)
    assert any("ahead" in one for one in shown)
    assert sum(" holds k0, lease" in one for one in shown) == 2
    belief = page.inner_text("#sequence-facts").split("Holders by belief\n")[1].split("\n")[0]
    assert all(client in belief for client in clients)
    assert page.locator("#sequence-hosts .left b").count() > 2, "two leases of clients, and keys of servers"


@pytest.mark.slow
def test_each_step_shows_the_clock_of_every_host_and_the_leases(page: Page, data: timeline.Data) -> None:
    page.select_option("#sequence-mode", "all")
    clocks_ahead = (one for one in data["events"] if one[2] == "clock" and "ahead" in one[3])
    at, host = next((time, host) for time, host, *_ in clocks_ahead)
    page.evaluate(f"location.hash = 't={at / 1e6 + 0.001:.6f}'")
    wait_until(page, "document.querySelector('#sequence-hosts .off') !== null")
    rows = {row.split()[0]: row for row in page.locator("#sequence-hosts tr").all_inner_texts()}
    assert "ahead" in rows[host]
    assert sum("correct" in row for row in rows.values()) > 0
    clocks = [row.split()[1] for row in rows.values() if "correct" in row]
    assert len(set(clocks)) == 1
    assert rows[host].split()[1] != clocks[0]
    assert page.locator("#sequence-canvas .lanes .off").count() == sum("ahead" in row for row in rows.values())


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["t", "message", "call"])
def test_addresses_open_a_moment_a_message_and_a_call(
    page: Page, folder: Path, view: model.RunView, data: timeline.Data, kind: str
) -> None:
    message = decisive(view, data)[2]
    assert message.sent is not None
    value = {"t": f"{(message.sent - view.history.origin) / 1e9:.6f}", "message": message.number, "call": message.call}
    page.goto("about:blank")
    page.goto(f"{(folder / 'report.html').as_uri()}#{kind}={value[kind]}")
    messages_shown(page)
    assert f"(entry {message.call})" in page.inner_text("#sequence-facts")
    assert page.locator("#messages").is_visible()


@pytest.mark.slow
def test_an_address_in_time_moves_the_timeline_too(page: Page, view: model.RunView) -> None:
    page.evaluate("location.hash = 't=5.5'")
    wait_until(page, "document.querySelector('#timeline-said').textContent.includes('5.5')")
    from_, until = shown_times(page)
    assert from_ < 5_500_000 < until
    assert until - from_ <= 2_000_000
    found = view.evidence[-1]
    assert found.start is not None
    page.evaluate(f"location.hash = 't={(found.start - view.history.origin) / 1e9:.6f}'")
    wait_until(page, f"document.querySelector('#timeline-said').textContent.includes({found.sentence!r})")


@pytest.mark.slow
def test_the_search_of_the_timeline_finds_messages_too(page: Page, view: model.RunView) -> None:
    field, output = "#timeline-find input", page.locator("#timeline-find output")
    client, owner = next((one.client, one.request.split()[2]) for one in messages_of(view) if one.name == "SET")
    found = [one for one in messages_of(view) if one.client == client and owner in one.request]
    page.fill(field, f"{client} {owner.upper()}")
    seen = set()
    for _ in found:
        page.press(field, "Enter")
        position, _, count = output.inner_text().partition(" of ")
        assert int(count) == len(found)
        seen.add(int(position))
        request = found[int(position) - 1].request
        assert request in page.inner_text("#sequence-facts")
        assert request in page.inner_text("#timeline-said")
    assert len(seen) == len(found) > 1
    page.fill(field, "no such text")
    page.press(field, "Enter")
    assert output.inner_text() == "no call or message matches"


@pytest.mark.slow
def test_an_address_of_a_message_that_is_not_decisive_shows_all_messages(
    page: Page, view: model.RunView, data: timeline.Data
) -> None:
    shown = {i for group in data["groups"] for i in np.cumsum(group["decisive"])}
    other = [one for i, one in enumerate(messages_of(view)) if i not in shown][-1]
    page.evaluate(f"location.hash = 'message={other.number}'")
    wait_until(page, f"document.querySelector('#sequence-facts').textContent.includes('Message{other.number}')")
    group = data["groups"][int(page.input_value("#sequence-groups"))]
    assert page.input_value("#sequence-mode") == ("clients" if other.client in group["clients"] else "all")


@pytest.mark.slow
def test_only_rows_in_view_are_in_the_page(page: Page, view: model.RunView) -> None:
    page.select_option("#sequence-mode", "all")
    _, count = step_of(page)
    assert count > 2 * len(messages_of(view)) * 0.9
    assert count > 3 * MOST_DRAWN
    page.focus("#sequence-canvas")
    for key in ("Home", "End"):
        page.keyboard.press(key)
        assert page.locator("[data-row]").count() <= MOST_DRAWN
        assert page.locator(".chosen").is_visible()
    assert step_of(page) == (count, count)
    page.evaluate("document.getElementById('sequence-canvas').scrollTop = 0")
    wait_until(page, "document.querySelector('[data-row=\"0\"]') !== null")
    assert page.locator("[data-row]").count() <= MOST_DRAWN


@pytest.mark.slow
def test_another_mode_keeps_the_step(page: Page) -> None:
    title = page.inner_text("#sequence-title").split(": ", 1)[1]
    counts = [step_of(page)[1]]
    for mode in ("clients", "all"):
        page.select_option("#sequence-mode", mode)
        assert page.inner_text("#sequence-title").split(": ", 1)[1] == title
        counts.append(step_of(page)[1])
    assert counts == sorted(set(counts))


LONG_EVENTS = """() => {
  const short = stepAt;
  stepAt = (state, position) => {
    const step = short(state, position);
    return step.event ? { ...step, text: step.text.repeat(9) } : step;
  };
}"""
LABELS = """() => [...document.querySelectorAll("#sequence-canvas .row.event .mark + text, .row.event .across + text")]
  .map((text) => [text.textContent, text.getBBox().x, text.getBBox().x + text.getBBox().width])"""


@pytest.mark.slow
def test_the_label_of_an_event_that_is_too_long_ends_with_an_ellipsis(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 900})
    page.evaluate(LONG_EVENTS)
    page.select_option("#sequence-mode", "clients")
    width = float(page.locator("#sequence-canvas .rows svg").get_attribute("width") or 0)
    labels = page.evaluate(LABELS)
    assert len(labels) > 5
    for text, left, right in labels:
        assert text.endswith("…")
        assert 0 <= left < right <= width, text
    assert any(right - left > 0.8 * width for _, left, right in labels), "no more than needed is cut"


@pytest.mark.slow
def test_print_has_the_steps_that_the_box_does_not_show(page: Page) -> None:
    page.set_viewport_size({"width": 700, "height": 300})
    page.select_option("#sequence-mode", "all")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("[data-row]").count() == min(300, step_of(page)[1])
    page.emulate_media(media="print")
    box, svg = (page.locator(one).bounding_box() for one in ("#sequence-canvas", "#sequence-canvas .rows svg"))
    assert box is not None
    assert svg is not None
    assert svg["x"] + svg["width"] <= box["x"] + box["width"] + 1
    assert svg["y"] + svg["height"] <= box["y"] + box["height"] + 1
    assert not page.locator("[data-step=next]").is_visible()
    page.emulate_media(media="screen")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("[data-row]").count() <= MOST_DRAWN


@pytest.mark.slow
def test_the_steps_can_be_copied_as_text(page: Page) -> None:
    page.evaluate("navigator.clipboard.writeText = (text) => { window.copied = text; return Promise.resolve(); }")
    page.click("[data-step=copy]")
    wait_until(page, "window.copied !== undefined")
    lines = page.evaluate("window.copied").splitlines()
    assert lines[0].startswith("Violation ")
    assert len(lines) == step_of(page)[1] + 1
    assert any("→ n1: SET k0" in line for line in lines)


@pytest.mark.slow
def test_the_contents_of_the_page_lead_to_the_messages(page: Page) -> None:
    page.click("nav.contents a[href='#messages']")
    assert page.locator("#messages").is_visible()


def press_until(page: Page, key: str, condition: str, most: int) -> None:
    """Press a key until a condition holds; an AssertionError after ``most`` times."""
    for _ in range(most):
        page.keyboard.press(key)
        if page.evaluate(condition):
            return
    raise AssertionError(f"{most} times {key} did not lead to: {condition}")


def test_the_keyboard_alone_leads_from_the_top_to_a_grant_and_to_the_violation(page: Page, view: model.RunView) -> None:
    found = next(one for one in view.evidence if one.kind == "overlap")
    title = "document.querySelector('#sequence-title').textContent"
    press_until(page, "Tab", "document.activeElement.getAttribute('href') === '#messages'", 20)
    page.keyboard.press("Enter")
    press_until(page, "Tab", "document.activeElement.id === 'sequence-canvas'", 20)
    granted = "document.querySelector('#sequence-facts').textContent.includes('Reply+OK')"
    press_until(page, "ArrowUp", f"{title}.includes('SET, reply') && {granted}", 30)
    assert "node.set(" in page.inner_text("#sequence-source mark")
    press_until(page, "ArrowDown", f"{title}.includes('Violation {found.number}: ')", 30)
    assert page.locator("#sequence-canvas .chosen").is_visible()
    belief = page.inner_text("#sequence-facts").split("Holders by belief\n")[1].split("\n")[0]
    assert all(one.client in belief for one in found.involved)
    assert page.inner_text("#sequence-said").endswith(page.inner_text("#sequence-title").split(": ", 1)[1])


def test_the_page_has_a_bounded_number_of_groups(data: timeline.Data) -> None:
    groups: list[dict[str, Any]] = data["groups"]
    assert 0 < len(groups) <= sequence_groups.MOST_GROUPS
    assert all(0 < len(group["decisive"]) <= sequence_groups.MOST_DECISIVE for group in groups)


@pytest.mark.slow
def test_a_wait_ends_with_a_message(page: Page) -> None:
    with pytest.raises(AssertionError, match=r"report\.html did not meet this within 0\.1 s: 1 === 2"):
        wait_until(page, "1 === 2", longest_s=0.1)


@pytest.mark.slow
def test_a_report_has_no_accessibility_fault_when_dark_and_narrow(browser: Browser, folder: Path) -> None:
    assert axe.in_hardest_look(browser, (folder / "report.html").as_uri(), ready=messages_shown) == []


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_every_width_without_accessibility_faults(browser: Browser, folder: Path, scheme: str) -> None:
    for width in WIDTHS:
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
        page = context.new_page()
        page.goto((folder / "report.html").as_uri())
        messages_shown(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert axe.faults(page) == []
        context.close()


STEPS = """(count) => {
  const canvas = document.getElementById("sequence-canvas"), took = [];
  for (let i = 0; i < count; i++) {
    const begun = performance.now();
    const key = i % 40 < 30 ? "ArrowDown" : "ArrowUp";
    canvas.dispatchEvent(new KeyboardEvent("keydown", { key, cancelable: true }));
    canvas.getBoundingClientRect();
    took.push(performance.now() - begun);
  }
  return took.sort((a, b) => a - b)[count / 2];
}"""
"""Half of the steps are quicker than this, ms."""


@pytest.mark.slow
def test_a_step_among_a_hundred_thousand_messages_is_as_quick_as_among_a_few(opened: Open) -> None:
    """The limits are relative or generous, since a slow machine must not miss them; ``benchmarks.viewer`` measures."""
    page = opened("large")
    messages_shown(page)
    assert page.evaluate("performance.getEntriesByName('sequence-painted')[0].startTime") < 40_000
    few = page.evaluate(STEPS, 100)
    counts = [step_of(page)[1]]
    page.select_option("#sequence-mode", "all")
    counts.append(step_of(page)[1])
    assert counts[0] < 1_000
    assert counts[1] > 190_000
    many = page.evaluate(STEPS, 100)
    print(f"\na step among {counts[0]}: {few:.1f} ms, among {counts[1]}: {many:.1f} ms")
    assert page.locator("[data-row]").count() <= MOST_DRAWN
    assert many < 10 * few + 20
    page.focus("#sequence-canvas")
    page.keyboard.press("End")
    assert step_of(page) == (counts[1], counts[1])
    assert page.locator(".chosen").is_visible()


@pytest.mark.slow
def test_a_broken_trace_is_named_and_the_report_has_the_rest(folder: Path, tmp_path: Path) -> None:
    for name in ("history.jsonl", "results.json", "plan.toml"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    (tmp_path / "trace.jsonl.gz").write_bytes(b"cut short")
    text = run_report.write(tmp_path).read_text(encoding="utf-8")
    assert "This report has no messages between clients and servers: " in text
    assert "trace.jsonl.gz: " in text
    assert 'id="sequence-canvas"' not in text
