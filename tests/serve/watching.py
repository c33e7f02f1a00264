"""A browser page of a server, watched until it closes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, Page


@contextmanager
def watched(browser: Browser, base: str, width: int) -> Iterator[Page]:
    """A page that must send requests only to this server, and log no complaint."""
    context = browser.new_context(viewport={"width": width, "height": 900}, base_url=base)
    opened = context.new_page()
    complaints: list[str] = []
    opened.on("console", lambda message: complaints.append(message.text))
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.on("request", lambda asked: None if asked.url.startswith((base, "data:")) else complaints.append(asked.url))
    yield opened
    context.close()
    assert complaints == []
