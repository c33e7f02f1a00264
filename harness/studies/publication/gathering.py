"""Read a store, and gather what it says about each lock into one document."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from harness.documents import (
    BisectDocument,
    ComparisonDocument,
    HuntDocument,
    VersionsDocument,
    load_bisect,
    load_comparison,
    load_hunt,
    load_versions,
)
from harness.documents.exploration import ExploredFailure, PairVisit
from harness.documents.publication import (
    SCHEMA,
    PublicationDocument,
    PublishedEvidence,
    PublishedLock,
    PublishedReleases,
    PublishedState,
    PublishedStory,
)
from harness.errors import HarnessError, UsageError
from harness.faults.catalogue import fault_class, fault_names
from harness.lock_impls import catalogue
from harness.run import store as stores
from harness.run.progress import Progress
from harness.studies import results_db

from . import comparisons, facts, nights, runs, searches
from .copies import Copies
from .facts import Observed
from .nights import LatestOutcomes
from .runs import StoredRun
from .verdicts import families, needs

LOCKS: Final = "locks"
"""Folder of the locks' pages."""
D = TypeVar("D", bound=msgspec.Struct)
Studied = list[tuple[Path, D]]
"""Documents of one kind, each with its folder, the oldest first."""


@dataclass(slots=True)
class StoreContents:
    """Contents of a store that are published. ``unreadable`` names the files that could not be read, and why."""

    outcomes: list[LatestOutcomes] = field(default_factory=list)
    night_runs: list[str] = field(default_factory=list)
    """Folders of runs that nightly runs name, also those whose outcomes no longer count."""
    visits: list[tuple[int, str, PairVisit]] = field(default_factory=list)
    """Number and start of the nightly run, and the visit."""
    failures: list[ExploredFailure] = field(default_factory=list)
    comparisons: Studied[ComparisonDocument] = field(default_factory=list)
    hunts: Studied[HuntDocument] = field(default_factory=list)
    bisections: Studied[BisectDocument] = field(default_factory=list)
    versions: Studied[VersionsDocument] = field(default_factory=list)
    runs: list[StoredRun] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)

    @property
    def empty(self) -> bool:
        return not (
            self.outcomes or self.visits or self.comparisons or self.hunts or self.bisections or self.versions
            or self.runs
        )  # fmt: skip


def read_store(store: Path, progress: Progress) -> StoreContents:
    """Read everything that is published. Raises UsageError if ``store`` is no folder, has nothing of the kind, or has a
    damaged database of nightly runs."""
    if not store.is_dir():
        raise UsageError(f"{store}: expected the folder of a store, such as store; there is no such folder")
    found = StoreContents()
    database = store / results_db.RESULTS_DB
    progress(0.0, "reading: nightly runs")
    found.outcomes = nights.latest(database)
    if database.exists():
        started = {night.id: night.started_at for night in results_db.nights(database)}
        found.visits = [(night, started[night], visit) for night, visit in results_db.visits(database)]
        found.night_runs = results_db.run_folders(database)
        found.failures = results_db.explored_failures(database)
    progress(0.2, "reading: comparisons, hunts and releases")
    found.comparisons = _studies(store, stores.COMPARISONS, "comparison.json", load_comparison, found.unreadable)
    found.hunts = _studies(store, stores.HUNTS, "hunt.json", load_hunt, found.unreadable)
    found.bisections = _studies(store, stores.BISECTIONS, "bisect.json", load_bisect, found.unreadable)
    found.versions = _studies(store, stores.VERSIONS, "versions.json", load_versions, found.unreadable)
    progress(0.3, "reading: runs")
    found.runs = list(runs.stored_runs(store, found.unreadable))
    if found.empty:
        more = f"; it could not read {found.unreadable[0]}" if found.unreadable else ""
        raise UsageError(f"{store}: contains no stored result: 'harness nightly' makes and stores them{more}")
    return found


def _studies(store: Path, folder: str, name: str, load: Callable[[Path], D], unreadable: list[str]) -> Studied[D]:
    found: Studied[D] = []
    for path in sorted((store / folder).glob(f"*/{name}")):
        try:
            found.append((path.parent, load(path)))
        except HarnessError as error:
            unreadable.append(str(error).replace(f"{store}/", ""))
    return sorted(found, key=lambda one: (one[1].started_at, one[0].name))  # type: ignore[attr-defined]


def gather(store: Path, progress: Progress) -> tuple[PublicationDocument, Copies]:
    """Return what a store says about each lock, and the files that it leads to. Raises UsageError as
    :func:`read_store`."""
    found, copies = read_store(store, progress), Copies(store)
    progress(0.5, "putting together: the locks")
    faults = {name: fault_class(name).summary for name in fault_names()}
    return _document(found, faults, _locks(found, faults, copies)), copies


def _locks(found: StoreContents, faults: Mapping[str, str], copies: Copies) -> list[PublishedLock]:
    evidence = _evidence(found, copies)
    observed = _observed(found)
    stories = _stories(found, evidence, copies)
    costs = comparisons.costs([one for _, one in found.comparisons])
    kinds = _kinds(found)
    own = catalogue.names()
    names = (*own, *sorted({*evidence, *stories, *costs, *(one.lock for _, one in found.hunts)} - set(own)))
    pages = _pages(names)
    locks = []
    for name in names:
        its = evidence.get(name, [])
        found_families = families([one for one in its if not one.release], faults)
        locks.append(
            msgspec.structs.replace(
                facts.entry(name, pages[name], kinds.get(name, ())),
                properties=facts.properties(name, observed.get(name, {})),
                needs=needs(found_families),
                families=found_families,
                other_releases=tuple(one for one in its if one.release),
                stories=tuple(stories.get(name, ())),
                searches=tuple(searches.hunt_search(one) for _, one in reversed(found.hunts) if one.lock == name),
                releases=_releases(name, found, copies),
                costs=costs.get(name, ()),
                references=facts.references(name, {one.scenario for one in its if one.scenario}),
            )
        )
    return locks


def _document(found: StoreContents, faults: dict[str, str], locks: Iterable[PublishedLock]) -> PublicationDocument:
    return PublicationDocument(
        schema=SCHEMA,
        nights=nights.published(found.outcomes),
        stored={
            "comparisons": len(found.comparisons), "hunts": len(found.hunts), "bisections": len(found.bisections),
            "versions": len(found.versions), "runs": len(found.runs),
        },
        unreadable=tuple(found.unreadable),
        faults=faults,
        locks=tuple(locks),
    )  # fmt: skip


def _others(found: StoreContents, copies: Copies) -> list[StoredRun]:
    """Return the runs that no nightly run, also no earlier one, and no study names: those that a user made."""
    named: list[str | None] = [*found.night_runs]
    named += [run for _, document in found.comparisons for run in comparisons.runs_in(document)]
    named += [finding.folder for _, document in found.hunts for finding in document.findings]
    named += [failure.folder for failure in found.failures]
    named += [trial.folder for _, document in found.bisections for trial in document.trials]
    named += [one.folder for _, document in found.versions for one in (*document.differences, *document.common)]
    folders = {copies.run_folder(one) for one in named}
    return [run for run in found.runs if run.folder not in folders]


def _evidence(found: StoreContents, copies: Copies) -> dict[str, list[PublishedEvidence]]:
    evidence: dict[str, list[PublishedEvidence]] = {}
    of_users = _others(found, copies)
    by_folder = {run.folder: run.state for run in found.runs}

    def state_of_run(stored: str | None) -> PublishedState | None:
        folder = copies.run_folder(stored)
        return None if folder is None else by_folder.get(folder)

    for one in found.outcomes:
        evidence.setdefault(one.outcomes[0].lock, []).append(nights.evidence(one, copies))
    for by_lock in (
        comparisons.comparison_evidence([one for _, one in found.comparisons], state_of_run, copies),
        searches.exploration_evidence(found.visits, found.failures, copies),
        runs.run_evidence(of_users, copies),
    ):
        for name, its in by_lock.items():
            evidence.setdefault(name, []).extend(its)
    for _, hunt in found.hunts:
        evidence.setdefault(hunt.lock, []).extend(searches.hunt_evidence(hunt, copies))
    return evidence


def _observed(found: StoreContents) -> dict[str, Observed]:
    observed: dict[str, Observed] = {}
    outcomes = [outcome for one in found.outcomes for outcome in one.outcomes if not nights.release_of(outcome)]
    facts.observed_in_outcomes(outcomes, observed)
    facts.observed_in_runs((run for run in found.runs if not run.release), observed)
    facts.observed_in_comparisons((one for _, one in found.comparisons), observed)
    return observed


def _stories(
    found: StoreContents, evidence: Mapping[str, Iterable[PublishedEvidence]], copies: Copies
) -> dict[str, list[PublishedStory]]:
    """Return the stories by lock: those that searches found, the newest hunts first, then those of scenarios."""
    stories: dict[str, list[PublishedStory]] = {one.lock: [] for _, one in found.versions}
    for _, hunt in reversed(found.hunts):
        stories.setdefault(hunt.lock, []).extend(searches.hunt_stories(hunt, copies))
    for name, explored in searches.exploration_stories(found.failures, copies).items():
        stories.setdefault(name, []).extend(explored)
    for _, bisect in reversed(found.bisections):
        stories.setdefault(bisect.lock, []).extend(searches.bisection_story(bisect))
    for name, its in evidence.items():
        by_title: dict[str, PublishedStory] = {}
        for one in filter(None, map(nights.story, its)):
            by_title.setdefault(one.title, one)  # a scenario on containers comes first: its run is stored
        stories.setdefault(name, []).extend(by_title.values())
    return stories


def _releases(name: str, found: StoreContents, copies: Copies) -> tuple[PublishedReleases, ...]:
    made = [searches.bisection(one, folder, copies) for folder, one in found.bisections if one.lock == name]
    made += [searches.comparison_of_releases(one, folder, copies) for folder, one in found.versions if one.lock == name]
    return tuple(sorted(made, key=lambda one: one.started_at, reverse=True))


def _kinds(found: StoreContents) -> dict[str, list[str]]:
    kinds: dict[str, list[str]] = {}
    for one in found.outcomes:
        kinds.setdefault(one.outcomes[0].lock, []).append(one.outcomes[0].kind)
    for run in found.runs:
        kinds.setdefault(run.head.lock, []).append(run.head.cluster.kind)
    for _, document in found.comparisons:
        for lock in document.locks:
            kinds.setdefault(lock.name, []).append(lock.kind)
    return kinds


def _pages(names: Iterable[str]) -> dict[str, str]:
    """Return the page of each lock. Names that differ only in characters that files lack get a number."""
    pages: dict[str, str] = {}
    taken: set[str] = set()
    for name in names:
        stem = stores.safe_name(name).strip(".") or "lock"
        number, page = 1, stem
        while page.lower() in taken:
            number += 1
            page = f"{stem}-{number}"
        taken.add(page.lower())
        pages[name] = f"{LOCKS}/{page}.html"
    return pages
