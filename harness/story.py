"""Says in two or three sentences what happened in a run, from the verdicts and from what was observed of the faults."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from checkers.base import Verdict, Violation, no_lock_taken
from lock_impls.base import LockInfo

from .history import History
from .plan import Plan

ORDER: Final = ("mutual-exclusion", "resource", "fencing", "ownership", "deadlock", "liveness")
"""Which checker's violation makes the headline, if several found one; those of the others come after these."""
SHOWN_FAULTS: Final = 3
_HOST: Final = re.compile(r"[a-z]+\d")
"""Names of hosts stay as they are at the beginning of a sentence."""


@dataclass(frozen=True, slots=True)
class FaultRecord:
    """One injected fault as the history has it; times in ns, None while it lasts."""

    id: int
    fault: str
    hosts: tuple[str, ...]
    params: dict[str, Any]
    injected_ns: int
    healed_ns: int | None
    seen: bool
    observed: dict[str, Any]
    error: str | None


def fault_records(history: History) -> list[FaultRecord]:
    """The faults of a run, from its nemesis entries."""
    begun: dict[int, Any] = {}
    seen: dict[int, Any] = {}
    healed: dict[int, Any] = {}
    for op in history.nemesis("inject", "heal"):
        into = healed if op.f == "heal" else begun if op.type == "invoke" else seen
        if into is healed:  # of two the later counts: it was looked at again
            into[op.value["id"]] = op
        into.setdefault(op.value["id"], op)
        begun.setdefault(op.value["id"], op)
    return [_record(number, op, seen.get(number), healed.get(number)) for number, op in begun.items()]


def _record(number: int, op: Any, seen: Any, healed: Any) -> FaultRecord:
    observed = {} if seen is None else dict(seen.value["observed"])
    if healed is not None and not healed.value["observed"].get("superseded"):
        observed["after_heal"] = healed.value["observed"]
    return FaultRecord(
        number,
        op.value["fault"],
        tuple(op.value["hosts"]),
        op.value.get("params", {}),
        op.time,
        None if healed is None or healed.type == "fail" else healed.time,
        seen is not None and seen.type == "ok",
        observed,
        None if seen is None else seen.error,
    )


def tell(plan: Plan, history: History, verdicts: Mapping[str, Verdict]) -> str:
    """The summary of a run."""
    faults = fault_records(history)
    names = (*ORDER, *(name for name in verdicts if name not in ORDER))
    headline = next((v for name in names if (v := verdicts.get(name)) and v.valid is False), None)
    if headline is None:
        return _no_violation(plan, history, verdicts, faults)
    violation = headline.evidence[0]
    sentences = [
        as_sentence(violation.sentence),
        _cause(violation, faults, history.origin),
        _resource(plan, verdicts, headline),
    ]
    return " ".join(sentence for sentence in sentences if sentence)


def unpromised(verdicts: Mapping[str, Verdict], info: LockInfo) -> str:
    """What of that the lock never said that it would do."""
    said = {"fairness": (info.queue, "an order"), "reentrancy": (info.reentrant, "to be reentrant")}
    asked = [what for name, (promised, what) in said.items() if not promised and _violated(verdicts, name)]
    return f" ({info.name} does not promise {' or '.join(asked)}.)" if asked else ""


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
    struck = f"{count} struck and had the effect intended" if faults else "no fault was injected"
    unused = " The lock itself was not used: the workload takes none." if no_lock_taken(history) is not None else ""
    return f"No violation in {plan.time_limit:g} s with {plan.clients} clients; {struck}.{unused}"


def errors(history: History) -> str:
    """What acquires mostly did instead of granting, if few granted: a sentence after a space, or nothing."""
    calls = history.calls("acquire")
    ends = ("never returned" if call.done is None else f"ended with {call.done.error}" for call in calls
            if call.done is None or call.done.error not in (None, "busy"))  # fmt: skip
    errors = Counter(ends)
    granted = sum(call.outcome == "ok" for call in calls)
    said, times = next(iter(errors.most_common(1)), (None, 0))
    return f" {times} of {len(calls)} acquires {said}." if said and times > granted else ""


def as_sentence(text: str) -> str:
    """With a capital (names of hosts stay as they are) and a full stop."""
    if not _HOST.match(text):
        text = text[:1].upper() + text[1:]
    return text if text.endswith(".") else text + "."


def _cause(violation: Violation, faults: list[FaultRecord], origin: int) -> str:
    """The faults that were at work between the first of the involved steps and the moment of the violation."""
    since = min([step.get("from_ns", violation.from_ns) for step in violation.involved] or [violation.from_ns])
    until = max(violation.from_ns, since)
    struck = [fault for fault in faults if since <= fault.injected_ns <= until]
    lasting = [f for f in faults if f.injected_ns < since and (f.healed_ns is None or f.healed_ns >= since)]
    again = {fault.fault for fault in struck}
    acting = [*(fault for fault in lasting if fault.fault not in again), *struck][-SHOWN_FAULTS:]
    if not acting:
        return "No fault was at work." if not faults else "No fault was at work just then."
    return as_sentence("; ".join(describe(fault, origin, until) for fault in acting))


def describe(fault: FaultRecord, origin: int, moment: int) -> str:
    """One fault as a clause, as it was seen to be: who, what, when; what came of it after ``moment`` (ns) is not told
    yet."""
    at = f"{(fault.injected_ns - origin) / 1e9:.3f} s"
    facts = fault.observed
    who = listed(fault.hosts)
    if not fault.seen:
        return f"{fault.fault} struck {who or 'nobody'} at {at}, and was not seen to have an effect"
    if "moved_ns" in facts:
        moves = [f"{host} {ns / 1e9:+.3f} s" for host, ns in facts["moved_ns"].items()]
        return f"the wall clocks jumped at {at} ({', '.join(moves)})"
    if "rate" in facts:
        return f"the wall clocks of {who} ran {facts['rate']:+.0%} too fast from {at}"
    if "primary_after" in facts:
        moved = f"from {facts['primary_before']} to {facts['primary_after']}"
        return f"the primary was lost at {at}, and moved {moved} {facts['seconds']:.1f} s later"
    if "keys_before" in facts:
        back = fault.healed_ns is not None and fault.healed_ns <= moment
        empty = facts.get("after_heal", {}).get("wiped") if back else None
        fate = "had lost power" if fault.fault == "power-loss" else "had been killed"
        return f"{who} {fate} at {at}" + (f", and {listed(empty)} had come back without data" if empty else "")
    if "cut" in facts:
        apart = listed(sorted({host for link in facts["cut"] for host in link.split(">")} - set(fault.hosts)))
        return f"{who} had been cut from {apart or 'each other'} at {at}"
    if "messages" in facts:
        held = "lost" if facts["delay"] is None else f"held back for {facts['delay']:g} s"
        return f"a message between {who} was {held} at {at}"
    if "hung" in facts:
        return f"the thread of {who} that held the lock hung from {at}"
    if "state" in facts:
        state = listed(sorted(set(facts["state"].values())))
        until = "" if fault.healed_ns is None else f" to {(fault.healed_ns - origin) / 1e9:.3f} s"
        return f"{who} was {state} from {at}{until}"
    return f"{fault.fault} struck {who or 'nobody'} at {at}"


def listed(names: Any) -> str:
    """``n1, n2 and n3``."""
    *most, last = list(names) or [""]
    return f"{', '.join(most)} and {last}" if most else last


def _resource(plan: Plan, verdicts: Mapping[str, Verdict], headline: Verdict) -> str:
    """What the overlap did to the protected resource, unless that is the headline."""
    resource = verdicts.get("resource")
    if resource is None or resource.valid is None or resource is headline:
        return ""
    if resource.valid is False:
        return as_sentence(resource.explanation)
    if plan.fencing != "off":
        return "The resource stayed consistent: it rejected what came too late."
    return ""


def fencing_note(plan: Plan, history: History, issues_fence: bool) -> str:
    """What a resource that checks tokens stopped, or would have stopped."""
    rejected = sum(1 for error in history.error if error in ("stale fence", "not the last token"))
    if plan.fencing != "off":
        return f"Fencing was on: the resource rejected {rejected} late accesses."
    if not issues_fence:
        return "The lock issues no fencing token, so the resource has nothing to check."
    return f"Fencing was off: a resource that checks tokens would have rejected {_late(history)} accesses."


def _late(history: History) -> int:
    """Accepted accesses whose token was lower than one accepted before, by the resource's own order."""
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
