"""Queries of a run's page that is open in a browser (``opened`` of ``conftest.py`` opens it)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page

Reported = Callable[[str], Path]
Open = Callable[..., Page]
CANVAS = "#timeline-canvas"


def wait_until(page: Page, condition: str) -> None:
    """Wait, frame by frame. Playwright's own function needs ``eval``, which the page forbids."""
    frame = f"(() => {{ const look = () => {condition} ? done() : requestAnimationFrame(look); look(); }})()"
    page.evaluate(f"() => new Promise((done) => {frame})")


def view(page: Page) -> tuple[int, int]:
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    from_, until = page.evaluate(
        "[...['from', 'until']].map((n) => Number(document.querySelector('canvas').dataset[n]))"
    )
    return from_, until
