"""The report of one run: one HTML file that needs nothing else, neither a network nor a server."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

from markupsafe import Markup

from reports import measures, model, page, run_plots, timeline, timeline_text, words
from reports.model import ReportError, RunView

__all__ = ["ReportError", "render", "write"]

SCRIPTS: Final = (
    "data.js", "layout.js", "draw.js", "draw_faults.js", "draw_servers.js", "draw_tokens.js", "hover.js", "interact.js",
    "start.js",
)  # fmt: skip
SHOWN: Final = 20
"""The pieces of evidence of one checker that the page shows; the others are in results.json."""
WORDS: Final = {"valid": "Safe in this run", "invalid": "Violation found", "unknown": "Unknown"}
CHECKER_WORDS: Final = {"valid": "Holds", "invalid": "Violated", "unknown": "Unknown"}
SAFETY: Final = {
    "E": "efficiency only, two holders are possible",
    "F": "safe where the resource checks fences",
    "F?": "would be safe with fencing, but has no usable token",
    "X": "broken even without faults",
}
BLAME: Final = {
    "service": "To blame: the service, which broke what it had promised",
    "clock": "To blame: the clocks, by which the service had kept its word",
    "client": "To blame: the client, which acted after its lease had ended",
}


def write(run_folder: Path) -> Path:
    """Write ``report.html`` and its pictures into ``run_folder``; raises :class:`ReportError`."""
    run = model.load(run_folder)
    path = run_folder / "report.html"
    path.write_text(render(run, run_folder), encoding="utf-8")
    return path


def render(run: RunView, pictures: Path | None = None) -> str:
    """The page; the plots are saved as files into ``pictures`` too, if given."""
    data = timeline.build(run)
    measured = measures.measure(run.history)
    return page.render(
        "report.html",
        {"at": partial(words.at, origin=run.history.origin), "span": words.span, "told": words.stats},
        run=run,
        word=WORDS[run.judgement],
        checker_words=CHECKER_WORDS,
        safety=SAFETY.get(run.safety, ""),
        blame=BLAME,
        shown=SHOWN,
        **timeline_text.said(data),
        measured=measured,
        figures=measures.figures(measured),
        plots=run_plots.draw(run, measured, pictures),
        data=embed(data),
        style=page.source("style.css") + page.source("run.css"),
        script=Markup("\n").join(page.source(f"js/{name}") for name in SCRIPTS),
    )


def embed(data: timeline.Data) -> Markup:
    """JSON that cannot end the script element it stands in."""
    return Markup(
        timeline.encode(data).replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    )
