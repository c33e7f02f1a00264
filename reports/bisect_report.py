"""Write the report of a bisection: Markdown for an issue tracker, and a self-contained page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.documents import BisectDocument
from harness.documents.bisect import BisectTrial

from . import markdown, study_report
from .story import story_steps

NAME: Final = "bisect"
WORDS: Final = {
    "bad": "the failure happens", "good": "no failure", "unknown": "unknown, skipped",
    "missing": "cannot be installed, skipped",
}  # fmt: skip
TONES: Final = {"bad": "invalid", "good": "valid", "unknown": "unknown", "missing": "unknown"}


@dataclass(frozen=True, slots=True)
class TrialView:
    """One line of the table of releases."""

    version: str
    tone: str
    word: str
    seconds: str
    note: str
    changed: bool


@dataclass(frozen=True, slots=True)
class BisectView:
    """The report in words."""

    document: BisectDocument
    trials: tuple[TrialView, ...]
    """In the order of the releases."""
    steps: tuple[tuple[str, str], ...]
    untried: int
    harm: str
    """Summary of the failure, of a release that has it."""

    @property
    def title(self) -> str:
        found = self.document
        if found.first_changed is None:
            return f"{found.lock}: a failure changes between {found.package} {found.before} and {found.remaining[-1]}"
        verb = "introduces" if self.introduced else "fixes"
        return f"{found.lock}: {found.package} {found.first_changed} {verb} a failure"

    @property
    def introduced(self) -> bool:
        """True if the older releases are without the failure."""
        return self.document.releases[-1] == self.document.bad

    @property
    def judgement(self) -> str:
        if self.document.first_changed is None:
            return "unknown"
        return "invalid" if self.introduced else "valid"


def write(document: BisectDocument, folder: Path) -> Path:
    """Write ``bisect.html`` and ``bisect.md`` into ``folder``, and return the path of the page."""
    view = read(document)
    return study_report.write(folder, NAME, text=text(view), html=render(view))


def read(document: BisectDocument) -> BisectView:
    """Return the view of a bisection's document."""
    order = {version: number for number, version in enumerate(document.releases)}
    tried = sorted(document.trials, key=lambda one: order.get(one.version, -1))
    return BisectView(
        document,
        tuple(_trial(one, document) for one in tried),
        story_steps(document.story),
        len(document.releases) - len({one.version for one in tried}),
        next((one.summary for one in tried if one.version == document.story_version), ""),
    )


def _trial(one: BisectTrial, document: BisectDocument) -> TrialView:
    seed = f"seed {one.seed}" if one.seed is not None else ""
    note = one.reason or ", ".join([*one.invalid, *([seed] if seed else [])])
    word = WORDS[one.outcome]
    return TrialView(
        one.version, TONES[one.outcome], word, f"{one.seconds:.1f} s", note, one.version == document.first_changed
    )


def render(view: BisectView) -> str:
    """Return the page."""
    return study_report.render(f"{NAME}.html", view, view.document)


def text(view: BisectView) -> str:
    """Return the report as Markdown, ready for an issue."""
    return "\n".join([*_lines(view), ""])


def _lines(view: BisectView) -> Iterator[str]:
    found = view.document
    yield f"# {markdown.escaped(view.title)}"
    yield ""
    yield markdown.escaped(found.conclusion)
    if view.harm:
        yield ""
        yield markdown.escaped(f"With {found.package} {found.story_version}: {view.harm}")
    yield from _releases(view)
    yield from _story(view)
    if found.repeat:
        yield from ("", "## Repeat it", "", *markdown.block(found.repeat, "sh"))
    yield from _changelog(view)
    yield from study_report.version_lines(found)


def _releases(view: BisectView) -> Iterator[str]:
    yield from ("", "## Releases", "")
    rows = (
        [f"**{one.version}**" if one.changed else one.version, one.word, markdown.escaped(one.note), one.seconds]
        for one in view.trials
    )
    yield from markdown.table(["release", "result", "details", "time"], rows)
    if view.untried:
        yield from ("", f"{view.untried} of the {len(view.document.releases)} releases did not need to be tried.")


def _story(view: BisectView) -> Iterator[str]:
    if not view.steps and not view.document.story.ending:
        return
    yield from ("", f"## What happens with {markdown.escaped(view.document.package)} {view.document.story_version}", "")
    yield from study_report.story_lines(view.steps, view.document.story)


def _changelog(view: BisectView) -> Iterator[str]:
    changes = view.document.changelog
    if changes is None:
        return
    yield from ("", "## Changelog", "", f"From {markdown.code(changes.source)}:", "")
    yield from markdown.block(changes.lines, "text")
    if changes.omitted:
        yield from ("", f"{changes.omitted} more lines are left out.")
