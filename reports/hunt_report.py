"""Write the report of a hunt: the failures found, step by step, what was searched, and what was never reached."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from harness import documents
from harness.documents import HuntDocument, load_hunt, present
from harness.documents.hunt import COUNTEREXAMPLE, HuntFinding
from harness.documents.messages import LOG, TRACE
from harness.files import write_file
from harness.wording import counted

from . import certainty, page, words
from .document import known_versions, plain
from .measures import KeyFigure
from .story import story_addresses, story_steps

NAME: Final = "hunt"
NO_FAULT: Final = "none"
PHASES: Final = {
    "free": "free", "asked for": "requested", "held": "held", "held and asked for": "held and requested",
    "releasing": "being released", "unsure": "in an unknown state",
}  # fmt: skip
"""Phases of a lock when a fault strikes, in their usual order, in words."""
SEEN: Final = {
    "states": "combined states of clients, server keys and faults",
    "events": "steps of clients and their requests at which a fault was injected",
    "outcomes": "ways in which calls of the lock and the resource ended",
}
"""Labels of the counts of coverage, without those that have a picture."""
NAMES: Final = {
    "most_faults": "maximum faults in a schedule", "look_for": "checkers that count", "clients": "maximum clients",
    "ttl": "ttl, seconds", "schedules": "maximum schedules in a round", "thorough": "continue after a failure",
    "stop_at_first": "stop at the first failure",
}  # fmt: skip
UNSAID: Final = {"look_for": "all", "ttl": "chosen by the search"}
"""Meanings of empty settings."""
Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class FindingView:
    """One failure.

    ``replay``, ``scenario`` and ``toml`` belong to its counterexample; ``link`` leads to its report, or to its folder.
    Each is empty if it does not exist, or is not in this store.
    """

    broken: tuple[str, ...]
    known: bool
    limits: dict[str, tuple[str, ...]]
    steps: Pairs
    """The time and text of each step."""
    addresses: tuple[str, ...]
    """The address of each step in the report of the run, relative to the page; empty without a report or a time."""
    ending: str
    summary: str
    how: str
    replay: str
    scenario: str
    link: str
    toml: str


@dataclass(frozen=True, slots=True)
class Matrix:
    """Reached combinations: rows of a name and one cell for each column; None if another cell has the same value."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[bool | None, ...]], ...]

    @property
    def reached(self) -> int:
        return sum(cell is True for _, cells in self.rows for cell in cells)

    @property
    def total(self) -> int:
        return sum(cell is not None for _, cells in self.rows for cell in cells)


@dataclass(frozen=True, slots=True)
class HuntView:
    """A whole hunt; ``moments`` and ``pairs`` are None if the document does not contain them."""

    lock: str
    findings: tuple[FindingView, ...]
    failed: bool
    """A finding counts: known limits do unless they are accepted."""
    interrupted: bool
    judged: int
    schedules: int
    rounds: int
    seconds: float
    best: float
    seen: tuple[tuple[str, int], ...]
    moments: Matrix | None
    pairs: Matrix | None
    never: tuple[str, ...]
    errors: tuple[tuple[str, int], ...]
    given_up: tuple[str, ...]
    options: Pairs
    versions: Pairs
    command: str
    started_at: str

    @property
    def judgement(self) -> str:
        """Return the verdict as in a run's report, and as in the command's exit status: a complete search without
        findings that count is valid."""
        if self.failed:
            return "invalid"
        return "unknown" if self.interrupted or not self.judged else "valid"

    @property
    def headline(self) -> str:
        known = sum(found.known for found in self.findings)
        new = len(self.findings) - known
        failures = f"{new or 'No'} failures were" if new > 1 else f"{'A' if new else 'No'} failure was"
        limits = f"{known} known limits of it were" if known > 1 else "a known limit of it was"
        text = f"{failures} found in {self.lock}"
        return f"{text}{',' if new else ', but'} {'and ' if new else ''}{limits} reached" if known else text


def write(folder: Path) -> Path:
    """Write ``hunt.html`` beside ``hunt.json``, and return its path.

    The page links to what the store, two levels above, has of the findings. Raises DocumentError for a malformed
    document, OSError if the file cannot be written.
    """
    view = read(load_hunt(folder / f"{NAME}.json"), folder)
    path = folder / f"{NAME}.html"
    write_file(path, render(view))
    return path


def render(view: HuntView) -> str:
    return page.render(
        "hunt.html",
        {},
        hunt=view,
        figures=_figures(view),
        seen=SEEN,
        sure=certainty.of_hunt(len(view.findings), view.judged, view.best),
        style=page.source("style.css") + page.source("run.css") + page.source("hunt.css"),
    )


# The document as view data.


def read(document: HuntDocument, folder: Path) -> HuntView:
    """Return the view of a hunt's document that is stored in ``folder``."""
    options, coverage = document.asked, document.coverage
    moments, pairs = present(document.moments), present(document.pairs)
    families = sorted({*options.faults, *(name for name, _ in moments or ())} - {NO_FAULT})
    return HuntView(
        lock=document.lock,
        findings=tuple(_finding(found, folder) for found in document.findings),
        failed=document.failed,
        interrupted=document.interrupted,
        judged=document.judged,
        schedules=document.schedules,
        rounds=document.rounds,
        seconds=document.seconds,
        best=document.best,
        seen=tuple((name, getattr(coverage, name)) for name in SEEN),
        moments=_moments(families, moments, options.clients) if moments is not None and families else None,
        pairs=_pairs(families, pairs) if pairs is not None and families and options.most_faults != 1 else None,
        never=document.never,
        errors=tuple(document.errors.items()),
        given_up=document.given_up,
        options=tuple(_settings(documents.plain(options))),
        versions=known_versions(document.versions),
        command=document.command,
        started_at=document.started_at,
    )


def _moments(families: list[str], reached: Sequence[tuple[str, str]], clients: int) -> Matrix:
    """Return families of faults by phase of the lock when they struck. A single client cannot hold and request a
    key."""
    possible = [phase for phase in PHASES if clients != 1 or phase != "held and asked for"]
    phases = list(dict.fromkeys([*possible, *(phase for _, phase in reached)]))
    rows = tuple((name, tuple((name, phase) in reached for phase in phases)) for name in families)
    return Matrix(tuple(PHASES.get(phase, phase) for phase in phases), rows)


def _pairs(families: list[str], reached: Sequence[tuple[str, str]]) -> Matrix:
    """Return pairs of families that struck in the same schedule; each pair once, a repeated family on the diagonal."""
    there = {frozenset(pair) for pair in reached}
    rows = tuple(
        (name, tuple(frozenset((name, other)) in there if other <= name else None for other in families))
        for name in families
    )
    return Matrix(tuple(families), rows)


def _finding(found: HuntFinding, folder: Path) -> FindingView:
    given = found.folder or ""
    run = _in_store(given, folder)
    link = _link(run, folder) if run is not None else ""
    shows = link.endswith(".html") and run is not None and any((run / name).is_file() for name in (LOG, TRACE))
    return FindingView(
        broken=found.broken,
        known=found.known,
        limits=found.limits,
        steps=story_steps(found.story),
        addresses=tuple(link + one if shows and one else "" for one in story_addresses(found.story)),
        ending=found.story.ending,
        summary=found.summary,
        how=_origin(found),
        replay=found.command("replay", "--cluster", "docker") if given else "",
        scenario=found.command("scenario run") if given else "",
        link=link,
        toml=_text(run / COUNTEREXAMPLE) if run is not None else "",
    )


def _origin(found: HuntFinding) -> str:
    size = f"{counted(found.clients, 'client')}, {counted(len(found.faults), 'fault')}"
    if not found.round:
        return f"Known from an earlier hunt; it still fails: {size}."
    where = f"Found in schedule {found.schedule:,} of round {found.round:,}"
    return f"{where}, then shrunk in {found.shrinks:,} more executions: {size}."


def _in_store(given: str, folder: Path) -> Path | None:
    """Return the folder of a run, ``<store>/<lock>/<run>``, in the current store of the hunt's ``folder``; None if
    missing.

    The path in the hunt's document may be relative, or refer to a former place of the store.
    """
    names = Path(given).parts[-2:]
    store = folder.absolute().parent.parent
    run = store.joinpath(*names)
    inside = len(names) == 2 and run.resolve().is_relative_to(store.resolve() / names[0])
    return run if inside and run.is_dir() else None


def _link(run: Path, folder: Path) -> str:
    report = run / "report.html"
    target = report if report.is_file() else run
    return quote(Path(os.path.relpath(target, folder.absolute())).as_posix())


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


def _settings(options: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the request's settings in words, without empty ones."""
    for name, text in ((name, plain(value)) for name, value in options.items()):
        if name in UNSAID and options[name] in ("", 0, [], None):
            yield NAMES.get(name, name), UNSAID[name]
        elif name != "lock" and text and options[name] is not None:
            yield NAMES.get(name, name.replace("_", " ")), {"true": "yes", "false": "no"}.get(text, text)


def _figures(view: HuntView) -> list[KeyFigure]:
    """Return the figures of the search; none if there was no search."""
    if not view.schedules:
        return []
    rate = f"{view.schedules / view.seconds:.1f} a second" if view.seconds else ""
    return [
        KeyFigure("Schedules", words.count(view.schedules), rate),
        KeyFigure("Judged", words.count(view.judged), "schedules with a verdict"),
        KeyFigure("Rounds", words.count(view.rounds), "each a search from its own seed"),
        KeyFigure("Took", words.span(round(view.seconds * 1e9)), "of real time"),
        KeyFigure("Nearest miss", f"{view.best:.2f}", "2 or more means two holders at once"),
    ]
