"""Render the pages of ``harness serve``: templates, addresses of pages and files, and the security policy."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Mapping, Sequence
from functools import cache
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

import jinja2
from markupsafe import Markup
from starlette.responses import HTMLResponse

from harness.documents.heads import HeadChecker
from harness.documents.run import state_in_schema_1
from harness.reports import page
from harness.reports.model import SIGNS
from harness.reports.run_report import heading
from harness.wording import PROPERTY_STATES

WORDS: Final = {
    "invalid": "Violation", "unknown": "Unknown", "valid": "Safe", "running": "Running", "broken": "No verdict",
}  # fmt: skip
"""Names of states, in a table."""
TITLES: Final = {"running": "Running now", "broken": "No verdict"}
"""Headings of runs without a verdict."""
NAVIGATION: Final = (
    ("runs", "/", "Runs"),
    ("status", "/status", "Status"),
    ("comparisons", "/comparisons/", "Comparisons"),
    ("sweeps", "/sweeps/", "Sweeps"),
    ("hunts", "/hunts/", "Hunts"),
    ("bisections", "/bisections/", "Bisections"),
    ("versions", "/versions/", "Releases"),
    ("trends", "/trends", "Trends"),
)


def answer(
    template: str, *, here: str = "", script: str = "", style: str = "", status: int = 200, **values: Any
) -> HTMLResponse:
    """Render ``serve/<template>`` with ``values``.

    ``here`` is the page's entry in the navigation bar. ``script`` and ``style`` are put into the page; no other script
    may run in it.
    """
    bar = {"here": here, "navigation": NAVIGATION, "label": "", "more": ()}
    shared = {"script": Markup(script), "words": WORDS, "run_url": run_url, "store_url": store_url}
    shared |= {"signs": SIGNS, "states": PROPERTY_STATES}
    styles = style_of("style.css", "nightly.css", "serve/nav.css", "serve/serve.css") + Markup(style)
    text = _templates().get_template(f"serve/{template}").render(bar | shared | {"style": styles} | values)
    return _own_page(text, f"'sha256-{_digest(script)}'" if script else "'none'", status)


def embedded_page(text: str) -> HTMLResponse:
    """Return a page that was rendered elsewhere as a response, with the scripts that it contains."""
    return _own_page(text, "'unsafe-inline'")


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _own_page(text: str, scripts: str, status: int = 200) -> HTMLResponse:
    headers = {"content-security-policy": _policy(scripts)}
    return HTMLResponse(text.encode(errors="replace"), status, headers)


def _policy(scripts: str) -> str:
    """Return the content security policy of a page: it may run these scripts, and send requests only to this server."""
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src {scripts}; "
        "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    )


def problem(status: int, sentence: str) -> HTMLResponse:
    """Return an error page with the reason in one sentence."""
    return answer("problem.html", status=status, title=HTTPStatus(status).phrase, sentence=sentence)


def navigation(here: str, label: str = "", more: Sequence[tuple[str, str]] = ()) -> Markup:
    """Return the navigation bar, for a page that is rendered elsewhere; it needs :func:`style_of` ``serve/nav.css``.

    ``more`` are further links of that page (text, address) under a label.
    """
    values = {"here": here, "navigation": NAVIGATION, "label": label, "more": more}
    return Markup(_templates().get_template("serve/nav.html").render(values))


@cache
def style_of(*names: str) -> Markup:
    """Return files of the templates, joined."""
    return Markup("").join(page.source(name) for name in names)


@cache
def script_of(name: str) -> str:
    """Return a script of the templates."""
    return f'"use strict";\n{page.source(name)}'


@cache
def _templates() -> jinja2.Environment:
    return page.templates({"moment": moment, "size": size, "clean": clean, "property_state": state_of})


def state_of(checker: HeadChecker) -> str:
    """Return the state of a property; documents of schema 1 lack it."""
    if checker.state:
        return checker.state if checker.state in PROPERTY_STATES else "not-tested"
    return state_in_schema_1(checker.valid, checker.explanation)


def gravest_first(checkers: Mapping[str, HeadChecker]) -> list[tuple[str, HeadChecker]]:
    """Return the checkers of a run with their names, violations first."""
    order = list(PROPERTY_STATES)
    return sorted(checkers.items(), key=lambda one: order.index(state_of(one[1])))


def title_of(state: str, verdict: str) -> str:
    """Return the heading of a run in this state, with this verdict in the words of its document."""
    return TITLES.get(state) or heading(state, verdict)


def run_url(lock: str, run: str) -> str:
    """Return the address of a run's page."""
    return f"/runs/{_quoted(lock)}/{_quoted(run)}/"


def zip_url(lock: str, run: str) -> str:
    """Return the address of the zip file of a run."""
    return f"/runs/{_quoted(lock)}/{_quoted(run)}.zip"


def live_url(lock: str, run: str) -> str:
    """Return the address of the page of a run in progress."""
    return f"/live/{_quoted(lock)}/{_quoted(run)}/"


def store_url(*parts: str) -> str:
    """Return the address of a file of the store."""
    return "/store/" + "/".join(_quoted(part) for part in parts)


def _quoted(name: str) -> str:
    return quote(os.fsencode(name), safe="")


def clean(text: str) -> str:
    """Return text that any page can contain; invalid characters are replaced by a visible sign."""
    return text.encode(errors="replace").decode()


def moment(when: str) -> str:
    """Return the time ``2026-11-21T05:55:37Z`` in a readable form; a dash if it is empty."""
    return when.replace("T", " ").removesuffix("Z") or "–"


def size(count: int) -> str:
    """Return a size in a readable form: ``12.3 kB``."""
    for unit, one in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= one:
            return f"{count / one:,.1f} {unit}"
    return f"{count} bytes"
