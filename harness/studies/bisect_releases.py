"""Find the release of a package that changed a failure: list the releases, search them, and explain the result."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from msgspec.structs import replace
from packaging.utils import canonicalize_name, is_normalized_name
from packaging.version import Version

from harness.documents import BisectDocument
from harness.documents.bisect import SCHEMA, BisectChangelog, BisectQuestion, BisectTrial
from harness.documents.hunt import COUNTEREXAMPLE
from harness.documents.story import Story
from harness.environments.changelog import changelog
from harness.environments.programs import program_runtime, published_releases
from harness.environments.releases import Release, between, parsed, releases
from harness.errors import EnvironmentLacking, UsageError
from harness.files import write_file
from harness.plan import Expect, Plan, allowing, dump
from harness.run.store import writable
from harness.run.verdicts.judging import versions
from harness.wording import counted

from .bisect import Bisection, Range, bisect, conclusion
from .release_trials import (
    OnLine,
    Releases,
    documented,
    refuse_misspelled_lock,
    refuse_other_clusters,
    store_run,
    story_with,
    try_release,
)

OUTCOMES: Final = {"bad": "fails", "good": "does not fail", "unknown": "unknown, skipped", "missing": "skipped"}


@dataclass(frozen=True, slots=True)
class BisectRequest:
    """A question, and the releases among which the answer changes.

    ``good`` is a release without the failure and ``bad`` one with it; either may be the older one. ``only`` are the
    releases to search instead of those that the package index lists; the ends need not be among them.
    """

    question: BisectQuestion
    package: str
    good: str
    bad: str
    prereleases: bool = False
    yanked: bool = False
    only: tuple[str, ...] = ()

    def check(self) -> BisectRequest:
        """Return the request itself; raises UsageError if it is invalid."""
        refuse_other_clusters(self.question.plan)
        if not is_normalized_name(canonicalize_name(self.package)):
            raise UsageError(f"--package: expected the name of a package such as redis, got {self.package!r}")
        if parsed(self.good) == parsed(self.bad):
            raise UsageError(f"--good and --bad must be two releases, got {self.good} and {self.bad}")
        if not self.question.seeds:
            raise UsageError("a question needs at least one seed")
        refuse_misspelled_lock(self.question.plan, self.package)
        return self


@dataclass(frozen=True, slots=True)
class _Listed:
    """Releases of the range, the oldest first, with the spelling that the index uses."""

    found: tuple[Release, ...]
    good: str
    bad: str

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(map(str, self.found))


@dataclass(frozen=True, slots=True)
class _Progress:
    """Lines about the trials and about what is left."""

    package: str
    on_line: OnLine

    def on_trial(self, trial: BisectTrial, left: Range) -> None:
        self.on_line(trial_line(self.package, trial))
        if left.between:
            self.on_line(
                f"between {left.unchanged} and {left.changed}: {counted(len(left.between), 'release')}, "
                f"about {counted(left.steps_left, 'trial')}"
            )


def trial_line(package: str, trial: BisectTrial) -> str:
    """Return a trial as a line of text."""
    word = OUTCOMES[trial.outcome]
    detail = trial.reason or (f"{', '.join(trial.invalid)} with seed {trial.seed}" if trial.invalid else "")
    more = f": {detail}" if detail else ""
    return f"{package} {trial.version}: {word}{more} ({trial.seconds:.1f} s)"


def bisect_releases(
    request: BisectRequest, *, store: Path | None = None, command: str = "", on_line: OnLine | None = None
) -> BisectDocument:
    """Find the release that changed the failure.

    With a ``store`` the failing run of the release next to the change is kept there, with its report. ``on_line`` is
    called with lines of progress. Raises UsageError for a wrong request, EnvironmentLacking if the releases cannot be
    listed, and :class:`.bisect.UnsuitableEnd` if an end is not as claimed.
    """
    report = on_line or _no_line
    if store is not None:
        writable(store)
    began, started = time.monotonic(), datetime.now(UTC)
    listed = _list(request.check())
    report(f"{counted(len(listed.found), 'release')} of {request.package} from {listed.names[0]} to {listed.names[-1]}")
    tried = Releases(request.package, report)
    found = bisect(
        listed.names,
        good=listed.good,
        bad=listed.bad,
        trial=lambda version: try_release(request.question, version, tried),
        on_trial=_Progress(request.package, report).on_trial,
    )
    document = replace(_document(request, listed, found), command=command, started_at=f"{started:%Y-%m-%dT%H:%M:%SZ}")
    if not found.interrupted:
        report("telling the story of the failure")
        document = _explained(document, request, listed, tried, store)
    return replace(document, seconds=round(time.monotonic() - began, 1))


def _document(request: BisectRequest, listed: _Listed, found: Bisection) -> BisectDocument:
    return BisectDocument(
        schema=SCHEMA,
        lock=request.question.plan.lock,
        package=request.package,
        good=listed.good,
        bad=listed.bad,
        question=request.question,
        releases=listed.names,
        trials=found.trials,
        first_changed=found.first_changed,
        before=found.before,
        remaining=found.remaining,
        conclusion=conclusion(found, request.package, listed.bad, listed.names),
        versions=dict(versions()),
        interrupted=found.interrupted,
    )


def _no_line(line: str) -> None: ...


def _list(request: BisectRequest) -> _Listed:
    if request.only:
        named = {parsed(text): text for text in (*request.only, request.good, request.bad)}
        known = tuple(Release(version, spelling=named[version]) for version in sorted(named))
    else:
        ends_are = [parsed(request.good), parsed(request.bad)]
        before = request.prereleases or any(one.is_prerelease for one in ends_are)
        known = _published(request, prereleases=before)
    oldest, newest = sorted((request.good, request.bad), key=Version)
    spelled = {one.version: str(one) for one in known}
    found = between(known, oldest, newest, request.package)
    return _Listed(found, spelled[parsed(request.good)], spelled[parsed(request.bad)])


def _published(request: BisectRequest, *, prereleases: bool) -> tuple[Release, ...]:
    lock = request.question.plan.lock
    if not program_runtime(lock):
        return releases(request.package, prereleases=prereleases, yanked=request.yanked)
    return tuple(
        one for one in published_releases(lock, request.package) if prereleases or not one.version.is_prerelease
    )


# The explanation.


def _explained(
    document: BisectDocument, request: BisectRequest, listed: _Listed, tried: Releases, store: Path | None
) -> BisectDocument:
    """Add the story, the commands and the changelog."""
    shown = _shown(document)
    told, folder = _told(document, shown, tried, store)
    changes = _changes(document, listed) if not request.only else None
    return replace(
        document,
        trials=tuple(replace(one, folder=folder) if one.version == shown.version else one for one in document.trials),
        story=told,
        story_version=shown.version,
        changelog=changes,
        repeat=_repeat(document, shown.version, folder),
    )


def _shown(document: BisectDocument) -> BisectTrial:
    """Return the failing trial that is nearest to the change."""
    order = {version: number for number, version in enumerate(document.releases)}
    failing = [one for one in document.trials if one.outcome == "bad"]
    change = order[document.remaining[0]]
    return min(failing, key=lambda one: (abs(order[one.version] - change), order[one.version]))


def _told(
    document: BisectDocument, shown: BisectTrial, tried: Releases, store: Path | None
) -> tuple[Story, str | None]:
    """Return the story of a failing trial, and the folder of its run, if there is a store."""
    checker = shown.invalid[0]
    plan = tried.plan_for(replace(document.question.plan, seed=shown.seed or 0), shown.version)
    told = story_with(plan, checker)
    if store is None:
        return documented(told), None
    # The plan stays as it was asked about: a shrunk one may depend on what only this release does.
    scenario = replace(
        plan,
        title=plan.title or f"{checker} with {tried.package} {shown.version}",
        source=plan.source or document.command,
        expect=Expect(safe=False, invalid=(checker,)),
    )
    folder = store_run(scenario, store, document.command)
    write_file(folder / COUNTEREXAMPLE, dump(scenario))
    return documented(told), str(folder)


def _repeat(document: BisectDocument, version: str, folder: str | None) -> tuple[str, ...]:
    """Return the command that repeats the failure, and the one that shows a release without it."""
    if folder is None:
        return ()
    path = f"{folder}/{COUNTEREXAMPLE}"
    order = list(document.releases)
    without = [one.version for one in document.trials if one.outcome == "good"]
    nearest = min(without, key=lambda one: abs(order.index(one) - order.index(version)))
    allowed = allowing(document.question.plan)
    return tuple(
        shlex.join(["harness", "replay", path, *more, *allowed])
        for more in ([], [*_with(document.question.plan, document.package, nearest)])
    )


def _with(plan: Plan, package: str, version: str) -> list[str]:
    required = Releases(package, _no_line).plan_for(plan, version).requires
    return [word for one in required for word in ("--with", one)]


def _changes(document: BisectDocument, listed: _Listed) -> BisectChangelog | None:
    names: Sequence[str] = document.remaining
    try:
        found = changelog([one for one in listed.found if str(one) in names])
    except EnvironmentLacking:  # the result stands without it
        return None
    return None if found is None else BisectChangelog(source=found.source, lines=found.lines, omitted=found.omitted)
