"""Verdict of a lock under each family of faults, and answers to the questions of the index, from evidence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Final, get_args

from harness.documents.publication import PublishedEvidence, PublishedFamily, PublishedNeed, PublishedState
from harness.faults.base import Question
from harness.faults.catalogue import fault_class, fault_names
from harness.reports.certainty import of_family
from harness.studies.lock_status import NO_FAULT
from harness.wording import counted, listed

WORST_FIRST: Final[tuple[PublishedState, ...]] = ("broken", "violated", "known-limit", "fenced", "not-tested", "kept")
"""The states; see :data:`harness.documents.publication.PublishedState`."""
DECIDED: Final[tuple[PublishedState, ...]] = ("broken", "violated", "known-limit", "fenced", "kept")


@cache
def questions() -> dict[str, tuple[str, ...]]:
    """Return the questions of the index, each with the families of faults that answer it."""
    by_question: dict[str, tuple[str, ...]] = {NO_FAULT: (NO_FAULT, "none")}
    for question in get_args(Question):
        by_question[question] = tuple(name for name in fault_names() if fault_class(name).question == question)
    return by_question


def worst(states: Iterable[PublishedState]) -> PublishedState:
    """Return the worst of the states that are a verdict; ``not-tested`` if there is none.

    A state without a verdict neither hides a violation nor takes the place of a run that kept the promise: pages say
    beside it how many runs gave no verdict.
    """
    return min((state for state in states if state != "not-tested"), key=WORST_FIRST.index, default="not-tested")


def families(evidence: Sequence[PublishedEvidence], faults: Mapping[str, str]) -> tuple[PublishedFamily, ...]:
    """Return the verdict under ``no fault`` and each of ``faults``, and under others that the evidence has: those with
    a verdict first, the worst first, then by the order of ``faults``."""
    by_family: dict[str, list[PublishedEvidence]] = {NO_FAULT: [], **{name: [] for name in faults if name != "none"}}
    for one in evidence:
        for name in dict.fromkeys(one.faults or (NO_FAULT,)):
            by_family.setdefault(name, []).append(one)
    found = [family(name, its) for name, its in by_family.items()]
    return tuple(sorted(found, key=_rank))


def _rank(one: PublishedFamily) -> tuple[int, bool]:
    order = (*DECIDED, "not-tested")
    return order.index(one.state), not one.evidence


def family(fault: str, evidence: Sequence[PublishedEvidence]) -> PublishedFamily:
    """Return the verdict of a lock under one family of faults."""
    ordered = tuple(sorted(evidence, key=lambda one: (WORST_FIRST.index(one.state), one.started_at, one.scenario)))
    state = worst(one.state for one in ordered)
    open_failures = [one for one in ordered if one.known_failure and one.state == "not-tested"]
    if state == "kept" and open_failures:
        return _unproved(fault, open_failures[0], ordered)
    kept = [one.judged for one in ordered if one.state == "kept"]
    return PublishedFamily(
        fault=fault, state=state, why=_why(state, ordered), sure=of_family(state, kept), evidence=ordered
    )


def _unproved(fault: str, failure: PublishedEvidence, ordered: tuple[PublishedEvidence, ...]) -> PublishedFamily:
    """Return the verdict where no violation was found, and a failure that is known was not tested or not found."""
    kept = sum(one.judged for one in ordered if one.state == "kept")
    why = (
        f"{counted(kept, 'run')} found no violation. But the scenario {failure.scenario} documents a failure of this "
        f"lock, and no stored run shows it: {failure.why}"
    )
    return PublishedFamily(fault=fault, state="not-tested", why=why, sure=of_family("not-tested", ()), evidence=ordered)


def _why(state: PublishedState, evidence: Sequence[PublishedEvidence]) -> str:
    undecided = sum(one.undecided for one in evidence)
    more = f" {counted(undecided, 'run')} gave no verdict." if undecided else ""
    if state == "kept":
        runs = sum(one.judged for one in evidence)
        tests = counted(sum(one.state == "kept" for one in evidence), "test")
        return f"No violation in {counted(runs, 'run')} of {tests}.{more}"
    if state != "not-tested":
        return _violation(next(one for one in evidence if one.state == state))
    if not evidence:
        return "Nothing is stored: no run of this lock had this fault."
    reasons = list(dict.fromkeys(one.why for one in evidence if one.why))
    return f"Nothing stored has a verdict. {reasons[0] if reasons else ''}".rstrip()


def _violation(one: PublishedEvidence) -> str:
    """Return what was found, after the scenario and the faults where there are several."""
    faults = f"with {listed(one.faults)}" if len(one.faults) > 1 else ""
    where = ", ".join(filter(None, [f"scenario {one.scenario}" if one.scenario else "", faults]))
    return f"{where[:1].upper()}{where[1:]}: {one.why}" if where else one.why


def needs(found: Sequence[PublishedFamily]) -> tuple[PublishedNeed, ...]:
    """Return the answers to the questions of the index."""
    by_name = {one.fault: one for one in found}
    return tuple(
        _need(name, [by_name[fault] for fault in members if fault in by_name]) for name, members in questions().items()
    )


def _known_failure(one: PublishedFamily) -> bool:
    return any(result.known_failure for result in one.evidence)


def _need(name: str, members: Sequence[PublishedFamily]) -> PublishedNeed:
    state = worst(one.state for one in members)
    decided = [one for one in members if one.state != "not-tested"]
    untested = [one.fault for one in members if one.state == "not-tested"]
    open_failures = [one.why for one in members if one.state == "not-tested" and _known_failure(one)]
    if not decided or (state == "kept" and open_failures):
        reasons = [*open_failures, *(one.why for one in members if one.evidence), *(one.why for one in members)]
        return PublishedNeed(name=name, state="not-tested", why=next(iter(reasons), ""))
    shown = next(one.why for one in decided if one.state == state)
    if state == "kept" and len(decided) > 1:
        shown = " ".join(f"{one.fault}: {one.why}" for one in decided)
    more = f" Not tested: {', '.join(untested)}." if untested else ""
    results = {result for one in decided for result in one.evidence if result.state == state}
    return PublishedNeed(
        name=name,
        state=state,
        families=tuple(one.fault for one in decided),
        judged=sum(result.judged for result in results),
        why=f"{shown}{more}",
    )
