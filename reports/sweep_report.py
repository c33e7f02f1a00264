"""Write the report of a sweep: a self-contained page, the picture as files, and the points as CSV."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Final

from markupsafe import Markup

from harness.documents import SweepDocument, plain
from harness.files import write_file

from . import page, plots, sweep_plot, words
from .sweep_finding import finding

NAME: Final = "sweep"
COLUMNS: Final = (
    "cluster", "ttl", "hold", "pause", "asked", "runs", "violated", "valid", "unknown", "stalled", "rate", "rate_low",
    "rate_high", "writes", "lost", "lost_fraction", "lost_least", "lost_most", "first_s", "overlaps",
    "acquires_per_second", "lease_s",
)  # fmt: skip


def write(document: SweepDocument, folder: Path) -> Path:
    """Write sweep.html, sweep.svg, sweep.png and sweep.csv into ``folder``; ``document`` is the result of a sweep."""
    write_file(folder / f"{NAME}.csv", table(document))
    svg = sweep_plot.draw(document.points, folder, NAME)
    path = folder / f"{NAME}.html"
    write_file(path, _page(document, plots.inline(svg, NAME) if svg else ""))
    return path


def table(document: SweepDocument) -> str:
    """Return the points as CSV, one line each; durations are in seconds, and a missing value is an empty field."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, extrasaction="ignore")
    writer.writeheader()
    writer.writerows(plain(point) for point in document.points)
    return text.getvalue()


def _page(document: SweepDocument, svg: str) -> str:
    filters = {"percent": words.percent, "seconds": _seconds}
    return page.render(
        "sweep.html",
        filters,
        sweep=document,
        svg=Markup(svg),
        style=page.source("style.css"),
        about=about(document),
        finding=finding(document),
    )


def about(document: SweepDocument) -> str:
    """Describe the sweep in one sentence."""
    who = "a client" if document.fault.startswith("client-") else "servers"
    target = document.target
    whom = "chosen at random each time" if target == "one" else target
    fencing = "" if document.fencing == "off" else f", fencing {document.fencing}"
    return (
        f"{document.clients} {document.discipline} clients with the workload {document.workload}{fencing}; "
        f"one pause of {who} ({whom}) in every {document.every:g} s; "
        f"{document.seeds} runs of {document.time_limit:g} s for each point, with seeds from {document.seed} on."
    )


def _seconds(value: float | None) -> str:
    return "–" if value is None else words.span(round(value * 1e9))
