"""Queries of a run's page that is open in a browser (``opened`` of ``conftest.py`` opens it)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page

Reported = Callable[[str], Path]
Open = Callable[..., Page]
CANVAS = "#timeline-canvas"


LONGEST_S = 240
"""The longest wait for a condition. A page needs less than a second; a slow machine under load does not miss this."""


def wait_until(page: Page, condition: str, longest_s: float = LONGEST_S) -> None:
    """Wait, frame by frame. Playwright's own function needs ``eval``, which the page forbids."""
    look = f"{condition} ? done(true) : performance.now() > end ? done(false) : requestAnimationFrame(look)"
    frame = f"(() => {{ const end = performance.now() + {longest_s * 1000}, look = () => {look}; look(); }})()"
    if not page.evaluate(f"() => new Promise((done) => {frame})"):
        raise AssertionError(f"{page.url} did not meet this within {longest_s:g} s: {condition}")


def messages_shown(page: Page) -> None:
    """Wait until the message viewer has unpacked and drawn its messages."""
    wait_until(page, "performance.getEntriesByName('sequence-painted').length > 0")


def view(page: Page) -> tuple[int, int]:
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    from_, until = page.evaluate(
        "[...['from', 'until']].map((n) => Number(document.querySelector('canvas').dataset[n]))"
    )
    return from_, until
