"""The report of a sweep: a page that needs nothing else, the picture by itself, and the points as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from markupsafe import Markup

from reports import page, plots, sweep_plot, words

Document = Mapping[str, Any]
NAME: Final = "sweep"
COLUMNS: Final = (
    "cluster", "ttl", "hold", "pause", "asked", "runs", "violated", "valid", "unknown", "stalled", "rate", "rate_low",
    "rate_high", "writes", "lost", "lost_fraction", "lost_least", "lost_most", "first_s", "overlaps",
    "acquires_per_second", "lease_s",
)  # fmt: skip


def write(document: Document, folder: Path) -> Path:
    """Write sweep.html, sweep.svg, sweep.png and sweep.csv into ``folder``; ``document`` is what a sweep found."""
    (folder / f"{NAME}.csv").write_text(table(document), encoding="utf-8", newline="")
    svg = sweep_plot.draw(document["points"], folder, NAME)
    path = folder / f"{NAME}.html"
    path.write_text(_page(document, plots.inline(svg, NAME)), encoding="utf-8")
    return path


def table(document: Document) -> str:
    """One line for each point, as CSV; durations in seconds, an empty field for what has no value."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, extrasaction="ignore")
    writer.writeheader()
    writer.writerows(document["points"])
    return text.getvalue()


def _page(document: Document, svg: str) -> str:
    filters = {"percent": words.percent, "seconds": _seconds}
    return page.render(
        "sweep.html", filters, sweep=document, svg=Markup(svg), style=page.source("style.css"), about=about(document)
    )


def about(document: Document) -> str:
    """What was done, in a sentence."""
    who = "a client" if document["fault"] == "client-pause" else "servers"
    target = document["target"]
    whom = "chosen by chance each time" if target == "one" else target
    fencing = "" if document["fencing"] == "off" else f", fencing {document['fencing']}"
    return (
        f"{document['clients']} {document['discipline']} clients with the workload {document['workload']}{fencing}; "
        f"once in every {document['every']:g} s {who} ({whom}) stood still for the pause; "
        f"{document['seeds']} runs of {document['time_limit']:g} s a point, seeds from {document['seed']}."
    )


def _seconds(value: float | None) -> str:
    return "–" if value is None else words.span(round(value * 1e9))
