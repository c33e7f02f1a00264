"""Two runs side by side: their verdicts, what differs in their plans and versions, and, apart, their measurements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from harness.documents.heads import HeadChecker
from harness.run import store as stores

from . import files
from .index import LARGEST, Index, Run, Unreadable, read_results

MOST_CHOICES: Final = 50
"""The most other runs that are offered for a comparison."""


class _CompareFacts(msgspec.Struct):
    """The keys of ``results.json`` that only this page needs."""

    plan: dict[str, Any] = {}
    stats: dict[str, Any] = {}
    versions: dict[str, Any] = {}


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """One of two runs; ``facts`` is empty if its results cannot be read."""

    run: Run
    summary: str
    checkers: Mapping[str, HeadChecker]
    facts: _CompareFacts


@dataclass(frozen=True, slots=True)
class PairRow:
    """A row with the values of two runs as text; ``same`` if they are equal."""

    name: str
    first: str
    second: str

    @property
    def same(self) -> bool:
        return self.first == self.second


def compared(store: Path, index: Index, place: str) -> ComparedRun | None:
    """Return the run at ``lock/run``; None if there is none."""
    lock, slash, name = place.partition("/")
    folder = files.run_folder(store, lock, name) if slash else None
    run = index.run(lock, name) if folder is not None else None
    if run is None or folder is None:
        return None
    try:
        results = read_results(folder)
        facts = _facts(folder) if results is not None else _CompareFacts()
    except Unreadable:
        results, facts = None, _CompareFacts()
    summary = results.summary if results else run.trouble
    return ComparedRun(run, summary, results.checkers if results else {}, facts)


def _facts(folder: Path) -> _CompareFacts:
    try:
        return msgspec.json.decode(files.read(folder / stores.RESULTS, LARGEST), type=_CompareFacts)
    except (OSError, ValueError, RecursionError):
        return _CompareFacts()


def settings(first: ComparedRun, second: ComparedRun) -> list[PairRow]:
    """Return the settings and versions that differ."""
    plans = _pairs(first.facts.plan, second.facts.plan)
    versions = _pairs(first.facts.versions, second.facts.versions, "version of ")
    return [row for row in (*plans, *versions) if not row.same]


def measurements(first: ComparedRun, second: ComparedRun) -> list[PairRow]:
    """Return the counts and durations of the two runs."""
    return list(_pairs(_numbers(first.facts.stats), _numbers(second.facts.stats)))


def stored_measurements(folder: Path) -> list[tuple[str, str]]:
    """Return the counts and durations of the run in a folder, as text; none if its results cannot be read."""
    return [(name.replace("_", " "), _text(value)) for name, value in _numbers(_facts(folder).stats).items()]


def _numbers(stats: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in stats.items() if isinstance(value, int | float)}


def _pairs(first: Mapping[str, Any], second: Mapping[str, Any], prefix: str = "") -> Iterator[PairRow]:
    for name in dict.fromkeys((*first, *second)):
        yield PairRow(f"{prefix}{name.replace('_', ' ')}", _text(first.get(name)), _text(second.get(name)))


def _text(value: Any) -> str:
    if value is None or value in ("", [], {}):
        return "none"
    if isinstance(value, float):
        return f"{value:,.6g}"
    return (
        f"{value:,}"
        if isinstance(value, int) and not isinstance(value, bool)
        else (value if isinstance(value, str) else msgspec.json.encode(value).decode())
    )


def conclusion(states: Mapping[str, tuple[str, str]]) -> str:
    """Return in a sentence how the verdicts differ; ``states`` are those of each property in both runs."""
    changed = [name for name, (one, other) in states.items() if one != other]
    if not states:
        return "Neither run has a result of a checker"
    if not changed:
        return "Both runs have the same verdict on every property"
    return f"The verdicts differ on {', '.join(changed)}"


def choices(index: Index, run: Run) -> list[Run]:
    """Return other runs of the same lock for a comparison, the newest first."""
    alike = (one for one in index.runs() if one.lock == run.lock and one.folder != run.folder)
    return [one for one, _ in zip(alike, range(MOST_CHOICES), strict=False)]
