"""Write the result of a hunt as lines of plain text, for a terminal and for the message of a failed test."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Final

from harness.documents import HuntDocument, plain
from harness.documents.hunt import COUNTEREXAMPLE, HuntFinding
from harness.wording import counted

PAGE: Final = "hunt.html"
MOST_NEVER: Final = 8
"""The most sentences about items that were never reached."""


def result_lines(document: HuntDocument) -> list[str]:
    """Return the result of a hunt as lines of text."""
    # The failure of an earlier hunt may end one before any search.
    ended = document.found and (document.asked.stop_at_first or not document.schedules)
    searched = () if document.new or ended else _nothing(document)
    return [*_found(document), *searched, *_doubts(document), *_page(document)]


def _found(document: HuntDocument) -> Iterator[str]:
    for number, found in enumerate(document.findings):
        if number:
            yield ""
        yield _headline(document, found)
        yield from (f"  {line}" for line in found.lines)
        yield _how(found)
        if found.folder:
            path = shlex.quote(f"{found.folder}/{COUNTEREXAMPLE}")
            yield f"counterexample: {path}"
            yield f"replay: {found.command('replay', '--cluster', 'docker')}"
            yield f"report: {found.folder}/report.html"


def _headline(document: HuntDocument, found: HuntFinding) -> str:
    what = "FAILURE FOUND"
    if found.known:
        what = "KNOWN LIMIT FOUND, and accepted" if document.accepts_limits else "KNOWN LIMIT FOUND"
    return f"{what}: {document.lock}: {', '.join(_with_limits(found))}"


def _with_limits(found: HuntFinding) -> Iterator[str]:
    """Yield the checkers, each with the documented limits that explain what it found."""
    for checker in found.broken:
        limits = found.limits.get(checker)
        yield f"{checker} ({', '.join(limits)})" if limits else checker


def _how(found: HuntFinding) -> str:
    if not found.round:
        return "known from an earlier hunt, and it still fails (--fresh: do not begin with known failures)"
    return (
        f"found in schedule {found.schedule} of round {found.round}, and shrunk in {found.shrinks} more: "
        f"{counted(found.clients, 'client')}, {counted(len(found.faults), 'fault')}"
    )


def _nothing(document: HuntDocument) -> Iterator[str]:
    seconds = max(document.seconds, 1e-3)
    yield f"NO {'OTHER ' if document.found else ''}FAILURE FOUND: {document.lock}"
    yield (
        f"{counted(document.schedules, 'schedule')} in {counted(document.rounds, 'round')} and {seconds:.1f} s "
        f"({document.schedules / seconds:.1f} a second); nearest miss: {document.best:.2f} "
        "(2 means two holders at once)"
    )
    yield "seen: " + ", ".join(f"{count:,} {what}" for what, count in plain(document.coverage).items())
    never = document.never
    if never:
        yield "never reached:"
        yield from (f"  {sentence}" for sentence in never[:MOST_NEVER])
        if len(never) > MOST_NEVER:
            yield f"  and {len(never) - MOST_NEVER} more: see hunt.html"


def _doubts(document: HuntDocument) -> Iterator[str]:
    if document.interrupted:
        yield "the hunt was interrupted"
    yield from (f"given up: {why}" for why in document.given_up)
    errors = document.errors
    if errors:
        most = max(errors, key=lambda error: (errors[error], error))
        yield f"{counted(sum(errors.values()), 'schedule')} could not be judged, most often: {most}"


def _page(document: HuntDocument) -> Iterator[str]:
    if document.folder:
        yield f"hunt: {document.folder}/{PAGE}"
