"""Findings of a hunt: store each failure as a scenario with its run, report and story; load those of earlier hunts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
from msgspec.structs import replace as with_

from harness.documents.hunt import COUNTEREXAMPLE, HuntFinding
from harness.documents.story import Story as StoredStory
from harness.errors import UsageError
from harness.files import write_file
from harness.plan import Expect, Plan, dump, load, refuse_untrusted
from harness.run.runs import run
from harness.run.store import FAILURES, safe_name, store_errors, write_results
from harness.run.verdicts.judging import Result
from harness.search.stories.story import StoryText

from .in_workers import tell_story
from .request import NO_FAULT, HuntRequest
from .rounds import ShrunkFailure


@dataclass(frozen=True, slots=True)
class FoundFailure:
    """A failure that a hunt reports.

    ``plan`` is a scenario with its expected violation. ``failure`` was found in round ``round`` (0: known from an
    earlier hunt). ``folder`` is None if nothing is stored.
    """

    plan: Plan
    failure: ShrunkFailure
    round: int
    story: StoryText
    summary: str
    folder: Path | None = None

    def documented(self) -> HuntFinding:
        """Return this finding as it appears in the hunt's document."""
        return HuntFinding(
            broken=self.failure.broken,
            known=self.failure.known,
            limits=self.failure.limits,
            summary=self.summary,
            story=_documented(self.story),
            lines=tuple(self.story.lines()),
            clients=self.plan.clients,
            faults=tuple(spec.fault for spec in self.plan.faults),
            round=self.round,
            schedule=self.failure.schedule,
            shrinks=self.failure.shrinks,
            plan=self.plan,
            folder=None if self.folder is None else str(self.folder),
        )


def _documented(story: StoryText) -> StoredStory:
    return msgspec.convert(msgspec.to_builtins(story), StoredStory)


def make_finding(failure: ShrunkFailure, *, command: str, round_: int, store: Path | None) -> FoundFailure | None:
    """Write the story of a failing plan; keep its run, report and counterexample in the store, if there is one.

    Returns None if the failure does not happen again in fresh workers: then it came from state that the lock or its
    library kept from one schedule to the next.
    """
    checker = failure.kind.checker
    told = tell_story(failure.plan, checker)
    if told is None:
        return None
    scenario = with_(
        told.plan,
        title=told.story.ending.rstrip("."),
        source=command,
        about="\n".join(told.story.lines()),
        expect=Expect(safe=False, invalid=(checker,)),
    )
    result = run(scenario, store=store, command=command)
    if result.verdicts[checker].valid is not False:
        return None
    if result.folder is not None:
        _keep(scenario, result, told.story)
    return FoundFailure(scenario, failure, round_, told.story, result.results.summary, result.folder)


def _keep(scenario: Plan, result: Result, trial_story: StoryText) -> None:
    from harness.reports import run_report

    assert result.folder is not None
    write_results(result.folder, with_(result.results, story=_documented(trial_story)))
    write_file(result.folder / COUNTEREXAMPLE, dump(scenario))
    run_report.write(result.folder)


# Failures of earlier hunts.


def remember(found: FoundFailure, store: Path) -> None:
    """Keep a finding for the next hunt of the same lock, which tries it first."""
    folder = store / FAILURES / safe_name(found.plan.lock)
    text = dump(found.plan)
    name = hashlib.sha256(dump(_without_description(found.plan)).encode()).hexdigest()[:16]
    with store_errors(store):
        folder.mkdir(parents=True, exist_ok=True)
    write_file(folder / f"{name}.toml", text)


def known_failures(request: HuntRequest, store: Path, *, trust: bool = False) -> Iterator[Plan]:
    """Yield the failures of earlier hunts that this one could find, too, in the order of their file names.

    Files that are not valid plans are skipped, since the search can find their failures again. Unless ``trust``, raises
    UsageError for a file with code that the request does not name.
    """
    named = (request.lock, *request.workloads, *request.faults, *request.look_for)
    for path in sorted((store / FAILURES / safe_name(request.lock)).glob("*.toml")):
        try:
            plan = load(path)
        except UsageError:
            continue
        if _can_draw(request, plan):
            if not trust:
                refuse_untrusted(plan, str(path), named)
            yield _without_description(plan)


def _can_draw(request: HuntRequest, plan: Plan) -> bool:
    """Return whether the search of this request could draw the plan.

    Without faults, holds longer than the lease count only if the request has no faults either. With faults they mean
    that the lock renews its lease.
    """
    families = {spec.fault for spec in plan.faults}
    same = all(
        getattr(plan, name) == getattr(request, name)
        for name in ("lock", "kind", "nodes", "fencing", "lease", "requires", "python")
    )
    options = plan.lock_options == request.lock_options and plan.server_options == request.server_options
    near = families <= set(request.faults) and len(plan.faults) <= request.most_faults
    overruns = not families and max(plan.hold, *plan.holds.values(), 0.0) > plan.ttl
    within = request.ttl in (0.0, plan.ttl) and (not overruns or request.faults == (NO_FAULT,))
    return (
        same and options and near and within and plan.workload in request.workloads and plan.clients <= request.clients
    )


def _without_description(plan: Plan) -> Plan:
    """Return the plan without its title, source, description and expectation."""
    return with_(plan, title="", source="", about="", expect=None)
