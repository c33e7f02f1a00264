"""The page of the trends: what changed since last night, and a pair of small charts for each lock, faults and cluster.

Takes the document that ``harness trends --json`` prints. The charts are drawn here: there may be a hundred of them,
each of a few points, and they take their colours from the page.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from markupsafe import Markup, escape

from reports import page, words
from reports.document import Node, ReportError

SCHEMA: Final = 1
WIDTH, HEIGHT, EDGE, WIDEST = 240, 44, 5, 26
"""Of a chart, the room around what is drawn in it, and of a column at most."""
CHANGES: Final = (
    ("newly_red", "Newly red", "invalid"),
    ("newly_green", "Newly green", "valid"),
    ("slower", "Found later", "unknown"),
    ("faster", "Found earlier", "unknown"),
    ("changed", "Changed otherwise", "unknown"),
    ("appeared", "Appeared", ""),
    ("disappeared", "Disappeared", "unknown"),
)
Values = list[float | None]


@dataclass(frozen=True, slots=True)
class ChangeView:
    """One scenario that changed: ``before`` and ``now`` are states, or times."""

    scenario: str
    cluster: str
    setting: str
    before: str
    now: str
    why: str


@dataclass(frozen=True, slots=True)
class SeriesView:
    """A lock under faults on a cluster, over the nights."""

    lock: str
    faults: str
    cluster: str
    rate: Markup
    last_rate: str
    found: Markup
    last_found: str


def write(document: dict[str, Any], path: Path) -> Path:
    """Write the file ``path``; ReportError for a malformed document, OSError if it cannot be written."""
    text = render(document)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", errors="replace")
    return path


def render(document: dict[str, Any], nav: str = "", nav_style: str = "") -> str:
    """The page; ``nav``, in HTML, is what leads from it to other pages, where there are any."""
    trends = Node(document, "the document of the trends")
    if trends.require("schema") != SCHEMA:
        raise ReportError(f"{trends.place}: schema: expected {SCHEMA}, got {trends.data['schema']}")
    nights = trends.nodes("nights")
    compared = document.get("compared") and trends.node("compared")
    changes = [
        (title, tone, [_change(node) for node in compared.nodes(name)])
        for name, title, tone in CHANGES
        if compared and compared.nodes(name)
    ]
    dates = [_date(night.text("started_at")) for night in nights]
    return page.render(
        "trends.html",
        {"seconds": _seconds},
        suite=trends.text("suite"),
        clusters=trends.texts("clusters"),
        factor=trends.number("factor"),
        compared=bool(compared),
        judgement=_judgement(changes, compared=bool(compared)),
        headline=_headline(changes, compared=bool(compared)),
        changes=changes,
        nights=nights,
        dates=dates,
        series=[_series(node, dates) for node in trends.nodes("series")],
        nav=Markup(nav),
        style=page.source("style.css") + page.source("nightly.css") + page.source("trends.css") + Markup(nav_style),
        script=page.source("js/filter.js"),
    )


def _change(node: Node) -> ChangeView:
    times = "before_s" in node.data
    before, now = (
        (_seconds(node.number("before_s")), _seconds(node.number("now_s")))
        if times
        else (node.text("before", "not there"), node.text("now", "not there"))
    )
    setting = f"{node.text('lock')}, {', '.join(node.texts('faults')) or 'no faults'}"
    return ChangeView(node.text("scenario"), node.text("cluster"), setting, before, now, node.text("why"))


def _headline(changes: list[tuple[str, str, list[ChangeView]]], *, compared: bool) -> str:
    if not compared:
        return "Nothing to compare yet"
    return ", ".join(f"{len(some)} {title.lower()}" for title, _, some in changes) or "Nothing changed"


def _judgement(changes: list[tuple[str, str, list[ChangeView]]], *, compared: bool) -> str:
    tones = {tone for _, tone, _ in changes}
    if "invalid" in tones:
        return "invalid"
    return "unknown" if "unknown" in tones or not compared else "valid"


def _series(node: Node, dates: Sequence[str]) -> SeriesView:
    rates, times, runs = (_values(node, key, len(dates)) for key in ("rate", "found_s", "runs"))
    told_rates = [
        f"{date}: {_percent(rate)} of {words.count(some)}" for date, rate, some in zip(dates, rates, runs, strict=True)
    ]
    told_times = [f"{date}: {_seconds(time)}" for date, time in zip(dates, times, strict=True)]
    return SeriesView(
        lock=node.text("lock"),
        faults=", ".join(node.texts("faults")) or "none",
        cluster=node.text("cluster"),
        rate=_chart("rate", rates, 1.0, told_rates, _columns),
        last_rate=_percent(rates[-1]) if rates else "–",
        found=_chart("found", times, max((time for time in times if time is not None), default=0.0), told_times, _line),
        last_found=_seconds(times[-1]) if times else "–",
    )


def _values(node: Node, key: str, nights: int) -> Values:
    """The numbers under ``key``, one a night."""
    values = node.data.get(key)
    if not isinstance(values, list) or len(values) != nights:
        raise ReportError(f"{node.place}.{key}: expected {nights} values, one a night, got {values!r:.60}")
    return values


def _chart(
    name: str, values: Values, most: float, told: list[str], draw: Callable[[list[tuple[float, float] | None]], str]
) -> Markup:
    """A chart with the values told in its label, and each in a tip where the pointer is."""
    step = (WIDTH - 2 * EDGE) / max(1, len(values))
    room = HEIGHT - 2 * EDGE
    points = [
        None if value is None else (EDGE + step * (i + 0.5), HEIGHT - EDGE - room * (value / most if most else 0))
        for i, value in enumerate(values)
    ]
    tips = "".join(
        f'<rect class="tip" x="{EDGE + step * i:.1f}" y="0" width="{step:.1f}" height="{HEIGHT}">'
        f"<title>{escape(text)}</title></rect>"
        for i, text in enumerate(told)
    )
    floor = f'<path class="floor" d="M{EDGE} {HEIGHT - EDGE}H{WIDTH - EDGE}"/>'
    return Markup(
        f'<svg class="chart {name}" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape("; ".join(told))}">'
        f"{floor}{draw(points)}{tips}</svg>"
    )


def _columns(points: list[tuple[float, float] | None]) -> str:
    """A column a night from the floor; a violation rate of 0 is a flat one, no value is none."""
    width = min(WIDEST, (WIDTH - 2 * EDGE) / max(1, len(points)) * 0.6)
    floor = HEIGHT - EDGE
    return "".join(
        f'<rect class="{"none" if y >= floor else "some"}" x="{x - width / 2:.1f}" y="{min(y, floor - 2):.1f}" '
        f'width="{width:.1f}" height="{max(2.0, floor - y):.1f}"/>'
        for x, y in (point for point in points if point)
    )


def _line(points: list[tuple[float, float] | None]) -> str:
    """A line through the values of nights that follow each other, and a dot on each."""
    path, pen = "", "M"
    for point in points:
        path += f"{pen}{point[0]:.1f} {point[1]:.1f}" if point else ""
        pen = "L" if point else "M"
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in (point for point in points if point))
    return f'<path class="line" d="{path}"/>{dots}' if path else ""


def _date(text: str) -> str:
    try:
        return f"{datetime.fromisoformat(text):%Y-%m-%d %H:%M}"
    except ValueError as error:
        raise ReportError(f"the document of the trends: started_at: {error}") from error


def _percent(rate: float | None) -> str:
    return "–" if rate is None else f"{rate:.0%}"


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:,.2f} s"
