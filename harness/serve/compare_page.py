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
OWN: Final = frozenset({"lock-harness", "harness", "commit"})
"""Versions of the harness, which are not those of the tested lock."""
UNEQUAL: Final = frozenset({"requires", "python", "title", "source", "about"})
"""Keys of a plan that runs of one plan with other versions do not share."""


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
class OtherRun:
    """A run that is offered for a comparison.

    ``versions`` are its versions that differ from those of the run on the page, as text, if the plans are equal
    otherwise; empty if they are not.
    """

    run: Run
    versions: str = ""


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
    """Return the settings and versions that differ; the seed, the lock and the cluster, which are not in the stored
    plan, come first."""
    versions = (PairRow(f"version of {row.name}", row.first, row.second) for row in differing_versions(first, second))
    return [
        *_differing(_beside_plan(first.run), _beside_plan(second.run)),
        *_differing(first.facts.plan, second.facts.plan),
        *versions,
    ]


def _beside_plan(run: Run) -> dict[str, Any]:
    return {"seed": run.seed, "lock": run.lock, "cluster": run.cluster}


def differing_versions(first: ComparedRun, second: ComparedRun) -> list[PairRow]:
    """Return the versions that differ."""
    return _differing(first.facts.versions, second.facts.versions)


def _differing(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[PairRow]:
    return [row for row in _pairs(first, second) if not row.same]


def measurements(first: ComparedRun, second: ComparedRun) -> list[PairRow]:
    """Return the counts and durations of the two runs."""
    return list(_pairs(_numbers(first.facts.stats), _numbers(second.facts.stats)))


def stored_measurements(folder: Path) -> list[tuple[str, str]]:
    """Return the counts and durations of the run in a folder, as text; none if its results cannot be read."""
    return [(name.replace("_", " "), _text(value)) for name, value in _numbers(_facts(folder).stats).items()]


def _numbers(stats: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in stats.items() if isinstance(value, int | float)}


def _pairs(first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[PairRow]:
    for name in dict.fromkeys((*first, *second)):
        yield PairRow(name.replace("_", " "), _text(first.get(name)), _text(second.get(name)))


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


def choices(store: Path, index: Index, run: Run) -> list[OtherRun]:
    """Return other runs of the same lock for a comparison: first those of an equal plan with other versions, then the
    others, the newest first each."""
    alike = [one for one in index.runs() if one.lock == run.lock and one.folder != run.folder]
    versions = _other_versions(store, run, alike)
    found = [OtherRun(one, versions.get(one.folder, "")) for one in alike]
    return sorted(found, key=lambda one: not one.versions)[:MOST_CHOICES]


def _other_versions(store: Path, run: Run, alike: list[Run]) -> dict[tuple[str, str], str]:
    """Return by folder the versions, as text, of the runs of the same plan with other versions.

    At most :data:`MOST_CHOICES` runs are read from the disk: those whose rows in the index already equal this one's.
    """
    likely = (one for one in alike if (one.seed, one.cluster, one.faults) == (run.seed, run.cluster, run.faults))
    own_plan, own_versions = _plan_and_versions(store, run)
    found = {}
    for one, _ in zip(likely, range(MOST_CHOICES), strict=False):
        plan, versions = _plan_and_versions(store, one)
        rows = _differing(own_versions, versions)
        if own_plan and plan == own_plan and rows:
            found[one.folder] = ", ".join(f"{row.name} {row.second}" for row in rows)
    return found


def _plan_and_versions(store: Path, run: Run) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the plan of a run without :data:`UNEQUAL`, and its versions without :data:`OWN`; empty if unreadable."""
    folder = files.run_folder(store, *run.folder)
    if folder is None:
        return {}, {}
    try:
        plan = msgspec.toml.decode(files.read(folder / stores.PLAN, LARGEST), type=dict[str, Any])
    except (OSError, ValueError, RecursionError):
        plan = {}
    versions = _facts(folder).versions
    return (
        {name: value for name, value in plan.items() if name not in UNEQUAL},
        {name: value for name, value in versions.items() if name not in OWN},
    )
