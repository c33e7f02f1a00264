"""Summary of a run in two or three sentences, from the verdicts and the observed faults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from harness.checkers.base import Verdict, Violation, no_lock_taken
from harness.documents.lock import LockFacts
from harness.faults.catalogue import fault_of
from harness.faults.records import FaultRecord, Moment
from harness.history import History
from harness.plan import Plan
from harness.wording import as_sentence, listed

from .fault_records import fault_records

ORDER: Final = ("mutual-exclusion", "resource", "fencing", "ownership", "deadlock", "liveness")
"""Checkers in the order in which their violation becomes the headline; all other checkers come after these."""
SHOWN_FAULTS: Final = 3


def summarise(plan: Plan, history: History, verdicts: Mapping[str, Verdict]) -> str:
    """Return the summary of a run."""
    faults = fault_records(history)
    names = (*ORDER, *(name for name in verdicts if name not in ORDER))
    headline = next((v for name in names if (v := verdicts.get(name)) and v.valid is False), None)
    if headline is None:
        return _no_violation(plan, history, verdicts, faults)
    if not headline.evidence:
        return as_sentence(headline.explanation)
    violation = headline.evidence[0]
    sentences = [
        as_sentence(violation.sentence),
        _cause(violation, faults, history.origin),
        _resource(plan, verdicts, headline),
    ]
    return " ".join(sentence for sentence in sentences if sentence)


def unpromised(verdicts: Mapping[str, Verdict], lock: LockFacts) -> str:
    """Return a sentence, after a space, on violations of properties that the lock does not promise."""
    properties = {"fairness": (lock.queue, "an order of service"), "reentrancy": (lock.reentrant, "to be reentrant")}
    broken = [what for name, (promised, what) in properties.items() if promised is False and _violated(verdicts, name)]
    return f" ({lock.name} does not promise {' or '.join(broken)}.)" if broken else ""


def _violated(verdicts: Mapping[str, Verdict], name: str) -> bool:
    return name in verdicts and verdicts[name].valid is False


def _no_violation(plan: Plan, history: History, verdicts: Mapping[str, Verdict], faults: list[FaultRecord]) -> str:
    if not history.nemesis("start"):
        ends = [op.value["reason"] for op in history.nemesis("stop")]
        return f"Nothing was proved: the run was {ends[-1] if ends else 'killed'} before it began."
    why: dict[str, list[str]] = {}
    for name, verdict in verdicts.items():
        if verdict.valid is None:
            why.setdefault(verdict.explanation, []).append(name)
    if why:
        reasons = "; ".join(f"{listed(names)}: {reason}" for reason, names in why.items())
        return f"Nothing was proved. {reasons}.{errors(history)}"
    count = f"{len(faults)} fault{'s' if len(faults) > 1 else ''}"
    injected = (
        f"{count} {'were' if len(faults) > 1 else 'was'} injected and took effect"
        if faults
        else "no fault was injected"
    )
    unused = " The lock itself was not used: the workload takes none." if no_lock_taken(history) is not None else ""
    return f"No violation in {plan.time_limit:g} s with {plan.clients} clients; {injected}.{unused}"


def errors(history: History) -> str:
    """Return a sentence, after a space, on the most frequent error of acquires; empty if grants are more frequent."""
    calls = history.calls("acquire")
    ends = ("never returned" if call.done is None else f"ended with {call.done.error}" for call in calls
            if call.done is None or call.done.error not in (None, "busy"))  # fmt: skip
    errors = Counter(ends)
    granted = sum(call.outcome == "ok" for call in calls)
    ending, times = next(iter(errors.most_common(1)), (None, 0))
    return f" {times} of {len(calls)} acquires {ending}." if ending and times > granted else ""


def _cause(violation: Violation, faults: list[FaultRecord], origin: int) -> str:
    """Name the faults that were active between the first of the involved steps and the moment of the violation."""
    since = min([step.get("from_ns", violation.from_ns) for step in violation.involved] or [violation.from_ns])
    until = max(violation.from_ns, since)
    struck = [fault for fault in faults if since <= fault.injected_ns <= until]
    lasting = [f for f in faults if f.injected_ns < since and (f.healed_ns is None or f.healed_ns >= since)]
    again = {fault.fault for fault in struck}
    acting = [*(fault for fault in lasting if fault.fault not in again), *struck][-SHOWN_FAULTS:]
    if not acting:
        return "No fault was injected." if not faults else "No fault was active at that time."
    return as_sentence("; ".join(describe(fault, origin, until) for fault in acting))


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
