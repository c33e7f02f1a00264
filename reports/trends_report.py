"""Write the trends page: changes since the previous nightly run, and charts for each lock, set of faults and cluster.

The input is the document that ``harness trends --json`` prints. This module draws the charts itself: there may be a
hundred of them, each of a few points, and they take their colours from the page.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from markupsafe import Markup, escape

from harness.documents import DocumentError, TrendsDocument, present
from harness.documents.trends import TrendChange, TrendsSeries
from harness.files import write_file

from . import certainty, page, words

WIDTH, HEIGHT, EDGE, WIDEST = 240, 44, 5, 26
"""Size of a chart, margin around its plot, and maximum width of a column."""
CHANGES: Final = (
    ("newly_red", "Newly failing", "invalid"),
    ("newly_green", "Newly as expected", "valid"),
    ("slower", "Found later", "unknown"),
    ("faster", "Found earlier", "unknown"),
    ("changed", "Changed otherwise", "unknown"),
    ("appeared", "Appeared", ""),
    ("disappeared", "Disappeared", "unknown"),
)
Values = Sequence[float | None]


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
    """Results of a lock under faults on a cluster, over the nightly runs."""

    lock: str
    faults: str
    cluster: str
    rate: Markup
    last_rate: str
    found: Markup
    last_found: str


def write(document: TrendsDocument, path: Path) -> Path:
    """Write the file ``path``; DocumentError for a malformed document, OSError if it cannot be written."""
    text = render(document)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, text)
    return path


def render(document: TrendsDocument, nav: str = "", nav_style: str = "") -> str:
    """Render the page; ``nav`` is HTML with links from it to other pages, if there are any."""
    nights, compared = document.nights, document.compared
    changes = [
        (title, tone, [_change(change) for change in some])
        for name, title, tone in CHANGES
        if compared is not None and (some := getattr(compared, name))
    ]
    dates = [f"{night.started_at:%Y-%m-%d %H:%M}" for night in nights]
    return page.render(
        "trends.html",
        {"seconds": _seconds},
        suite=document.suite,
        clusters=document.clusters,
        factor=document.factor,
        compared=compared is not None,
        judgement=_judgement(changes, compared=compared is not None),
        headline=_headline(changes, compared=compared is not None),
        sure=certainty.of_trends(),
        changes=changes,
        nights=nights,
        dates=dates,
        detections=document.detections,
        series=[_series(one, number, dates) for number, one in enumerate(document.series)],
        nav=Markup(nav),
        style=page.source("style.css") + page.source("nightly.css") + page.source("trends.css") + Markup(nav_style),
        script=page.source("js/filter.js"),
    )


def _change(change: TrendChange) -> ChangeView:
    times = present(change.before_s), present(change.now_s)
    states = present(change.before), present(change.now)
    before, now = map(_seconds, times) if times[0] is not None else (state or "not in the suite" for state in states)
    setting = f"{change.lock}, {', '.join(change.faults) or 'no faults'}"
    return ChangeView(change.scenario, change.cluster, setting, before, now, present(change.why) or "")


def _headline(changes: list[tuple[str, str, list[ChangeView]]], *, compared: bool) -> str:
    if not compared:
        return "Nothing to compare yet"
    return ", ".join(f"{len(some)} {title.lower()}" for title, _, some in changes) or "Nothing changed"


def _judgement(changes: list[tuple[str, str, list[ChangeView]]], *, compared: bool) -> str:
    tones = {tone for _, tone, _ in changes}
    if "invalid" in tones:
        return "invalid"
    return "unknown" if "unknown" in tones or not compared else "valid"


def _series(one: TrendsSeries, number: int, dates: Sequence[str]) -> SeriesView:
    for name in ("rate", "found_s", "runs"):
        if len(values := getattr(one, name)) != len(dates):
            place = f"the document of the trends: series[{number}].{name}"
            raise DocumentError(f"{place}: expected {len(dates)} values, one a nightly run, got {len(values)}")
    rates, times, runs = one.rate, one.found_s, one.runs
    rate_labels = [
        f"{date}: {_percent(rate)} of {words.count(some)}" for date, rate, some in zip(dates, rates, runs, strict=True)
    ]
    time_labels = [f"{date}: {_seconds(time)}" for date, time in zip(dates, times, strict=True)]
    return SeriesView(
        lock=one.lock,
        faults=", ".join(one.faults) or "none",
        cluster=one.cluster,
        rate=_chart("rate", rates, 1.0, rate_labels, _columns),
        last_rate=_percent(rates[-1]) if rates else "–",
        found=_chart(
            "found", times, max((time for time in times if time is not None), default=0.0), time_labels, _line
        ),
        last_found=_seconds(times[-1]) if times else "–",
    )


def _chart(
    name: str, values: Values, most: float, labels: list[str], draw: Callable[[list[tuple[float, float] | None]], str]
) -> Markup:
    """Draw a chart; its label contains the values, and each value has a tooltip."""
    step = (WIDTH - 2 * EDGE) / max(1, len(values))
    room = HEIGHT - 2 * EDGE
    points = [
        None if value is None else (EDGE + step * (i + 0.5), HEIGHT - EDGE - room * (value / most if most else 0))
        for i, value in enumerate(values)
    ]
    tips = "".join(
        f'<rect class="tip" x="{EDGE + step * i:.1f}" y="0" width="{step:.1f}" height="{HEIGHT}">'
        f"<title>{escape(text)}</title></rect>"
        for i, text in enumerate(labels)
    )
    floor = f'<path class="floor" d="M{EDGE} {HEIGHT - EDGE}H{WIDTH - EDGE}"/>'
    return Markup(
        f'<svg class="chart {name}" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape("; ".join(labels))}">'
        f"{floor}{draw(points)}{tips}</svg>"
    )


def _columns(points: list[tuple[float, float] | None]) -> str:
    """Draw a column for each nightly run. A violation rate of 0 is a flat column; a missing value has no column."""
    width = min(WIDEST, (WIDTH - 2 * EDGE) / max(1, len(points)) * 0.6)
    floor = HEIGHT - EDGE
    return "".join(
        f'<rect class="{"none" if y >= floor else "some"}" x="{x - width / 2:.1f}" y="{min(y, floor - 2):.1f}" '
        f'width="{width:.1f}" height="{max(2.0, floor - y):.1f}"/>'
        for x, y in (point for point in points if point)
    )


def _line(points: list[tuple[float, float] | None]) -> str:
    """Draw a line through the values of consecutive nightly runs, and a dot on each."""
    path, pen = "", "M"
    for point in points:
        path += f"{pen}{point[0]:.1f} {point[1]:.1f}" if point else ""
        pen = "L" if point else "M"
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in (point for point in points if point))
    return f'<path class="line" d="{path}"/>{dots}' if path else ""


def _percent(rate: float | None) -> str:
    return "–" if rate is None else f"{rate:.0%}"


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:,.2f} s"
