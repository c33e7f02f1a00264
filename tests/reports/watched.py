"""Browser pages watched until they close, for their requests and complaints."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, Page

OpenAddress = Callable[..., Page]


@contextmanager
def watched(browser: Browser) -> Iterator[tuple[OpenAddress, list[str]]]:
    """``open_page(address, width=1280, scheme="light")`` opens a page. The list has each address that any page
    requested."""
    requests: list[str] = []
    complaints: list[str] = []
    contexts = []

    def open_page(address: str, width: int = 1280, scheme: Any = "light") -> Page:
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.on("request", lambda request: requests.append(request.url))
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(address)
        return page

    yield open_page, requests
    for context in contexts:
        context.close()
    assert complaints == []
