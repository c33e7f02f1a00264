"""Summary of a run in two or three sentences, from the verdicts and the observed faults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from harness.checkers.base import Verdict, Violation, doubt_of, no_lock_taken
from harness.documents.lock import LockFacts
from harness.faults.catalogue import fault_of
from harness.faults.records import FaultRecord, Moment
from harness.history import History
from harness.plan import Plan
from harness.wording import LIMITS, SAFE_WITH_FENCING, as_sentence, counted, listed, lower_first

from .decision import FENCED, Decision, Property
from .fault_records import fault_records

ORDER: Final = ("mutual-exclusion", "resource", "fencing", "ownership", "deadlock", "liveness")
"""Checkers in the order in which their violation becomes the headline; all other checkers come after these."""
SHOWN_FAULTS: Final = 3


@dataclass(frozen=True, slots=True)
class Summary:
    """Summary of a run: the ``reason`` for its verdict in one sentence, and further sentences."""

    reason: str
    details: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " ".join([self.reason, *self.details])


def summarise(
    plan: Plan, lock: LockFacts, history: History, verdicts: Mapping[str, Verdict], decision: Decision
) -> Summary:
    """Return the summary of a run."""
    if decision.valid is False:
        return _violated(plan, lock, history, verdicts, decision)
    if decision.valid is None:
        return _undecided(history, verdicts, decision)
    notes = tuple(_notes(decision))
    if decision.fenced:
        return Summary(_fenced(verdicts, decision), notes)
    accepted = [name for name in decision.limits if decision.properties[name].required]
    if accepted:
        return Summary(_accepted(lock, verdicts, decision, accepted[0]), notes)
    return Summary(_no_violation(plan, history), notes)


def _violated(
    plan: Plan, lock: LockFacts, history: History, verdicts: Mapping[str, Verdict], decision: Decision
) -> Summary:
    faults = fault_records(history)
    name = min(decision.decisive, key=_rank)
    verdict, found = verdicts[name], decision.properties[name]
    violation = found.violation
    if violation is None:
        return Summary(as_sentence(verdict.explanation))
    resource = _resource(plan, verdicts, verdict)
    reason = as_sentence(violation.harm or violation.sentence)
    if violation.harm and (lost := _lost(verdicts)):
        reason, resource = as_sentence(f"{violation.harm}; {lost}"), ""
    details = [
        _between(violation),
        as_sentence(f"Cause: {violation.cause}") if violation.cause else "",
        _cause(violation, faults, history.origin),
        resource,
        _known(lock, found) if found.limits else "",
        *_notes(decision),
    ]
    return Summary(reason, tuple(sentence for sentence in details if sentence))


def _between(violation: Violation) -> str:
    """Return a sentence with the details that lie between the harm and the cause; empty if there are none."""
    if not violation.harm:
        return ""
    details = violation.sentence.removeprefix(violation.harm).removesuffix(violation.cause).strip(":; ")
    return as_sentence(f"Holders: {details}" if violation.kind == "overlap" else details) if details else ""


def _rank(name: str) -> tuple[int, str]:
    return (ORDER.index(name) if name in ORDER else len(ORDER), name)


def _lost(verdicts: Mapping[str, Verdict]) -> str:
    """Return what the overlap did to the resource, as a clause: ``3 updates were lost``; empty if it lost none."""
    resource = verdicts.get("resource")
    lost = resource.stats.get("lost", 0) if resource is not None and resource.valid is False else 0
    return f"{counted(lost, 'update')} {'was' if lost == 1 else 'were'} lost" if lost else ""


def _known(lock: LockFacts, found: Property) -> str:
    """Return a sentence that names the documented limits behind a violation."""
    return f"This is a known limit of {lock.name}: {listed(LIMITS[limit] for limit in found.limits)}."


def _notes(decision: Decision) -> Iterator[str]:
    """Yield a sentence on the broken properties that do not decide the verdict, if the reason does not name them."""
    named = FENCED if decision.fenced else frozenset()
    broken = [*decision.named("broken"), *decision.limits]
    others = [name for name in broken if not decision.properties[name].required and name not in named]
    if others:
        yield f"Also broken, but not required: {listed(others)}."


def _fenced(verdicts: Mapping[str, Verdict], decision: Decision) -> str:
    """Return the reason of a lock that was broken without harm."""
    if "mutual-exclusion" in (*decision.named("broken"), *decision.limits):
        verdict = verdicts["mutual-exclusion"]
        times = verdict.stats.get("violations", 1)
        what = f"two clients held the lock at the same time {'once' if times == 1 else f'{times} times'}"
    else:
        what = "the lock was released by a client that did not hold it"
    return f"{SAFE_WITH_FENCING}: {what}, and the resource refused every late access by its token."


def _accepted(lock: LockFacts, verdicts: Mapping[str, Verdict], decision: Decision, name: str) -> str:
    """Return the reason of a run that is valid because its known limits are accepted."""
    violation = verdicts[name].evidence[0]
    harm = (violation.harm or violation.sentence).rstrip(".")
    known = listed(LIMITS[limit] for limit in decision.properties[name].limits)
    return f"Accepted as a known limit of {lock.name} ({known}): {lower_first(harm)}."


def _undecided(history: History, verdicts: Mapping[str, Verdict], decision: Decision) -> Summary:
    if not history.nemesis("start"):
        ends = [op.value["reason"] for op in history.nemesis("stop")]
        return Summary(f"Nothing was proved: the run was {ends[-1] if ends else 'killed'} before it began.")
    found = tuple(filter(None, [errors(history)]))
    if (doubt := doubt_of(history)) is not None:  # of all properties alike
        return Summary(as_sentence(doubt), found)
    why: dict[str, list[str]] = {}
    for name in decision.untested:
        why.setdefault(verdicts[name].explanation, []).append(name)
    reasons = "; ".join(f"{listed(names)}: {reason}" for reason, names in why.items())
    reasons = reasons or "no required property was tested"
    return Summary(f"Nothing was proved: {reasons}.", found)


def _no_violation(plan: Plan, history: History) -> str:
    faults = fault_records(history)
    count = f"{len(faults)} fault{'s' if len(faults) > 1 else ''}"
    injected = (
        f"{count} {'were' if len(faults) > 1 else 'was'} injected and took effect"
        if faults
        else "no fault was injected"
    )
    unused = "; the lock itself was not used, as the workload takes none" if no_lock_taken(history) is not None else ""
    return f"No violation in {plan.time_limit:g} s with {plan.clients} clients; {injected}{unused}."


def errors(history: History) -> str:
    """Return a sentence on the most frequent error of acquires; empty if grants are more frequent."""
    calls = history.calls("acquire")
    ends = ("never returned" if call.done is None else _ending(call.done.error or "") for call in calls
            if call.done is None or call.done.error not in (None, "busy"))  # fmt: skip
    errors = Counter(ends)
    granted = sum(call.outcome == "ok" for call in calls)
    ending, times = next(iter(errors.most_common(1)), (None, 0))
    return f"{times} of {len(calls)} acquires {ending}." if ending and times > granted else ""


def _ending(error: str) -> str:
    """Return the words for an error as part of a sentence: some have several lines, or end with a full stop."""
    return f"ended with {' '.join(error.split()).rstrip('.')}"


def _cause(violation: Violation, faults: list[FaultRecord], origin: int) -> str:
    """Name the faults that were active between the first of the involved steps and the moment of the violation."""
    shown = foremost_faults(faults, violation)
    if not shown:
        return "No fault was injected." if not faults else "No fault was active at that time."
    return as_sentence("; ".join(describe(fault, origin, _course(violation)[1]) for fault in shown))


def _course(violation: Violation) -> tuple[int, int]:
    """Return the times (ns) of the first of the involved steps and of the violation."""
    since = min([step.get("from_ns", violation.from_ns) for step in violation.involved] or [violation.from_ns])
    return since, max(violation.from_ns, since)


def foremost_faults(faults: list[FaultRecord], violation: Violation) -> list[FaultRecord]:
    """Return the last few faults, in order, that were active in the course of a violation.

    Faults that struck a client of the violation go before all others."""
    since, until = _course(violation)
    struck = [fault for fault in faults if since <= fault.injected_ns <= until]
    lasting = [f for f in faults if f.injected_ns < since and (f.healed_ns is None or f.healed_ns >= since)]
    again = {fault.fault for fault in struck}
    acting = [*(fault for fault in lasting if fault.fault not in again), *struck]
    clients = {step.get("client") for step in violation.involved}
    by_weight = sorted(acting, key=lambda fault: not clients.isdisjoint(fault.hosts))
    shown = {fault.id for fault in by_weight[-SHOWN_FAULTS:]}
    return [fault for fault in acting if fault.id in shown]


def describe(fault: FaultRecord, origin: int, moment: int) -> str:
    """Return one fault as a clause: fault, hosts and time. Its effects after ``moment`` (ns) are left out."""
    at = Moment(moment, origin)
    if not fault.seen:
        when = at.seconds(fault.injected_ns)
        effect = fault.partial or "had no confirmed effect"
        return f"{fault.fault} struck {fault.who or 'no host'} at {when}, and {effect}"
    return fault_of(fault).cause(fault, at)


def _resource(plan: Plan, verdicts: Mapping[str, Verdict], headline: Verdict) -> str:
    """Return a sentence on the overlap's effect on the protected resource; empty if that is the headline."""
    resource = verdicts.get("resource")
    if resource is None or resource.valid is None or resource is headline:
        return ""
    if resource.valid is False:
        return as_sentence(resource.explanation)
    if plan.fencing != "off":
        return "The resource stayed consistent: it rejected the late accesses."
    return ""


def fencing_note(plan: Plan, history: History, issues_fence: bool | None) -> str:
    """Return a sentence on how many accesses a resource that checks tokens rejected, or would have rejected.

    ``issues_fence`` says whether the lock issues tokens; None if only the history can tell."""
    if issues_fence is None:
        grants = [call.done.value for call in history.calls("acquire") if call.done is not None]
        issues_fence = any(isinstance(grant, dict) and grant.get("fence") is not None for grant in grants)
    rejected = sum(1 for error in history.error if error in ("stale fence", "not the last token"))
    if plan.fencing != "off":
        return f"Fencing was on: the resource rejected {rejected} late accesses."
    if not issues_fence:
        return "The lock issues no fencing token, so the resource has nothing to check."
    return f"Fencing was off: a resource that checks tokens would have rejected {_late(history)} accesses."


def _late(history: History) -> int:
    """Count accepted accesses whose token was lower than an earlier one's, in the resource's own order."""
    accepted = []
    for call in history.calls("read", "write", "take", "mark"):
        fence = call.invoke.value.get("fence")
        if call.done is not None and call.done.type == "ok" and isinstance(fence, int):
            accepted.append((call.done.value["arrival"], call.invoke.key, fence))
    highest: dict[str | None, int] = {}
    late = 0
    for _, key, fence in sorted(accepted, key=lambda access: access[0]):
        late += fence < highest.get(key, fence)
        highest[key] = max(fence, highest.get(key, fence))
    return late
