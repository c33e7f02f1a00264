"""Write the report of a differential study: Markdown, and a self-contained page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.documents import VersionsDocument
from harness.documents.versions import VersionCell, VersionDifference
from harness.wording import counted

from . import markdown, study_report
from .story import story_steps

NAME: Final = "versions"
TONES: Final = {"violated": "invalid", "valid": "valid", "unknown": "unknown", "missing": "unknown"}
WORDS: Final = {"violated": "violated", "valid": "valid", "unknown": "unknown", "missing": "cannot be installed"}


@dataclass(frozen=True, slots=True)
class CellView:
    """A cell of the table of plans and releases."""

    tone: str
    word: str
    note: str


@dataclass(frozen=True, slots=True)
class DifferenceView:
    """A failure with its story; ``steps`` are pairs of a time and a text."""

    difference: VersionDifference
    steps: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class VersionsView:
    """The report in words: a row for each plan, a column for each release."""

    document: VersionsDocument
    rows: tuple[tuple[str, tuple[CellView, ...]], ...]
    differences: tuple[DifferenceView, ...]
    common: tuple[DifferenceView, ...]
    reasons: tuple[tuple[str, str], ...]
    """The plan and release, and the reason, of each cell without an answer."""

    @property
    def title(self) -> str:
        return f"{self.document.lock} with {counted(len(self.document.releases), 'release')} of {self.document.package}"

    @property
    def judgement(self) -> str:
        if self.differences or self.common:
            return "invalid"
        return "unknown" if self.reasons or self.document.interrupted else "valid"


def write(document: VersionsDocument, folder: Path) -> Path:
    """Write ``versions.html`` and ``versions.md`` into ``folder``, and return the path of the page."""
    view = read(document)
    return study_report.write(folder, NAME, text=text(view), html=render(view))


def read(document: VersionsDocument) -> VersionsView:
    """Return the view of a study's document. A cell that was not reached is empty."""
    cells = {(one.plan, one.version): one for one in document.cells}
    return VersionsView(
        document,
        tuple(
            (plan.name, tuple(_cell(cells.get((plan.name, version))) for version in document.releases))
            for plan in document.plans
        ),
        tuple(_difference(one) for one in document.differences),
        tuple(_difference(one) for one in document.common),
        tuple((f"{one.plan}, {one.version}", one.reason) for one in document.cells if one.reason),
    )


def _cell(found: VersionCell | None) -> CellView:
    if found is None:
        return CellView("unknown", "not run", "")
    invalid = dict.fromkeys(name for run in found.runs for name in run.invalid)
    failed = sum(bool(run.invalid) for run in found.runs)
    notes = [found.server] if found.server else []
    notes += [f"{', '.join(invalid)}; {failed} of {counted(len(found.runs), 'run')}"] if invalid else []
    note = "; ".join(notes)
    return CellView(TONES[found.state], WORDS[found.state], note)


def _difference(found: VersionDifference) -> DifferenceView:
    return DifferenceView(found, story_steps(found.story))


def render(view: VersionsView) -> str:
    """Return the page."""
    return study_report.render(f"{NAME}.html", view, view.document)


def text(view: VersionsView) -> str:
    """Return the report as Markdown."""
    return "\n".join([*_lines(view), ""])


def _lines(view: VersionsView) -> Iterator[str]:
    found = view.document
    yield from (f"# {markdown.escaped(view.title)}", "", markdown.escaped(found.conclusion), "")
    head = ["plan", *map(markdown.escaped, found.releases)]
    yield from markdown.table(
        head,
        ([markdown.escaped(name), *(markdown.escaped(_words(cell)) for cell in cells)] for name, cells in view.rows),
    )
    for heading, failures in (("What differs", view.differences), ("The same in every release", view.common)):
        if failures:
            yield from ("", f"## {heading}")
            for one in failures:
                yield from _story(one)
    if view.reasons:
        yield from ("", "## Unknown", "")
        yield from (f"- {markdown.escaped(f'{where}: {reason}')}" for where, reason in view.reasons)
    yield from study_report.version_lines(found)


def _words(cell: CellView) -> str:
    return f"{cell.word}: {cell.note}" if cell.note else cell.word


def _story(one: DifferenceView) -> Iterator[str]:
    found = one.difference
    yield from ("", f"### {markdown.escaped(f'{found.plan}: {found.checker}')}", "", markdown.escaped(found.sentence))
    yield from ("", markdown.escaped(f"With {found.version} and seed {found.seed}: {found.summary}"), "")
    yield from study_report.story_lines(one.steps, found.story)
