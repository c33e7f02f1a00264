"""The page of a hunt: what was found and how it breaks, or what was searched, and what was never reached."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

from reports import page, words
from reports.document import Node, ReportError, plain, read_object
from reports.measures import Figure

NAME: Final = "hunt"
SCHEMA: Final = 1
COUNTEREXAMPLE: Final = "counterexample.toml"
NO_FAULT: Final = "none"
PHASES: Final = {
    "free": "nobody had it", "asked for": "asked for", "held": "held", "held and asked for": "held and asked for",
    "releasing": "given back", "unsure": "in doubt",
}  # fmt: skip
"""What the lock can be at when a fault strikes, in the order in which it comes to it, in words."""
SEEN: Final = {
    "states": "what clients, the servers' keys and the faults were at, at one moment",
    "events": "of clients and their requests, on which faults struck",
    "outcomes": "how calls of the lock and the resource ended",
}
"""What coverage counts, beside what has a picture of its own."""
NAMES: Final = {
    "most_faults": "faults in a schedule, at most", "look_for": "checkers that count", "clients": "clients, at most",
    "ttl": "ttl, seconds", "schedules": "schedules in a round, at most", "thorough": "rounds go on after a failure",
}  # fmt: skip
UNSAID: Final = {"look_for": "all that say invalid", "ttl": "left to the search"}
"""What is meant where a setting is empty."""
Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class FindingView:
    """One failure. ``replay``, ``scenario`` and ``toml`` are of its counterexample, ``link`` leads to its report, or
    to its folder: each is empty if there is none, or not in this store."""

    broken: tuple[str, ...]
    steps: Pairs
    """When each was, and what happened."""
    ending: str
    summary: str
    how: str
    replay: str
    scenario: str
    link: str
    toml: str


@dataclass(frozen=True, slots=True)
class Matrix:
    """What was reached: rows of a name and a cell a column; None where another cell says the same."""

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
    """A whole hunt; ``moments`` and ``pairs`` are None where the document does not say which they were."""

    lock: str
    findings: tuple[FindingView, ...]
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
    asked: Pairs
    versions: Pairs
    command: str
    started_at: str

    @property
    def judgement(self) -> str:
        """As in a run's report, and as the command's exit status: nothing found in a whole search is valid."""
        if self.findings:
            return "invalid"
        return "unknown" if self.interrupted or not self.judged else "valid"

    @property
    def headline(self) -> str:
        if len(self.findings) > 1:
            return f"{len(self.findings)} failures were found in {self.lock}"
        return f"{'A' if self.findings else 'No'} failure was found in {self.lock}"


def write(folder: Path) -> Path:
    """Write ``hunt.html`` beside ``hunt.json``, and return its path. What the store, two levels above, has of the
    findings is linked to.

    Raises ReportError for a malformed document, OSError if the file cannot be written.
    """
    view = read(read_object(folder / f"{NAME}.json"), folder)
    path = folder / f"{NAME}.html"
    path.write_text(render(view), encoding="utf-8", errors="replace")
    return path


def render(view: HuntView) -> str:
    return page.render(
        "hunt.html",
        {},
        hunt=view,
        figures=_figures(view),
        seen=SEEN,
        style=page.source("style.css") + page.source("run.css") + page.source("hunt.css"),
    )


# The document as view data.


def read(document: Node, folder: Path) -> HuntView:
    """The view of a hunt's document that is kept in ``folder``; raises ReportError."""
    if document.require("schema") != SCHEMA:
        raise ReportError(f"{document.place}: schema: expected {SCHEMA}, got {plain(document.data['schema'])}")
    document.require("findings")
    asked, coverage = document.node("asked"), document.node("coverage")
    moments, pairs = _couples(document, "moments"), _couples(document, "pairs")
    families = sorted({*asked.texts("faults"), *(name for name, _ in moments or ())} - {NO_FAULT})
    return HuntView(
        lock=document.text("lock", "unnamed lock"),
        findings=tuple(_finding(node, folder) for node in document.nodes("findings")),
        interrupted=bool(document.truth("interrupted")),
        judged=document.whole("judged") or 0,
        schedules=document.whole("schedules") or 0,
        rounds=document.whole("rounds") or 0,
        seconds=document.number("seconds") or 0.0,
        best=document.number("best") or 0.0,
        seen=tuple((name, coverage.whole(name) or 0) for name in SEEN),
        moments=_moments(families, moments, asked.whole("clients")) if moments is not None and families else None,
        pairs=_pairs(families, pairs) if pairs is not None and families and asked.whole("most_faults") != 1 else None,
        never=document.texts("never"),
        errors=_counts(document.node("errors")),
        given_up=document.texts("given_up"),
        asked=tuple(_settings(asked)),
        versions=tuple(pair for pair in document.flat("versions") if pair[1] != "null"),
        command=document.text("command"),
        started_at=document.text("started_at"),
    )


def _counts(node: Node) -> tuple[tuple[str, int], ...]:
    return tuple((name, node.whole(name) or 0) for name in node.data)


def _couples(document: Node, key: str) -> list[tuple[str, str]] | None:
    """The list of pairs of names under ``key``; None if there is none."""
    found = document.data.get(key)
    if found is None:
        return None
    if not isinstance(found, list) or not all(_is_couple(one) for one in found):
        raise ReportError(f"{document.place}: {key}: expected a list of pairs of names, got {plain(found)[:60]}")
    return [(one, other) for one, other in found]


def _is_couple(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(isinstance(name, str) for name in value)


def _moments(families: list[str], reached: Sequence[tuple[str, str]], clients: int | None) -> Matrix:
    """Families of faults by what the lock was at when they struck. One client alone cannot hold and ask."""
    possible = [phase for phase in PHASES if clients != 1 or phase != "held and asked for"]
    phases = list(dict.fromkeys([*possible, *(phase for _, phase in reached)]))
    rows = tuple((name, tuple((name, phase) in reached for phase in phases)) for name in families)
    return Matrix(tuple(PHASES.get(phase, phase) for phase in phases), rows)


def _pairs(families: list[str], reached: Sequence[tuple[str, str]]) -> Matrix:
    """Families by families that struck in the same schedule; each pair once, the same twice on the diagonal."""
    there = {frozenset(pair) for pair in reached}
    rows = tuple(
        (name, tuple(frozenset((name, other)) in there if other <= name else None for other in families))
        for name in families
    )
    return Matrix(tuple(families), rows)


def _finding(node: Node, folder: Path) -> FindingView:
    story, given = node.node("story"), node.text("folder")
    run = _in_store(given, folder)
    path = shlex.quote(f"{given}/{COUNTEREXAMPLE}")
    return FindingView(
        broken=node.texts("broken"),
        steps=tuple(_step(step) for step in story.nodes("steps")),
        ending=story.text("ending"),
        summary=node.text("summary"),
        how=_how(node),
        replay=f"harness replay {path} --cluster docker" if given else "",
        scenario=f"harness scenario run {path}" if given else "",
        link=_link(run, folder) if run is not None else "",
        toml=_text(run / COUNTEREXAMPLE) if run is not None else "",
    )


def _step(node: Node) -> tuple[str, str]:
    at = node.number("at")
    return "" if at is None else f"{at:.3f} s", node.text("text")


def _how(node: Node) -> str:
    size = f"{_some(node.whole('clients') or 0, 'client')}, {_some(len(node.texts('faults')), 'fault')}"
    number = node.whole("round")
    if not number:
        return f"Known from an earlier hunt, and it still fails: {size}."
    where = f"Found in schedule {node.whole('schedule') or 0:,} of round {number:,}"
    return f"{where}, and made small in {node.whole('shrinks') or 0:,} more: {size}."


def _some(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _in_store(given: str, folder: Path) -> Path | None:
    """The folder of a run, ``<store>/<lock>/<run>``, in the store of the hunt's ``folder``, wherever that store is by
    now: what a hunt calls it may be relative, or where the store once was. None if it is not there."""
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


def _settings(asked: Node) -> Iterator[tuple[str, str]]:
    """What was asked for, in words; not what there is none of."""
    for name, text in ((name, plain(value)) for name, value in asked.data.items()):
        if name in UNSAID and asked.data[name] in ("", 0, [], None):
            yield NAMES.get(name, name), UNSAID[name]
        elif name != "lock" and text and asked.data[name] is not None:
            yield NAMES.get(name, name.replace("_", " ")), {"true": "yes", "false": "no"}.get(text, text)


def _figures(view: HuntView) -> list[Figure]:
    """What the search came to, in numbers; nothing if there was none."""
    if not view.schedules:
        return []
    rate = f"{view.schedules / view.seconds:.1f} a second" if view.seconds else ""
    return [
        Figure("Schedules", words.count(view.schedules), rate),
        Figure("Could be judged", words.count(view.judged), "schedules with a verdict"),
        Figure("Rounds", words.count(view.rounds), "each a search from a seed of its own"),
        Figure("Took", words.span(round(view.seconds * 1e9)), "of real time"),
        Figure("Closest", f"{view.best:.2f}", "on the way to two holders, who are there from 2 on"),
    ]
