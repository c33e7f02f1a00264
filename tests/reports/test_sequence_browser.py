"""The message viewer in a browser: steps by keys and mouse, addresses of steps, and what each step says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from harness.plan import FaultSpec, Plan
from harness.reports import model, run_report, sequence
from harness.run.runs import run
from tests.reports import axe
from tests.reports.opened import wait_until

pytestmark = pytest.mark.browser
WIDTHS = (1280, 800, 390)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run in which clocks jump, so that two clients hold the lock, with its report."""
    plan = Plan(lock="redlock", time_limit=20.0, faults=(FaultSpec("clock-jump", every=5.0),))
    result = run(plan, store=tmp_path_factory.mktemp("store"))
    assert result.folder is not None
    assert result.valid is not None
    run_report.write(result.folder)
    return result.folder


@pytest.fixture
def page(browser: Browser, folder: Path) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.goto((folder / "report.html").as_uri())
    yield page
    page.close()
    assert complaints == []


def step_of(page: Page) -> int:
    return int(page.inner_text("#sequence-title").split()[1])


def test_keys_and_mouse_step_through_the_messages(page: Page) -> None:
    page.focus("#sequence-canvas")
    first = step_of(page)
    for key, step in (("ArrowDown", first + 1), ("ArrowRight", first + 2), ("ArrowUp", first + 1), ("Home", 1)):
        page.keyboard.press(key)
        assert step_of(page) == step
    page.keyboard.press("ArrowUp")
    assert step_of(page) == 1
    page.click("[data-step=next]")
    assert step_of(page) == 2
    page.click("[data-row='4'] text >> nth=0")
    assert step_of(page) == 5
    assert page.locator(".chosen").get_attribute("data-row") == "4"


def test_a_step_shows_the_source_the_keys_and_the_holders(page: Page, folder: Path) -> None:
    run_view = model.load(folder)
    trace, data = run_view.trace, sequence.build(run_view)
    assert trace is not None
    assert data is not None
    message = next(
        one for one in trace.messages if one.number in data["messages"] and (one.name, one.reply) == ("SET", "+OK")
    )
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


def test_addresses_open_a_moment_a_message_and_a_call(page: Page, folder: Path) -> None:
    data = sequence.build(model.load(folder))
    assert data is not None
    number = data["groups"][0]["messages"][10]
    message = data["messages"][number]
    seconds = message["times"][0] / 1e6
    for address in (f"t={seconds:.6f}", f"message={number}", f"call={message['call']}"):
        page.goto("about:blank")
        page.goto(f"{(folder / 'report.html').as_uri()}#{address}")
        shown = page.inner_text("#sequence-facts")
        assert message["callText"] in shown, address
        assert page.locator("#messages").is_visible()


def test_the_contents_of_the_page_lead_to_the_messages(page: Page) -> None:
    page.click("nav.contents a[href='#messages']")
    assert page.locator("#messages").is_visible()


def test_the_page_has_a_bounded_number_of_messages(folder: Path) -> None:
    data = sequence.build(model.load(folder))
    assert data is not None
    assert 0 < len(data["groups"]) <= sequence.MOST_GROUPS
    assert all(0 < len(group["messages"]) <= sequence.MOST_MESSAGES for group in data["groups"])


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_every_width_without_accessibility_faults(browser: Browser, folder: Path, scheme: str) -> None:
    for width in WIDTHS:
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
        page = context.new_page()
        page.goto((folder / "report.html").as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert axe.serious(page) == []
        context.close()


def test_a_broken_trace_is_named_and_the_report_has_the_rest(folder: Path, tmp_path: Path) -> None:
    for name in ("history.jsonl", "results.json", "plan.toml"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    (tmp_path / "trace.jsonl.gz").write_bytes(b"cut short")
    text = run_report.write(tmp_path).read_text(encoding="utf-8")
    assert "The messages between clients and servers are not known" in text
    assert 'id="sequence-canvas"' not in text
