"""Write the report of one run: a self-contained HTML file that needs neither a network nor a server."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

from markupsafe import Markup

from harness.documents import DocumentError
from harness.files import write_file
from harness.wording import SAFETY

from . import certainty, measures, model, page, run_plots, sequence, timeline, timeline_text, untraced, words
from .columns import compress
from .model import RunView

__all__ = ["DocumentError", "render", "write"]

SCRIPTS: Final = (
    "data.js", "layout.js", "draw.js", "draw_faults.js", "draw_servers.js", "draw_tokens.js", "hover.js", "cursor.js",
    "find.js", "interact.js", "address.js", "start.js",
)  # fmt: skip
SEQUENCE_SCRIPTS: Final = (
    "sequence_data.js", "sequence_rows.js", "sequence_draw.js", "sequence_step.js", "sequence_hosts.js",
    "sequence_find.js", "sequence_groups.js", "sequence_address.js", "sequence.js",
)  # fmt: skip
SIMULATOR: Final = "sim"
SHOWN: Final = 20
"""The most violations of one checker that the page shows; results.json has the others."""
WORDS: Final = {"valid": "Safe in this run", "invalid": "Violation found", "unknown": "Unknown"}
QUALIFIED: Final = {
    "safe with fencing": "Safe with fencing in this run",
    "valid except for known limits": "Safe in this run, except for known limits",
}
"""Headings of verdicts that say more than valid."""
BLAME: Final = {
    "service": "Cause: the lock service granted what it had promised to another client",
    "clock": "Cause: server clocks jumped, so leases expired early",
    "client": "Cause: the client acted after its lease had expired",
}


def write(run_folder: Path) -> Path:
    """Write ``report.html`` and its pictures into ``run_folder``; raises :class:`DocumentError`."""
    run = model.load(run_folder)
    path = run_folder / "report.html"
    write_file(path, render(run, run_folder))
    return path


def heading(judgement: str, verdict: str) -> str:
    """Return the heading of a run with this ``verdict`` (as its document words it)."""
    return QUALIFIED.get(verdict) or WORDS[judgement]


def render(run: RunView, pictures: Path | None = None) -> str:
    """Render the page; with ``pictures``, also save the plots as files there."""
    facts = timeline.find_facts(run)
    data = timeline.build(run, facts)
    measured = measures.measure(run.history)
    virtual = run.backend == SIMULATOR
    return page.render(
        "report.html",
        {"at": partial(words.at, origin=run.history.origin), "span": words.span, "told": words.stats},
        run=run,
        sure=certainty.of_run(run.judgement),
        reasons=words.unsaid(run.unknown_because, run.summary),
        word=heading(run.judgement, run.verdict),
        safety=SAFETY.get(run.safety, ""),
        blame=BLAME,
        shown=SHOWN,
        **timeline_text.canvas_text(data),
        measured=measured,
        figures=measures.figures(measured, virtual=virtual),
        virtual=" (virtual)" if virtual else "",
        virtual_note=words.VIRTUAL,
        plots=run_plots.draw(run, measured, pictures),
        data=Markup(compress(data)),
        **_sequence(run, facts, data["offsets"]),
        untraced=untraced.reason(run),
        left_out=untraced.left_out(run),
        style=page.source("style.css") + page.source("run.css"),
        script=Markup("\n").join(page.source(f"js/{name}") for name in SCRIPTS),
    )


def _sequence(run: RunView, facts: timeline.RunFacts, offsets: timeline.ClockSteps) -> dict[str, Markup | None]:
    """Return the values of the message viewer; None each for a run whose messages were not kept."""
    data = sequence.build(run, facts, offsets)
    if data is None:
        return {"sequence": None, "sequence_script": None, "sequence_style": None}
    return {
        "sequence": Markup(compress(data)),
        "sequence_script": Markup("\n").join(page.source(f"js/{name}") for name in SEQUENCE_SCRIPTS),
        "sequence_style": page.source("sequence.css"),
    }
