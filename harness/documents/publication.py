"""The document of the published pages: what stored results say about each lock. ``harness publish`` writes it as
``locks.json`` beside the pages, and ``--json`` prints it."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

import msgspec

from .comparison import ComparedCost, ComparedRecovery
from .reading import load
from .story import StoryStep

SCHEMA: Final = 1
PublishedState = Literal["broken", "violated", "known-limit", "fenced", "not-tested", "kept"]
"""``broken``: a violation that the lock's documentation does not mention. ``violated``: a violation, and what is stored
does not tell whether the documentation mentions it. ``known-limit``: the documentation says that it may happen.
``fenced``: two holders, and the resource refused the late one by its token. ``not-tested``: nothing stored has a
verdict. ``kept``: runs with a verdict, and none found a violation."""
EvidenceSource = Literal["nightly", "comparison", "exploration", "hunt", "run"]


class PublishedEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """One stored result as evidence about a lock under faults."""

    source: EvidenceSource
    """The stored result: a scenario of a nightly run, a cell of a comparison, the hunts of explorations, a finding of a
    hunt, or runs that a user made."""
    state: PublishedState
    """The worst state of its runs."""
    title: str = ""
    """Description of the run, in a few words."""
    why: str = ""
    """The finding of the run that shows the state, in a sentence."""
    faults: tuple[str, ...] = ()
    """The faults that were injected."""
    cluster: str = ""
    """``sim``, ``docker``, ``servers`` or ``ssh``."""
    scenario: str = ""
    """Name of the scenario; empty without one."""
    known_failure: bool = False
    """True if the scenario is a documented failure of the lock, which a run is expected to find."""
    release: str = ""
    """The releases of libraries that were run in place of the usual ones; empty for the usual ones."""
    judged: int = 0
    """Runs (of an exploration: schedules) with a verdict."""
    failed: int = 0
    """Those with a violation, also one that fencing made harmless."""
    undecided: int = 0
    """Runs without a verdict."""
    started_at: str = ""
    """Start time of the stored result: UTC, whole seconds, ``2026-11-21T20:00:00Z``."""
    command: str = ""
    """The command that repeats the run; empty if there is none."""
    report: str = ""
    """Report of that run, relative to the folder of the pages; empty if it is not stored."""
    trace: str = ""
    """Messages of that run, relative to the folder of the pages; empty if they are not stored."""


class PublishedFamily(msgspec.Struct, frozen=True, kw_only=True):
    """A lock under one family of faults."""

    fault: str
    """Name of the family, or ``no fault``."""
    state: PublishedState
    """The worst state of the evidence that has a verdict; ``not-tested`` if none has one, or if no violation was found
    and a known failure is among the evidence without a verdict."""
    why: str
    """Why, in a sentence."""
    sure: str
    """How sure that is, in a sentence."""
    evidence: tuple[PublishedEvidence, ...] = ()
    """The stored results, the worst first."""


class PublishedNeed(msgspec.Struct, frozen=True, kw_only=True):
    """An answer to a question of the index, such as: does it survive a paused client?"""

    name: str
    """Name of the need: a column of the index."""
    state: PublishedState
    """The worst state of the families that have a verdict; ``not-tested`` if none has one, or if no violation was found
    and a known failure is in a family without a verdict."""
    families: tuple[str, ...] = ()
    """The families that have a verdict."""
    judged: int = 0
    """Runs (of explorations: schedules) with a verdict in the results that show the state."""
    why: str = ""
    """Why, in a sentence."""


class PublishedProperty(msgspec.Struct, frozen=True, kw_only=True):
    """A property that a lock may have, such as fencing tokens: what it claims and what stored runs show."""

    name: str
    """``fencing``, ``re-entrant``, ``read-write``, ``queue`` or ``no single point of failure``."""
    claimed: bool | None = None
    """True if the lock claims it; null if nothing that is known says so."""
    state: PublishedState = "not-tested"
    """Result of the stored runs."""
    why: str = ""
    """Why, in a sentence."""


class PublishedLimit(msgspec.Struct, frozen=True, kw_only=True):
    """A way to fail that the lock's documentation states."""

    name: str
    """``late-client``, ``clock``, ``server-fault``, ``never-freed``, ``unpromised`` or ``always``."""
    text: str
    """The same in words."""


class PublishedFailure(msgspec.Struct, frozen=True, kw_only=True):
    """A known failure of a lock that a command demonstrates."""

    id: str
    """Id of the failure in the table of anomalies."""
    what: str
    """The failure in one line."""
    command: str
    """The command that demonstrates it."""


class PublishedStory(msgspec.Struct, frozen=True, kw_only=True):
    """A violation in as few steps as were found to lead to it."""

    title: str
    """Where it is from, and what it violates."""
    state: PublishedState
    """``broken``, ``known-limit`` or ``violated``."""
    about: str = ""
    """The mechanism, as the scenario describes it; empty for a story that was found."""
    summary: str = ""
    """Summary of the run that shows it."""
    steps: tuple[StoryStep, ...] = ()
    """The steps in the order of time; of an exploration, lines of text without times."""
    ending: str = ""
    """The violation, in a sentence."""
    faults: tuple[str, ...] = ()
    """The faults in it."""
    release: str = ""
    """The release of the library that it happens with; empty for the tested one."""
    started_at: str = ""
    """Start time of the search: UTC, whole seconds, ``2026-11-21T20:00:00Z``."""
    command: str = ""
    """The command that repeats it, to be run in the folder of the pages if it names a file in it."""
    counterexample: str = ""
    """Its plan, relative to the folder of the pages; empty if it is not stored."""
    report: str = ""
    """Report of the run that shows it, relative to the folder of the pages; empty if it is not stored."""
    trace: str = ""
    """Messages of that run, relative to the folder of the pages; empty if they are not stored."""


class PublishedSearch(msgspec.Struct, frozen=True, kw_only=True):
    """A stored hunt, and how far it searched."""

    faults: tuple[str, ...] = ()
    """Families of faults that it could use; none named: all that the lock's servers can suffer."""
    judged: int = 0
    """Schedules with a verdict."""
    findings: int = 0
    """Failures that it found, known limits included."""
    sure: str = ""
    """How sure its conclusion is."""
    release: str = ""
    """The releases that it tested, where they are not the usual ones."""
    started_at: str = ""
    """Start time: UTC, whole seconds, ``2026-11-21T20:00:00Z``."""
    command: str = ""
    """The command that started it."""


class PublishedReleases(msgspec.Struct, frozen=True, kw_only=True):
    """A stored bisection or comparison of releases: the affected versions of a library."""

    package: str
    """Name of the package; ``servers`` where images of servers were compared."""
    conclusion: str
    """The result in one sentence."""
    affected: tuple[str, ...] = ()
    """Releases in which a violation was found."""
    unaffected: tuple[str, ...] = ()
    """Releases in which none was found."""
    undecided: tuple[str, ...] = ()
    """Releases that gave no answer."""
    sentences: tuple[str, ...] = ()
    """Differences between releases, a sentence each."""
    repeat: tuple[str, ...] = ()
    """Commands that repeat it."""
    started_at: str = ""
    """Start time: UTC, whole seconds, ``2026-11-21T20:00:00Z``."""
    command: str = ""
    """The command that started it."""
    report: str = ""
    """Its page, relative to the folder of the pages; empty if it is not stored."""


class PublishedCosts(msgspec.Struct, frozen=True, kw_only=True):
    """Costs of a lock, from the latest comparison on a cluster that has it."""

    cluster: str
    """``sim`` (times are virtual) or ``docker``."""
    started_at: str = ""
    """Start time of the comparison: UTC, whole seconds, ``2026-11-21T20:00:00Z``."""
    command: str = ""
    """The command that ran the comparison."""
    costs: tuple[ComparedCost, ...] = ()
    """The costs: alone, contended, and under each fault. ``run`` is not set."""
    recovery: ComparedRecovery = ComparedRecovery()
    """Time for which a dead holder blocks other clients. ``run`` is not set."""

    def named(self, name: str) -> ComparedCost | None:
        """Return the costs in the setting ``name``; None if it was not measured."""
        return next((cost for cost in self.costs if cost.name == name), None)


class PublishedReference(msgspec.Struct, frozen=True, kw_only=True):
    """A text, issue or manual that scenarios of a lock name as the documentation of a failure."""

    source: str
    """The text, as the scenario states it."""
    scenarios: tuple[str, ...]
    """The scenarios that name it."""


class PublishedLock(msgspec.Struct, frozen=True, kw_only=True):
    """All that the pages say about one lock."""

    name: str
    """The lock's name, or its ``package.module:Class``."""
    page: str
    """Its page, relative to the folder of the pages."""
    catalogued: bool
    """True for a lock of the catalogue; false for a class of a scenario, or a user's own."""
    title: str = ""
    """Description of the lock, in a few words."""
    what_runs: str = ""
    """The lock is of ours, a library, or a model of one, in a sentence; empty if it does not say."""
    algorithm: str = ""
    """Its algorithm, in a sentence."""
    source: str = ""
    """Source of its documentation."""
    safety: str = ""
    """Safety class that it claims: ``E``, ``F``, ``F?`` or ``X``; empty if it is not known."""
    safety_text: str = ""
    """The same in words."""
    services: tuple[str, ...] = ()
    """Services that it runs on: ``redis``, ``etcd``."""
    kinds: tuple[str, ...] = ()
    """Kinds of cluster that it runs on; the first is the default."""
    language: str = ""
    """The programming language of its client."""
    library: str = ""
    """The tested library of a third party, with its version."""
    promises: str = ""
    """Description of it in the lock's documentation."""
    on_death: str = ""
    """The way in which it becomes free when its holder dies; empty if its documentation does not say."""
    outage: str = ""
    """Its behaviour when one server is lost; empty if its documentation does not say."""
    containers_only: bool = False
    """True if it cannot run on the simulator."""
    limits: tuple[PublishedLimit, ...] = ()
    """Ways to fail that its documentation states."""
    failures: tuple[PublishedFailure, ...] = ()
    """Known failures that a command demonstrates."""
    properties: tuple[PublishedProperty, ...] = ()
    """Properties that a lock may have."""
    needs: tuple[PublishedNeed, ...] = ()
    """Answers for the index."""
    families: tuple[PublishedFamily, ...] = ()
    """Verdicts under all families of faults: those with evidence first, the worst first."""
    stories: tuple[PublishedStory, ...] = ()
    """Minimal stories of violations."""
    searches: tuple[PublishedSearch, ...] = ()
    """Stored hunts, the newest first."""
    releases: tuple[PublishedReleases, ...] = ()
    """Affected versions, the newest study first."""
    other_releases: tuple[PublishedEvidence, ...] = ()
    """Results with releases other than the usual ones. They do not count for the verdicts under families of faults."""
    costs: tuple[PublishedCosts, ...] = ()
    """Costs, one entry for each cluster."""
    references: tuple[PublishedReference, ...] = ()
    """References of its scenarios."""

    def property(self, name: str) -> PublishedProperty:
        """Return the property with this name; KeyError if there is none."""
        return next(one for one in self.properties if one.name == name)


class PublishedNight(msgspec.Struct, frozen=True, kw_only=True):
    """A stored nightly run that the pages were made from."""

    started_at: str
    """Start time: UTC, whole seconds, ``2026-11-21T20:00:00Z``."""
    suite: str
    """Its suite, and what it was narrowed to."""
    clusters: tuple[str, ...]
    """``docker``, ``sim`` or both."""
    scenarios: int
    """Scenarios on a cluster whose latest results are of this nightly run."""
    versions: dict[str, str | None] = {}
    """Versions of the packages that decided its outcome; ``commit`` is the harness's own."""


class PublicationDocument(msgspec.Struct, frozen=True, kw_only=True):
    """``locks.json``: what stored results say about each lock."""

    schema: Literal[1]
    """Version of this document."""
    nights: tuple[PublishedNight, ...] = ()
    """The nightly runs that it was made from, the newest first."""
    stored: dict[str, int] = {}
    """Number of further stored results that it was made from: comparisons, hunts, bisections, versions and runs."""
    unreadable: tuple[str, ...] = ()
    """Stored documents that could not be read, and why."""
    faults: dict[str, str] = {}
    """The families of faults, and the effect of each."""
    locks: tuple[PublishedLock, ...]
    """The locks: those of the catalogue first, each group by name."""


def load_publication(path: Path) -> PublicationDocument:
    """Read a ``locks.json``; DocumentError if it cannot be read or is malformed."""
    return load(path, PublicationDocument)
