"""Evidence and stories from hunts, explorations, bisections and comparisons of releases."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

from harness.documents import BisectDocument, HuntDocument, VersionsDocument
from harness.documents.exploration import ExploredFailure, PairVisit
from harness.documents.hunt import HuntFinding
from harness.documents.publication import (
    PublishedEvidence,
    PublishedReleases,
    PublishedSearch,
    PublishedState,
    PublishedStory,
)
from harness.documents.story import StoryStep
from harness.plan import Plan, allowing
from harness.reports.certainty import of_hunt
from harness.wording import LIMITS, certainty, counted, first_sentence, listed

from .copies import Copies, RunFiles
from .nights import other_release

# Hunts.


def hunt_search(document: HuntDocument) -> PublishedSearch:
    """Return how far a hunt searched."""
    return PublishedSearch(
        faults=document.asked.faults,
        judged=document.judged,
        findings=len(document.findings),
        sure=of_hunt(len(document.findings), document.judged, document.best),
        release=other_release(document.lock, document.asked.requires),
        started_at=document.started_at,
        command=document.command,
    )


def hunt_stories(document: HuntDocument, copies: Copies) -> list[PublishedStory]:
    """Return the stories of the findings of a hunt."""
    return [_hunt_story(document, finding, copies.run(finding.folder)) for finding in document.findings]


def _hunt_story(document: HuntDocument, finding: HuntFinding, files: RunFiles) -> PublishedStory:
    return PublishedStory(
        title=f"A hunt found a violation of {listed(finding.broken)}",
        state=_finding_state(finding),
        summary=finding.summary,
        steps=finding.story.steps,
        ending=finding.story.ending,
        faults=finding.faults,
        release=other_release(document.lock, document.asked.requires),
        started_at=document.started_at,
        command=replay_command(files, finding.plan),
        counterexample=files.counterexample,
        report=files.report,
        trace=files.trace,
    )


def hunt_evidence(document: HuntDocument, copies: Copies) -> list[PublishedEvidence]:
    """Return the evidence of the findings of a hunt. A hunt without a finding is none: it does not tell how often each
    family of faults struck."""
    return [
        PublishedEvidence(
            source="hunt",
            state=_finding_state(finding),
            title="A finding of a hunt",
            why=first_sentence(finding.summary),
            faults=tuple(dict.fromkeys(finding.faults)),
            cluster="sim",
            release=other_release(document.lock, document.asked.requires),
            judged=1,
            failed=1,
            started_at=document.started_at,
            command=replay_command(files, finding.plan),
            report=files.report,
            trace=files.trace,
        )
        for finding in document.findings
        for files in (copies.run(finding.folder),)
    ]


def _finding_state(finding: HuntFinding) -> PublishedState:
    return "known-limit" if finding.known else "broken"


def replay_command(files: RunFiles, plan: Plan | None) -> str:
    """Return the command that repeats a counterexample; empty if it is not stored."""
    if not files.counterexample:
        return ""
    allowed = [] if plan is None else allowing(plan)
    return shlex.join(["harness", "replay", files.counterexample, *allowed])


# Explorations.


def exploration_evidence(
    visits: Iterable[tuple[int, str, PairVisit]], failures: Sequence[ExploredFailure], copies: Copies
) -> dict[str, list[PublishedEvidence]]:
    """Return the evidence of all explorations by lock: for each family of faults what hunts found with the newest
    release of the lock. ``visits`` are the number and the start of the nightly run, and the visit, the oldest first."""
    pairs: dict[tuple[str, str], list[tuple[str, PairVisit]]] = {}
    for _, started_at, visit in visits:
        known = pairs.setdefault((visit.lock, visit.fault), [])
        if known and known[-1][1].release != visit.release:
            known.clear()
        known.append((started_at, visit))
    still = [one for one in failures if one.state != "gone"]
    found: dict[str, list[PublishedEvidence]] = {}
    for (lock, fault), its in pairs.items():
        here = next((one for one in still if (one.lock, one.fault) == (lock, fault)), None)
        found.setdefault(lock, []).append(_explored(fault, its, here, copies))
    return found


def _explored(
    fault: str, its: Sequence[tuple[str, PairVisit]], failure: ExploredFailure | None, copies: Copies
) -> PublishedEvidence:
    visits = [visit for _, visit in its]
    judged = sum(one.judged for one in visits)
    limits: list[str] = list(dict.fromkeys(limit for one in visits for limit in one.limits))
    files = copies.run(None if failure is None else failure.folder)
    if failure is not None:
        state, why = "broken", first_sentence(failure.summary)
    elif limits:
        state, why = "known-limit", f"Hunts reached a documented limit: {listed(map(_limit_text, limits))}."
    elif any(one.failures for one in visits):
        state, why = "violated", f"Hunts found a failure: {listed(visits[-1].failures or ('its name is lost',))}."
    elif judged:
        state, why = "kept", f"Of the schedules, {certainty(judged)}."
    else:
        state, why = "not-tested", next((one.error for one in visits if one.error), "No schedule had a verdict.")
    return PublishedEvidence(
        source="exploration",
        state=state,  # type: ignore[arg-type]  # one of the words above
        title=f"{counted(len(visits), 'short hunt')} with {visits[-1].release}",
        why=why,
        faults=(fault,),
        cluster="sim",
        judged=judged,
        failed=int(state not in ("kept", "not-tested")),
        undecided=sum(one.schedules for one in visits) - judged,
        started_at=its[-1][0],
        report=files.report,
        trace=files.trace,
    )


def _limit_text(limit: str) -> str:
    known: dict[str, str] = LIMITS
    return known.get(limit, limit)


def exploration_stories(failures: Iterable[ExploredFailure], copies: Copies) -> dict[str, list[PublishedStory]]:
    """Return by lock the stories of the failures that explorations found and that still happen."""
    found: dict[str, list[PublishedStory]] = {}
    for one in failures:
        if one.state != "gone":
            found.setdefault(one.lock, []).append(_explored_story(one, copies.run(one.folder)))
    return found


def _explored_story(one: ExploredFailure, files: RunFiles) -> PublishedStory:
    return PublishedStory(
        title=f"Exploration found a violation of {one.checker}",
        state="broken",
        summary=one.summary,
        steps=tuple(StoryStep(text=line) for line in one.lines),
        faults=tuple(dict.fromkeys(spec.fault for spec in one.plan.faults)),
        started_at=f"{one.found_at:%Y-%m-%dT%H:%M:%SZ}",
        command=replay_command(files, one.plan),
        counterexample=files.counterexample,
        report=files.report,
        trace=files.trace,
    )


# Releases.


def bisection(document: BisectDocument, folder: Path, copies: Copies) -> PublishedReleases:
    """Return what a bisection tells about the affected versions."""

    def with_outcome(*outcomes: str) -> tuple[str, ...]:
        order = {version: number for number, version in enumerate(document.releases)}
        versions = {one.version for one in document.trials if one.outcome in outcomes}
        return tuple(sorted(versions, key=lambda version: order.get(version, -1)))

    return PublishedReleases(
        package=document.package,
        conclusion=document.conclusion,
        affected=with_outcome("bad"),
        unaffected=with_outcome("good"),
        undecided=with_outcome("unknown", "missing"),
        repeat=document.repeat,
        started_at=document.started_at,
        command=document.command,
        report=copies.study(folder, "bisect.html"),
    )


def bisection_story(document: BisectDocument) -> list[PublishedStory]:
    """Return the story of the failure that a bisection searched; none if it has no steps."""
    if not document.story.steps:
        return []
    return [
        PublishedStory(
            title=f"What happens with {document.package} {document.story_version}",
            state="violated",
            steps=document.story.steps,
            ending=document.story.ending,
            release=f"{document.package} {document.story_version}",
            started_at=document.started_at,
            command=document.repeat[0] if document.repeat else "",
        )
    ]


def comparison_of_releases(document: VersionsDocument, folder: Path, copies: Copies) -> PublishedReleases:
    """Return what a comparison of releases tells about the affected versions."""
    states: dict[str, set[str]] = {version: set() for version in document.releases}
    for cell in document.cells:
        states.setdefault(cell.version, set()).add(cell.state)
    affected = tuple(version for version, its in states.items() if "violated" in its)
    unaffected = tuple(version for version, its in states.items() if its == {"valid"})
    return PublishedReleases(
        package=document.package,
        conclusion=document.conclusion,
        affected=affected,
        unaffected=unaffected,
        undecided=tuple(version for version in states if version not in (*affected, *unaffected)),
        sentences=tuple(one.sentence for one in (*document.differences, *document.common)),
        started_at=document.started_at,
        command=document.command,
        report=copies.study(folder, "versions.html"),
    )
