"""Run the same plans and seeds with several releases of a package, and say what differs."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from harness.documents import VersionsDocument
from harness.documents.versions import SCHEMA, VersionCell, VersionDifference, VersionPlan
from harness.errors import UsageError
from harness.plan import Plan
from harness.run.store import writable
from harness.run.verdicts.judging import versions
from harness.wording import counted

from .release_trials import (
    OnLine,
    Releases,
    cell_of,
    documented,
    refuse_misspelled_lock,
    refuse_other_clusters,
    store_run,
    story_with,
)
from .versions import common, conclusion, differences, failures

MOST_STORIES: Final = 8
"""Each story takes many runs."""


@dataclass(frozen=True, slots=True)
class VersionsRequest:
    """Plans of one lock, and the releases of a package to run them with, in the order of their versions."""

    plans: tuple[VersionPlan, ...]
    package: str
    releases: tuple[str, ...]
    budget_s: float = math.inf
    """After this time no further plan is begun; the document then has the plans until then."""

    def check(self) -> VersionsRequest:
        """Return the request itself; raises UsageError if it is invalid."""
        if not self.plans:
            raise UsageError("a comparison of releases needs at least one plan")
        for named in self.plans:
            refuse_other_clusters(named.plan)
            refuse_misspelled_lock(named.plan, self.package)
            if not named.seeds:
                raise UsageError(f"plan {named.name}: expected at least one seed")
        return self


def named_plan(name: str, plan: Plan, runs: int) -> VersionPlan:
    """Return a plan with this number of consecutive seeds, from its own."""
    return VersionPlan(name=name, plan=plan, seeds=tuple(range(plan.seed, plan.seed + runs)))


def compare_releases(
    request: VersionsRequest, *, store: Path | None = None, command: str = "", on_line: OnLine | None = None
) -> VersionsDocument:
    """Run every plan with every release.

    With a ``store`` the run of each failure's story is kept there, with its report. ``on_line`` is called with lines of
    progress. After KeyboardInterrupt the document has the results until then. Raises UsageError for a wrong request.
    """
    report = on_line or _no_line
    request.check()
    if store is not None:
        writable(store)
    began, started = time.monotonic(), datetime.now(UTC)
    cells, interrupted = _cells(request, Releases(request.package, report), report)
    found = failures(cells)
    if not interrupted:
        found = _explained(found, request, store, command, report)
    reached = {one.plan for one in cells}
    return VersionsDocument(
        schema=SCHEMA,
        lock=request.plans[0].plan.lock,
        package=request.package,
        releases=request.releases,
        plans=tuple(named for named in request.plans if named.name in reached or interrupted),
        cells=tuple(cells),
        differences=differences(found),
        common=common(found),
        conclusion=conclusion(cells, found, request.package),
        versions=dict(versions()),
        interrupted=interrupted,
        seconds=round(time.monotonic() - began, 1),
        command=command,
        started_at=f"{started:%Y-%m-%dT%H:%M:%SZ}",
    )


def _no_line(line: str) -> None: ...


def _cells(request: VersionsRequest, releases: Releases, report: OnLine) -> tuple[list[VersionCell], bool]:
    """Return the results until an interrupt, and whether there was one."""
    cells: list[VersionCell] = []
    deadline = time.monotonic() + request.budget_s
    try:
        for named in request.plans:
            if cells and time.monotonic() > deadline:
                break
            for version in request.releases:
                cells.append(cell_of(named, version, releases))
                report(cell_line(cells[-1], request.package))
    except KeyboardInterrupt:
        return cells, True
    return cells, False


def cell_line(cell: VersionCell, package: str) -> str:
    """Return a result as a line of text."""
    invalid = dict.fromkeys(name for run in cell.runs for name in run.invalid)
    failed = sum(bool(run.invalid) for run in cell.runs)
    detail = f"{', '.join(invalid)} in {failed} of {counted(len(cell.runs), 'run')}" if invalid else cell.reason
    return f"{cell.plan}, {package} {cell.version}: {cell.state}{f': {detail}' if detail else ''}"


def _explained(
    found: tuple[VersionDifference, ...], request: VersionsRequest, store: Path | None, command: str, report: OnLine
) -> tuple[VersionDifference, ...]:
    """Add stories to the first failures, those that differ before the others; keep their runs in the store."""
    first = [*differences(found), *common(found)][:MOST_STORIES]
    explained = []
    for one in found:
        if one in first:
            report(f"telling the story of {one.checker}: {one.plan}, {request.package} {one.version}")
            explained.append(_told(one, request, store, command))
        else:
            explained.append(one)
    return tuple(explained)


def _told(one: VersionDifference, request: VersionsRequest, store: Path | None, command: str) -> VersionDifference:
    named = next(plan for plan in request.plans if plan.name == one.plan)
    plan = replace(Releases(request.package, _no_line).plan_for(named.plan, one.version), seed=one.seed)
    story = documented(story_with(plan, one.checker))
    folder = None if store is None else str(store_run(plan, store, command))
    return replace(one, story=story, folder=folder)
