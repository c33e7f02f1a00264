"""Parts that the reports of a bisection and of a differential study have in common: their files, versions and
stories."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from harness.documents import BisectDocument, VersionsDocument
from harness.documents.story import Story
from harness.files import write_file

from . import markdown, page
from .document import known_versions


def write(folder: Path, name: str, *, text: str, html: str) -> Path:
    """Write a report as Markdown and as a page into ``folder``, and return the path of the page."""
    write_file(folder / f"{name}.md", text)
    path = folder / f"{name}.html"
    write_file(path, html)
    return path


def render(template: str, view: object, document: BisectDocument | VersionsDocument) -> str:
    """Return the page of a view."""
    return page.render(
        template,
        {},
        view=view,
        found=document,
        versions=known_versions(document.versions),
        style=page.source("style.css") + page.source("run.css") + page.source("hunt.css"),
    )


def story_lines(steps: Iterable[tuple[str, str]], story: Story) -> Iterator[str]:
    """Yield the Markdown of a story, whose steps are pairs of a time and a text."""
    for number, (at, sentence) in enumerate(steps, 1):
        yield f"{number}. {markdown.escaped(f'{at} {sentence}'.strip())}"
    if story.ending:
        yield from ("", markdown.escaped(story.ending))


def version_lines(document: BisectDocument | VersionsDocument) -> Iterator[str]:
    """Yield the Markdown of the section with the versions and the command."""
    yield from ("", "## Versions", "")
    yield from (f"- {markdown.escaped(f'{name} {version}')}" for name, version in known_versions(document.versions))
    if document.command:
        yield f"- found with {markdown.code(document.command)}"
