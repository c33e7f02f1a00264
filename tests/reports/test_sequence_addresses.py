"""Addresses of steps among the messages, and the violation that the timeline shows with them, in a browser."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from harness.reports import model
from tests.reports.opened import Open, messages_shown, view, wait_until

pytestmark = pytest.mark.browser

SHOWN = """() => ({
  address: location.hash, said: document.getElementById("sequence-said").textContent,
  group: document.getElementById("sequence-groups").value, mode: document.getElementById("sequence-mode").value,
})"""
OPEN = """async (address) => {
  for (const hash of ["#nothing", address]) await new Promise((done) => {
    addEventListener("hashchange", done, { once: true });
    location.hash = hash;
  });
}"""


def shown(page: Page) -> dict[str, str]:
    """Return the address of the page, the chosen step, and its group and mode."""
    return dict(page.evaluate(SHOWN))


def walk(page: Page, most: int) -> list[dict[str, str]]:
    """Return what the page shows at each of the first steps."""
    page.focus("#sequence-canvas")
    page.keyboard.press("Home")
    steps = [shown(page)]
    for _ in range(most - 1):
        page.keyboard.press("ArrowDown")
        steps.append(shown(page))
        if steps[-1] == steps[-2]:
            return steps[:-1]
    return steps


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["decisive", "clients", "all"])
def test_every_step_of_a_violation_has_its_own_address(traced_page: Page, mode: str) -> None:
    page = traced_page
    page.select_option("#sequence-groups", "1")
    page.select_option("#sequence-mode", mode)
    steps = walk(page, most=40)
    assert len(steps) > 20
    assert len({step["address"] for step in steps}) == len(steps)
    page.select_option("#sequence-groups", "0")
    opened: list[Any] = []
    for step in steps:
        page.evaluate(OPEN, step["address"])
        opened.append(shown(page))
    assert opened == steps


@pytest.mark.slow
def test_the_position_of_an_event_counts_only_at_its_time(traced_page: Page) -> None:
    """Another version of the harness may write a report with other positions."""
    page = traced_page
    steps = walk(page, most=40)
    event = next(step for step in steps if "&event=" in step["address"])
    page.evaluate(OPEN, event["address"].replace("&event=", "&event=1"))
    opened = shown(page)["said"].split(": ", 1)[1]
    assert opened.split()[0] == event["said"].split(": ", 1)[1].split()[0]


@pytest.mark.slow
def test_the_address_names_the_step_that_a_violation_or_a_search_has_chosen(traced_page: Page) -> None:
    page = traced_page
    assert shown(page)["address"] == "", "the page that nobody has moved keeps its address"
    found = [shown(page)]
    page.select_option("#sequence-groups", "2")
    found.append(shown(page))
    page.fill("#timeline-find input", "SET")
    page.press("#timeline-find input", "Enter")
    found.append(shown(page))
    assert all(before["said"] != after["said"] for before, after in pairwise(found))
    for step in found[1:]:
        page.evaluate(OPEN, step["address"])
        assert shown(page) == step


CHOSEN = """() => {
  const { number, from } = shownRun.run.violations[shownRun.chosen], { view } = shownRun;
  const around = document.getElementById("sequence-groups").selectedOptions[0].text;
  return [number, view.from < from && from < view.until, around];
}"""


def same(page: Page) -> int:
    """Return the number of the violation that the timeline and the messages both show."""
    number, in_view, around = page.evaluate(CHOSEN)
    assert in_view
    assert around.startswith(f"Violation {number}: ")
    return int(number)


@pytest.mark.slow
def test_the_timeline_and_the_messages_show_the_same_violation(traced_page: Page) -> None:
    page = traced_page
    same(page)
    page.select_option("#sequence-groups", "0")
    assert same(page) == 1
    for button, number in (("next", 2), ("next", 3), ("previous", 2)):
        page.click(f"[data-do={button}]")
        assert same(page) == number
        assert f": Violation {number}: " in page.inner_text("#sequence-title")
    page.locator("[data-violation='3']").click()
    assert same(page) == 3
    page.get_by_role("button", name="Show the messages of violation 2").click()
    assert same(page) == 2
    assert page.evaluate("document.activeElement.id") == "sequence-canvas"
    wait_until(page, "document.getElementById('messages').getBoundingClientRect().top < innerHeight")


@pytest.mark.slow
def test_an_address_of_a_step_leads_the_timeline_to_its_violation(traced_page: Page) -> None:
    page = traced_page
    page.select_option("#sequence-groups", "2")
    steps = walk(page, most=40)
    for kind in ("#message=", "#t="):
        page.evaluate("showViolation(shownRun, 0)")
        page.evaluate(OPEN, next(step["address"] for step in reversed(steps) if step["address"].startswith(kind)))
        assert page.evaluate("shownRun.run.violations[shownRun.chosen].number") == 3


@pytest.mark.slow
@pytest.mark.parametrize("address", ["t=99", "message=99999", "call=0", "message=x"])
def test_an_address_without_a_kept_message_says_so(traced_page: Page, traced: Path, address: str) -> None:
    page = traced_page
    page.goto("about:blank")
    page.goto(f"{(traced / 'report.html').as_uri()}#{address}")
    messages_shown(page)
    lost = page.locator("#sequence-lost")
    assert lost.inner_text() == f"No kept message at this address: #{address}."
    assert lost.get_attribute("role") == "status"
    assert "both hold k0" in page.inner_text("#sequence-title")
    page.click("[data-step=next]")
    assert lost.inner_text() == ""


FORMS = """[...document.querySelectorAll("#sequence-addresses dt")]
  .map((one) => [one.textContent, one.nextElementSibling.textContent])"""


def assert_opened(page: Page, address: str, promised: str) -> None:
    """Assert that the page shows what the help promises of an address."""
    title, facts = page.inner_text("#sequence-title"), page.inner_text("#sequence-facts")
    kind, _, number = address.removeprefix("#").split("&")[0].partition("=")
    if kind == "t" and "&" not in address:
        time = float(page.inner_text("#sequence-said").split(": ", 1)[1].split()[0])
        assert promised == f"the first step from {number} s on"
        assert time >= float(number)
    elif kind == "message":
        reply = address.endswith("&reply")
        assert promised == (f"the reply to message {number}" if reply else f"message {number}")
        assert f"Message\n{number}\n" in facts
        assert title.endswith("reply" if reply else "request")
    elif kind == "call":
        assert promised == f"the first message of the call that entry {number} began"
        assert f"(entry {number})" in facts
    elif kind == "violation":
        assert promised == f"violation {number}, here and on the timeline"
        assert f": Violation {number}: " in title
        assert same(page) == int(number)
    else:
        assert promised == "one step, exactly: the address bar has this form after each step"
        page.click("[data-step=next]")
        page.click("[data-step=previous]")
        assert shown(page)["address"] == address


@pytest.mark.slow
def test_every_address_that_the_help_names_opens_what_it_says(traced_page: Page) -> None:
    page = traced_page
    forms: list[tuple[str, str]] = page.evaluate(FORMS)
    assert [address.removeprefix("#").partition("=")[0] for address, _ in forms] == [
        "t", "t", "message", "message", "call", "violation",
    ]  # fmt: skip
    page.click("#sequence-forms summary")
    for address, promised in forms:
        page.select_option("#sequence-groups", "0")
        page.get_by_role("link", name=address, exact=True).click()
        wait_until(page, f"location.hash === {address!r}")
        assert page.inner_text("#sequence-lost") == ""
        assert_opened(page, address, promised)


@pytest.mark.slow
def test_an_address_of_a_violation_opens_it_in_a_new_page(traced_page: Page, traced: Path) -> None:
    page = traced_page
    page.goto("about:blank")
    page.goto(f"{(traced / 'report.html').as_uri()}#violation=3")
    messages_shown(page)
    assert same(page) == 3
    assert ": Violation 3: " in page.inner_text("#sequence-title")
    page.evaluate(OPEN, "#violation=99")
    assert page.inner_text("#sequence-lost") == "No kept violation at this address: #violation=99."


@pytest.mark.slow
def test_an_address_opens_a_message_around_the_nearest_violation(traced_page: Page, traced: Path) -> None:
    """A page may have hundreds of violations: the first one may be far from the message."""
    page, found = traced_page, model.load(traced)
    assert found.trace is not None
    last, starts = found.trace.messages[-1], [one.start or 0 for one in found.evidence]
    page.evaluate(OPEN, f"#message={last.number}")
    assert int(shown(page)["group"]) > 0
    assert starts[int(shown(page)["group"])] > max(starts) - 1_000_000_000


@pytest.mark.slow
def test_addresses_open_the_timeline_of_a_report_without_messages(opened: Open) -> None:
    page = opened("violation")
    for address, said in (
        ("t=7.25", "The timeline shows the time around 7.25"),
        ("t=99", "The run has no moment at #t=99: it lasts 30"),
        ("message=7", "This report has no messages, so it cannot open #message=7."),
        ("call=99999", "The run has no call at #call=99999."),
        ("call=1", "#1 process"),
        ("violation=2", "2 of 4: "),
        ("violation=9", "The run has no violation at #violation=9."),
    ):
        page.evaluate(f"location.hash = {address!r}")
        wait_until(page, f"document.querySelector('#timeline-said').textContent.includes({said!r})")
        if address == "t=7.25":
            from_, until = view(page)
            assert from_ < 7_250_000 < until <= from_ + 2_000_000
