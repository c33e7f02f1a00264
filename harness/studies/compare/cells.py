"""State of a lock under a fault, derived from one run or from several."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from harness.checkers.base import SERVICE
from harness.documents.comparison import CellState, ComparedCell
from harness.history import SECOND, History
from harness.plan import Plan
from harness.run.verdicts.decision import FENCED, Decision
from harness.run.verdicts.fault_records import fault_records
from harness.run.verdicts.judging import Result
from harness.run.verdicts.summary import errors
from harness.wording import moment

WORST_FIRST: Final[tuple[CellState, ...]] = ("unsafe", "unavailable", "unknown", "fenced", "safe")
"""The states that runs can show, see :data:`harness.documents.comparison.CellState`."""
AVAILABILITY: Final = frozenset({"liveness", "deadlock"})
TOKENS: Final = frozenset({"token-fell", "token-repeated"})
NEVER: Final = "The fault was never injected: its trigger did not occur before the end of the run."
NOBODY: Final = "No client was granted the lock."


@dataclass(frozen=True, slots=True)
class RunFindings:
    """Findings of one run. ``two_holders``: two clients held the lock at once; ``tokens_fell``: a fencing token was not
    above the previous one; ``exposed`` is False if all that is missing is that the fault struck while one client held
    the lock and another one wanted it."""

    state: CellState
    why: str
    two_holders: bool = False
    tokens_fell: bool = False
    exposed: bool = True


def findings_of(result: Result) -> RunFindings:
    """Return the findings of a run under a fault."""
    plan, history = result.plan, result.history
    lapsed = lapse(plan, history)
    struck = not plan.faults or plan.faults[0].fault in {record.fault for record in fault_records(history)}
    state = state_of(result.decision, lapsed=bool(lapsed), struck=struck)
    if result.valid is None and not _granted(history):  # the lock was never held, so it was not tested
        return RunFindings("unknown", errors(history).strip() or NOBODY)
    tokens = result.verdicts["fencing"].evidence
    return RunFindings(
        state,
        _reason(result, state, lapsed, struck=struck),
        result.verdicts["mutual-exclusion"].valid is False,
        any(violation.kind in TOKENS for violation in tokens),
        exposed=state != "unknown" or not struck or _untested(result.decision) != ["exposure"],
    )


def state_of(decision: Decision, *, lapsed: bool = False, struck: bool = True) -> CellState:
    """Return the state of a lock after one run. Known limits of the lock count as violations here.

    ``lapsed``: no client got the lock any more, long after the last fault. ``struck``: a fault was injected, or none
    was planned. Service checkers that no fault concerns (fairness, reentrancy, try-lock) are ignored.
    """
    broken = {*decision.named("broken"), *decision.limits}
    if broken - SERVICE - (FENCED if decision.fenced else frozenset()):
        return "unsafe"
    if lapsed or broken & AVAILABILITY:
        return "unavailable"
    if _untested(decision) or not struck:
        return "unknown"
    return "fenced" if decision.fenced else "safe"


def _untested(decision: Decision) -> list[str]:
    """Return the properties that were not tested, except those that are ignored."""
    return [name for name in decision.named("not-tested") if name not in SERVICE - AVAILABILITY]


def lapse(plan: Plan, history: History) -> str:
    """Return a sentence if no client was granted a lock from some time on, long after the last fault, though clients
    requested it to the end of the run; else "".

    Servers that lost the data of a majority may never answer again. That is not the lock's fault, and pending requests
    may still take effect, so ``deadlock`` and ``liveness`` report no violation. The lock is unavailable all the same.
    """
    acquires, granted = history.calls("acquire"), _granted(history)
    # A request sent during a fault may take effect as long after its end as the fault lasted.
    wakes = [2 * it.healed_ns - it.injected_ns for it in fault_records(history) if it.healed_ns is not None]
    last = max(granted, default=history.origin)
    quiet = max(last, *wakes, history.origin)
    end = history.origin + round(plan.time_limit * SECOND)
    settings: dict[str, Any] = history.nemesis("start")[0].value
    patience = settings["hold"] + 2 * (settings["ttl"] + settings["slack"])
    requested_late = any(call.invoke.time > quiet for call in acquires)
    if not requested_late or end - quiet < patience * SECOND:
        return ""
    since = f"after {moment(last, history.origin)}" if granted else "at all"
    return (
        f"No client was granted the lock {since}, although clients requested it until the end at {plan.time_limit:g} s."
    )


def _granted(history: History) -> list[int]:
    """Return the times of all grants."""
    calls = history.calls("acquire")
    return [call.done.time for call in calls if call.done is not None and call.outcome == "ok"]


def _reason(result: Result, state: CellState, lapsed: str, *, struck: bool) -> str:
    """Return the reason for the state. The run may have other findings too."""
    verdicts = result.verdicts
    if state == "unknown":
        name = next(iter(_untested(result.decision)), "")
        return f"{name}: {verdicts[name].explanation}" if struck else NEVER
    if state == "unavailable":
        late = (verdicts[name].explanation for name in ("deadlock", "liveness") if verdicts[name].valid is False)
        return lapsed or next(late)
    return result.reason


def worst(runs: Sequence[RunFindings]) -> int:
    """Return the index of the first run that has the worst state."""
    return min(range(len(runs)), key=lambda number: WORST_FIRST.index(runs[number].state))


def cell(runs: Sequence[RunFindings], plan: Plan, fault: str, command: str, folder: str | None) -> ComparedCell:
    """Return a cell of the document. ``plan``, ``command`` and ``folder`` are those of the run that shows its state."""
    shown = runs[worst(runs)]
    counted = Counter(run.state for run in runs)
    return ComparedCell(
        state=shown.state,
        why=shown.why,
        runs=len(runs),
        counts={state: counted[state] for state in WORST_FIRST if counted[state]},
        kind=plan.kind,
        fault=fault,
        fencing=plan.fencing,
        run=folder,
        command=command,
        seed=plan.seed,
        two_holders=any(run.two_holders for run in runs),
        tokens_fell=any(run.tokens_fell for run in runs),
    )


def not_run(why: str, state: CellState = "not-run") -> ComparedCell:
    """Return a cell without runs: none is possible (``not-run``), or the comparison ended before it (``unknown``)."""
    return ComparedCell(state=state, why=why)
