"""Accessibility faults that axe-core finds in a page.

``serious(page)`` is for every page that we write; ``in_every_look(browser, uri)`` opens it light and dark, at three
widths. The script runs through the debugger, so the page's own content security policy stays unchanged."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import Any, Final

from playwright.sync_api import Browser, Page

IMPACTS: Final = ("serious", "critical")
LOOKS: Final = tuple((scheme, width) for scheme in ("light", "dark") for width in (1280, 800, 390))
OPTIONS: Final = {"resultTypes": ["violations"]}


def serious(page: Page) -> list[str]:
    """Return a line for each element with a fault of serious or critical impact: the rule, the element, the fault."""
    return [told for fault in _run(page)["violations"] for told in _lines(fault) if fault["impact"] in IMPACTS]


def faults(page: Page) -> list[str]:
    """Return a line for each element with a fault of any impact."""
    return [told for fault in _run(page)["violations"] for told in _lines(fault)]


def in_every_look(browser: Browser, uri: str) -> list[str]:
    """Return the faults of any impact of the page at ``uri``: light and dark, at 1280, 800 and 390 px, with all details
    unfolded."""
    found = []
    for scheme, width in LOOKS:
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
        page = context.new_page()
        page.goto(uri)
        page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        found += [f"{scheme}, {width} px: {line}" for line in faults(page)]
        context.close()
    return found


def in_hardest_look(browser: Browser, *uris: str, ready: Callable[[Page], None] | None = None) -> list[str]:
    """Return the faults of any impact of pages in one look only, dark and narrow: default tests afford no more.

    ``ready`` waits until a page can be checked.
    """
    context = browser.new_context(viewport={"width": 390, "height": 900}, color_scheme="dark")
    page = context.new_page()
    found = []
    for uri in uris:
        page.goto(uri)
        if ready is not None:
            ready(page)
        found += [f"{uri}: {line}" for line in faults(page)]
    context.close()
    return found


def _run(page: Page) -> Any:
    if not page.evaluate("typeof axe === 'object'"):
        page.evaluate(_script())
    return page.evaluate(f"axe.run({json.dumps(OPTIONS)})")


@cache
def _script() -> str:
    return files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")


def _lines(fault: Any) -> list[str]:
    return [
        f"{fault['id']} ({fault['impact']}) at {' '.join(map(str, node['target']))}: "
        f"{' '.join(node['failureSummary'].split())}"
        for node in fault["nodes"]
    ]
