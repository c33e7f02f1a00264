"""Runs of a plan with one release of a package: the trials of a bisection and of ``--versions``.

They are on the simulator, but for the locks in other languages, whose programs are built with the release and run in
containers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from harness.documents.bisect import BisectQuestion, BisectTrial
from harness.documents.story import Story
from harness.documents.versions import VersionCell, VersionPlan, VersionRun
from harness.environments.programs import program_runtime
from harness.environments.requirements import parse
from harness.environments.spelling import refuse_misspelled
from harness.errors import HarnessError, UsageError
from harness.plan import Plan
from harness.run.processes.interpreter import interpreter_of
from harness.run.runs import run
from harness.run.verdicts.judging import Result
from harness.run.verdicts.summary import ORDER
from harness.search.stories.story import TrialStory
from harness.search.telling import tell_story

from .versions import cell, missing

OnLine = Callable[[str], None]
"""Callback with a line of progress."""
FAULTS: Final = "faults"
"""Checker that says whether the faults took effect. Without it, a run without a violation shows nothing."""


@dataclass(frozen=True, slots=True)
class Releases:
    """A package whose releases are tried, and what is called with a line of progress."""

    package: str
    on_line: OnLine

    def plan_for(self, plan: Plan, version: str) -> Plan:
        """Return the plan with this release, in the place of any other of the same package."""
        name = canonicalize_name(self.package)
        others = [one for one in plan.requires if canonicalize_name(Requirement(one).name) != name]
        cluster = "docker" if program_runtime(plan.lock) else plan.cluster
        requires = (*others, f"{self.package}=={version}")
        return msgspec.structs.replace(plan, requires=requires, cluster=cluster).check()

    def reason_missing(self, plan: Plan) -> str:
        """Build the environment of a plan; return why it cannot be built, "" if it can."""
        try:
            interpreter_of(plan, self.on_line)
        except HarnessError as error:
            return str(error)
        return ""

    def results(self, plan: Plan, seeds: Sequence[int]) -> Iterator[Result]:
        """Yield the result of each seed; raises KeyboardInterrupt after an interrupted run."""
        for seed in seeds:
            result = run(msgspec.structs.replace(plan, seed=seed))
            if result.interrupted:
                raise KeyboardInterrupt
            yield result


def refuse_other_clusters(plan: Plan) -> None:
    """Raise UsageError for a plan whose lock can be simulated and that does not run on the simulator."""
    if program_runtime(plan.lock):
        return
    if plan.cluster != "sim" or (plan.runs_on and "sim" not in plan.runs_on):
        raise UsageError("releases are compared on the simulator: this plan runs on docker only")


def refuse_misspelled_lock(plan: Plan, package: str) -> None:
    """Raise UsageError for a plan whose lock no release of the package can have. Otherwise every trial of a bisection
    would build an environment and then say that the lock cannot be loaded."""
    refuse_misspelled(plan.lock, [package, *(one.name for one in parse(plan.requires, "requires"))])


# The question of a bisection.


def try_release(question: BisectQuestion, version: str, releases: Releases) -> BisectTrial:
    """Answer the question for one release: run its seeds until one shows the failure."""
    began = time.monotonic()
    plan = releases.plan_for(question.plan, version)
    trial = _tried(question, plan, version, releases)
    return msgspec.structs.replace(trial, seconds=round(time.monotonic() - began, 2))


def _tried(question: BisectQuestion, plan: Plan, version: str, releases: Releases) -> BisectTrial:
    lacking = releases.reason_missing(plan)
    if lacking:
        return BisectTrial(version=version, outcome="missing", reason=lacking)
    doubt, runs, summary = "", 0, ""
    try:
        for result in releases.results(plan, question.seeds):
            runs, summary = runs + 1, result.results.summary
            invalid = failing(result, question.look_for)
            if invalid:
                return BisectTrial(
                    version=version, outcome="bad", runs=runs, seed=result.plan.seed, invalid=invalid, summary=summary
                )
            doubt = doubt or open_question(result, question.look_for)
    except HarnessError as error:  # such as a lock whose library has other names in this release
        doubt = doubt or str(error)
    return BisectTrial(
        version=version, outcome="unknown" if doubt else "good", runs=runs, summary=summary, reason=doubt
    )


def failing(result: Result, look_for: Sequence[str]) -> tuple[str, ...]:
    """Return the checkers that count and say invalid, the gravest first; ``look_for`` empty counts all."""
    found = [name for name, verdict in result.verdicts.items() if verdict.valid is False]
    counted = [name for name in found if name in look_for or not look_for]
    return tuple(sorted(counted, key=lambda name: (ORDER.index(name) if name in ORDER else len(ORDER), name)))


def open_question(result: Result, look_for: Sequence[str]) -> str:
    """Return why a run without a violation does not show that there is none, "" if it shows it."""
    needed = (*look_for, FAULTS) if look_for else tuple(result.verdicts)
    for name in needed:
        verdict = result.verdicts.get(name)
        if verdict is None:
            return f"{name} does not apply to this run"
        if verdict.valid is None:
            return f"{name}: {verdict.explanation}"
    return ""


# Stories.


def story_with(plan: Plan, checker: str) -> TrialStory | None:
    """Return the minimal story of a plan's violation, None if there is none or it cannot be told: a minimal plan is
    found by many runs, on the simulator."""
    if program_runtime(plan.lock):
        return None
    try:
        return tell_story(plan, checker)
    except HarnessError:
        return None


def documented(told: TrialStory | None) -> Story:
    """Return a story as documents have it."""
    return Story() if told is None else msgspec.convert(msgspec.to_builtins(told.story), Story)


# A plan with several releases.


def cell_of(named: VersionPlan, version: str, releases: Releases) -> VersionCell:
    """Run all seeds of a plan with one release."""
    plan = releases.plan_for(named.plan, version)
    lacking = releases.reason_missing(plan)
    if lacking:
        return missing(version, named.name, lacking)
    runs: list[VersionRun] = []
    doubt = ""
    try:
        for result in releases.results(plan, named.seeds):
            runs.append(version_run(result))
            doubt = doubt or ("" if runs[-1].invalid else open_question(result, ()))
    except HarnessError as error:
        doubt = doubt or str(error)
    return cell(version, named.name, runs, doubt)


def version_run(result: Result) -> VersionRun:
    """Return a run as documents of releases have it."""
    return VersionRun(
        seed=result.plan.seed,
        valid=tuple(name for name, verdict in result.verdicts.items() if verdict.valid is True),
        invalid=failing(result, ()),
        summary=result.results.summary,
    )


def store_run(plan: Plan, store: Path, command: str) -> Path:
    """Run a plan again, store it with its report, and return its folder."""
    from harness.reports import run_report  # late: loads the plotting library

    result = run(plan, store=store, command=command)
    assert result.folder is not None
    run_report.write(result.folder)
    return result.folder
