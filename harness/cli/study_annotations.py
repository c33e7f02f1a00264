"""Annotations of studies in GitHub Actions: a line for each violated or unknown result, and one for the conclusion."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from harness.documents import BisectDocument, ComparisonDocument, SweepDocument, VersionsDocument
from harness.documents.bisect import BisectTrial
from harness.documents.comparison import CellState, ComparedCell
from harness.documents.sweep import SweepPoint
from harness.wording import as_sentence, counted, first_sentence

from .annotations import annotate, annotate_conclusion, lock_place

VIOLATED: Final[frozenset[CellState]] = frozenset({"unsafe", "unavailable"})
"""States of a comparison's cell that are annotated as errors."""


def annotate_sweep(document: SweepDocument, page: Path) -> None:
    """Annotate each point with a violated or stalled run, each that is unknown, and the conclusion."""
    from harness.reports.sweep_finding import finding

    place = lock_place(document.lock)
    for point in document.points:
        if sentence := _violation(point):
            annotate(False, f"{document.lock}: {point_words(point)}", sentence, page, place)
        elif sentence := _doubt(point):
            annotate(None, f"{document.lock}: {point_words(point)}", sentence, page, place)
    found = finding(document)
    annotate_conclusion(document.lock, f"{found.headline}. {found.where}".rstrip(), page, place)


def annotate_comparison(document: ComparisonDocument, page: Path) -> None:
    """Annotate each cell that is unsafe, unavailable or unknown, and the conclusion."""
    from harness.reports import comparison_answer, comparison_view

    for lock in document.locks:
        place = lock_place(lock.name)
        for nemesis, cell in lock.cells.items():
            if cell.state in VIOLATED or cell.state == "unknown":
                valid = False if cell.state in VIOLATED else None
                annotate(valid, f"{lock.name}, {nemesis}", _cell_sentence(cell), page, place)
    annotate_conclusion("compare", f"{comparison_answer.headline(comparison_view.read(document))}.", page)


def annotate_versions(document: VersionsDocument, page: Path) -> None:
    """Annotate each failure that a release has, each release without an answer, and the conclusion."""
    place = lock_place(document.lock)
    for found in (*document.differences, *document.common):
        annotate(False, f"{document.lock}, {found.plan}", found.sentence, page, place)
    for cell in document.cells:
        if cell.state in ("unknown", "missing"):
            title = f"{document.lock}, {cell.plan}, {document.package} {cell.version}"
            annotate(None, title, as_sentence(cell.reason or cell.state), page, place)
    annotate_conclusion(document.lock, document.conclusion, page, place)


def annotate_bisection(document: BisectDocument, page: Path) -> None:
    """Annotate each release in which the failure happens, each without an answer, and the conclusion."""
    place = lock_place(document.lock)
    for trial in document.trials:
        if trial.outcome != "good":
            valid = False if trial.outcome == "bad" else None
            title = f"{document.lock}, {document.package} {trial.version}"
            annotate(valid, title, _trial_sentence(trial), page, place)
    annotate_conclusion(document.lock, document.conclusion, page, place)


def point_words(point: SweepPoint) -> str:
    """Return where in the grid a point is."""
    return f"{point.cluster}, ttl {point.ttl:g} s, hold {point.hold:g} s, pause {point.pause:g} s"


def _violation(point: SweepPoint) -> str:
    """Return the violations of a point in a sentence; empty without one."""
    runs = f"of {counted(point.violated + point.valid, 'run')}"
    first = "" if point.first_s is None else f", first after {point.first_s:.1f} s"
    lost = f"; {counted(point.lost, 'update')} lost" if point.lost else ""
    parts = [f"{point.violated} {runs} violated{first}{lost}."] if point.violated else []
    return " ".join([*parts, *([f"{point.stalled} {runs} stalled."] if point.stalled else [])])


def _doubt(point: SweepPoint) -> str:
    """Return in a sentence why a point is unknown; empty if it is not."""
    if point.unknown:
        return f"{point.unknown} of {counted(point.runs, 'run')} unknown: {as_sentence(point.why_unknown)}"
    missing = point.asked - point.runs
    return f"{missing} of {counted(point.asked, 'run')} not made." if missing else ""


def _cell_sentence(cell: ComparedCell) -> str:
    runs = f" in {cell.counts[cell.state]} of {counted(cell.runs, 'run')}" if cell.state in cell.counts else ""
    return as_sentence(f"{cell.state}{runs}{f': {first_sentence(cell.why)}' if cell.why else ''}")


def _trial_sentence(trial: BisectTrial) -> str:
    if trial.outcome == "bad":
        return first_sentence(trial.summary) or f"The failure happens: {', '.join(trial.invalid)}."
    return as_sentence(trial.reason or trial.outcome)
