"""What the run of a lock under a fault came to, in a word, and what several of them come to together."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from checkers.base import Verdict

from ..history import SECOND, History
from ..plan import Plan
from ..runs import Result
from ..story import errors, fault_records
from ..sweep import SERVICE

State = Literal["unsafe", "unavailable", "unknown", "fenced", "safe", "not-run"]
WORST_FIRST: Final[tuple[State, ...]] = ("unsafe", "unavailable", "unknown", "fenced", "safe")
"""``unsafe``: two holders, or a broken resource, and nothing stopped it · ``unavailable``: the lock was not to be had
when it should have been · ``unknown``: nobody can tell · ``fenced``: two holders, and the resource refused the late
one · ``safe``: neither. ``not-run`` is what can have no run: the fault means nothing on this cluster."""
LOCK_LEVEL: Final = frozenset({"mutual-exclusion", "ownership"})
"""Checkers of what a fence makes harmless: who held the lock beside whom."""
AVAILABILITY: Final = frozenset({"liveness", "deadlock"})
TOKENS: Final = frozenset({"token-fell", "token-repeated"})
NEVER: Final = "The fault never struck: its moment did not come before the run was over."
NOBODY: Final = "Nobody was granted the lock at all."
_SENTENCE: Final = re.compile(r"(?<=\.) (?=\S)")


@dataclass(frozen=True, slots=True)
class Seen:
    """What one run showed. ``two_holders``: two clients held the lock at once; ``tokens_fell``: a fencing token was
    not above the one before it."""

    state: State
    why: str
    two_holders: bool = False
    tokens_fell: bool = False


def seen(result: Result) -> Seen:
    """A run under a fault, judged."""
    plan, history = result.plan, result.history
    lapsed = lapse(plan, history)
    struck = not plan.faults or plan.faults[0].fault in {record.fault for record in fault_records(history)}
    state = state_of(result.verdicts, plan.fencing, lapsed=bool(lapsed), struck=struck)
    if result.verdict.valid is None and not _granted(history):  # a lock that was never at work was put to no test
        return Seen("unknown", errors(history).strip() or NOBODY)
    tokens = result.verdicts["fencing"].evidence
    return Seen(
        state,
        _why(result, state, lapsed, struck=struck),
        result.verdicts["mutual-exclusion"].valid is False,
        any(violation.kind in TOKENS for violation in tokens),
    )


def state_of(verdicts: Mapping[str, Verdict], fencing: str, *, lapsed: bool = False, struck: bool = True) -> State:
    """``lapsed``: did nobody get the lock any more, long after the last fault? ``struck``: was there a fault at all?
    Checkers of service that no fault is about (fairness, reentrancy, try-lock) have no say."""
    invalid = {name for name, verdict in verdicts.items() if verdict.valid is False}
    broken = invalid - SERVICE
    stopped = fencing == "on" and broken <= LOCK_LEVEL
    if broken and not stopped:
        return "unsafe"
    if lapsed or invalid & AVAILABILITY:
        return "unavailable"
    if _undecided(verdicts) or not struck:
        return "unknown"
    return "fenced" if broken else "safe"


def _undecided(verdicts: Mapping[str, Verdict]) -> list[str]:
    """The checkers that cannot tell, of those that have a say."""
    return [name for name, it in verdicts.items() if it.valid is None and name not in SERVICE - AVAILABILITY]


def lapse(plan: Plan, history: History) -> str:
    """A sentence, if nobody was granted a lock any more to the end of the run, nor for long after the last fault was
    over, though clients asked; else nothing.

    That servers which have lost a majority's data may never answer again is no fault of a lock, and each request to
    them may still come to something, so ``deadlock`` and ``liveness`` accuse nobody. Whoever needs the lock waits all
    the same.
    """
    acquires, granted = history.calls("acquire"), _granted(history)
    # What was sent into a fault may come as late again as it was long.
    wakes = [2 * it.healed_ns - it.injected_ns for it in fault_records(history) if it.healed_ns is not None]
    last = max(granted, default=history.origin)
    quiet = max(last, *wakes, history.origin)
    end = history.origin + round(plan.time_limit * SECOND)
    settings: dict[str, Any] = history.nemesis("start")[0].value
    patience = settings["hold"] + 2 * (settings["ttl"] + settings["slack"])
    asked = any(call.invoke.time > quiet for call in acquires)
    if not asked or end - quiet < patience * SECOND:
        return ""
    since = f"after {(last - history.origin) / SECOND:.3f} s" if granted else "at all"
    return f"Nobody was granted the lock {since}, though clients asked for it to the end of {plan.time_limit:g} s."


def _granted(history: History) -> list[int]:
    """When."""
    calls = history.calls("acquire")
    return [call.done.time for call in calls if call.done is not None and call.outcome == "ok"]


def _why(result: Result, state: State, lapsed: str, *, struck: bool) -> str:
    """What made the state; a run may have shown other things, too."""
    verdicts = result.verdicts
    if state == "unknown":
        name = next(iter(_undecided(verdicts)), "")
        return f"{name}: {verdicts[name].explanation}" if struck else NEVER
    if state == "unavailable":
        late = (verdicts[name].explanation for name in ("deadlock", "liveness") if verdicts[name].valid is False)
        return lapsed or next(late)
    return first_sentence(result.document["summary"])


def first_sentence(text: str) -> str:
    return _SENTENCE.split(text, maxsplit=1)[0]


def worst(runs: Sequence[Seen]) -> int:
    """The number of the run that shows a cell's state: the first of those in the worst one."""
    return min(range(len(runs)), key=lambda number: WORST_FIRST.index(runs[number].state))


def cell(runs: Sequence[Seen], plan: Plan, fault: str, command: str, folder: str | None) -> dict[str, Any]:
    """A cell of the document; ``plan``, ``command`` and ``folder`` are those of the run that shows its state."""
    shown = runs[worst(runs)]
    counted = Counter(run.state for run in runs)
    return {
        "state": shown.state,
        "why": shown.why,
        "runs": len(runs),
        "counts": {state: counted[state] for state in WORST_FIRST if counted[state]},
        "kind": plan.kind,
        "fault": fault,
        "fencing": plan.fencing,
        "run": folder,
        "command": command,
        "seed": plan.seed,
        "two_holders": any(run.two_holders for run in runs),
        "tokens_fell": any(run.tokens_fell for run in runs),
    }


def not_run(why: str, state: State = "not-run") -> dict[str, Any]:
    """A cell for which nothing was run, since nothing can be; or, as ``unknown``, since nobody got to it."""
    nothing = {"kind": None, "fault": None, "fencing": None, "run": None, "command": None, "seed": None}
    return {
        "state": state, "why": why, "runs": 0, "counts": {}, **nothing, "two_holders": False, "tokens_fell": False
    }  # fmt: skip
