"""The five properties that the articles require of a lock: what the lock claims, what runs measured, and how long a
dead holder blocks other clients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from harness.checkers import availability
from harness.checkers.base import Verdict
from harness.documents.comparison import ComparedCell, ComparedProperty, ComparedRecovery
from harness.history import SECOND, History
from harness.lock_impls.base import LockInfo, Safety
from harness.plan import Plan
from harness.run.verdicts.fault_records import fault_records
from harness.run.verdicts.judging import Result
from harness.wording import SAFETY, counted, listed

NAMES: Final = ("mutual-exclusion", "released", "reentrant", "no-single-point", "fence")
EXCLUDES: Final[dict[Safety, bool | None]] = {"F": True, "F?": None, "E": False, "X": False}
"""For each safety tag: do such locks keep all but one client from the resource, with their fence if they have one? None
for locks that would do so with a token that they do not hand out."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of the runs for one property: whether they showed it (None if unknown), in words, and a run's folder."""

    measured: bool | None = None
    found: str = "not measured"
    run: str | None = None


NOT_MEASURED: Final = Finding()


def claimed_and_measured(info: LockInfo, findings: Mapping[str, Finding]) -> dict[str, ComparedProperty]:
    """Return each property as the lock claims it and as the findings show it."""
    found = {name: findings.get(name, NOT_MEASURED) for name in NAMES}
    return {
        name: ComparedProperty(claimed=claimed, claim=words, measured=it.measured, found=it.found, run=it.run)
        for (name, (claimed, words)), it in zip(claims(info).items(), found.values(), strict=True)
    }


def claims(info: LockInfo) -> dict[str, tuple[bool | None, str]]:
    """Return for each property whether the lock claims it (None if its documentation does not say), and in words."""
    return {
        "mutual-exclusion": (EXCLUDES[info.safety], SAFETY[info.safety]),
        "released": (info.on_death != "nothing" if info.on_death else None, _on_death(info.on_death)),
        "reentrant": (info.reentrant, "its holder can acquire it again" if info.reentrant else "not promised"),
        "no-single-point": (info.no_single_point if info.outage else None, info.outage or "not stated"),
        "fence": (info.fence, "a token that is higher for every grant" if info.fence else "none"),
    }


def _on_death(frees: str) -> str:
    if not frees:
        return "not stated"
    return "nothing frees it when its holder dies" if frees == "nothing" else f"freed by {frees}"


# Properties with runs of their own.


def released(result: Result, folder: str | None) -> tuple[Finding, ComparedRecovery]:
    """Return the property ``released`` and the recovery time, from a run in which a holder dies."""
    late, died = recovery_s(result.history), _died_at(result.history)
    verdict, plan = result.verdicts["deadlock"], result.plan
    if died is None:
        return Finding(None, "no holder died", folder), ComparedRecovery(found="no holder died")
    left = plan.time_limit - died
    if late is None:
        words = f"not granted again in the remaining {left:.1f} s of the run after its holder died"
    else:
        words = f"granted again {late:.2f} s after its holder died (ttl {plan.ttl:g} s)"
    measured = None if verdict.valid is None else verdict.valid and late is not None
    if late is None and verdict.valid is not False and left < plan.ttl + plan.slack:  # the release was not due yet
        return Finding(None, words, folder), ComparedRecovery(found=words)
    return Finding(measured, words, folder), ComparedRecovery(seconds=late, found=words, run=folder)


def recovery_s(history: History) -> float | None:
    """Seconds from the first death of a holder to the next grant of its key; None if either did not happen."""
    death = _death(history)
    return None if death is None or death.ns is None else round(death.ns / SECOND, 6)


def _died_at(history: History) -> float | None:
    death = _death(history)
    return None if death is None else (death.since_ns - history.origin) / SECOND


def _death(history: History) -> availability.Recovery | None:
    """Return the first death of a holder, with its recovery."""
    stretches = availability.stretches_of(history)
    return next((one for one in availability.recoveries(stretches) if one.key), None) if stretches is not None else None


def reentrant(verdict: Verdict, folder: str | None) -> Finding:
    """Return the property ``reentrant`` from the verdict on a run in which holders re-acquire."""
    nested, granted = verdict.stats.get("nested", 0), verdict.stats.get("granted", 0)
    measured = None if verdict.valid is None or not nested else verdict.valid and granted > 0
    return Finding(measured, f"{granted} of {nested} nested acquires were granted", folder)


def outage(result: Result) -> tuple[bool | None, str]:
    """Return whether the lock is granted without a server that was killed for good (None if unknown), and a text that
    says so."""
    killed = next((fault for fault in fault_records(result.history) if fault.seen), None)
    if killed is None or killed.healed_ns is None:
        return None, "the death of the server was not confirmed"
    # The server is started again when the faults end; the restart is confirmed only later.
    back = result.history.origin + round((result.plan.time_limit - result.plan.settle_time) * SECOND)
    until = min(killed.healed_ns, back)
    acquires = [call for call in result.history.calls("acquire") if killed.injected_ns < call.invoke.time]
    granted = [
        call.done.time for call in acquires if call.done is not None and call.outcome == "ok" and call.done.time < until
    ]
    gone = listed(killed.hosts)
    if not granted:
        return False, f"no client acquired it in the {(until - killed.injected_ns) / SECOND:.0f} s without {gone}"
    late = (min(granted) - killed.injected_ns) / SECOND
    return True, f"granted again {late:.2f} s after the loss of {gone}, {counted(len(granted), 'grant')} without it"


def no_single_point(usual: tuple[bool | None, str], others: Mapping[str, tuple[bool | None, str]], folder: str | None,
                    plan: Plan) -> Finding:  # fmt: skip
    """Return the property ``no-single-point`` as measured on the ``usual`` kind of cluster (``plan``'s). The text also
    tells the results on ``others``, by kind."""
    measured, words = usual
    parts = [f"on {plan.kind}: {words}" if others else words]
    parts += [f"on {kind}: {more}" for kind, (_, more) in others.items()]
    return Finding(measured, "; ".join(parts), folder)


# Properties derived from the cells.


def mutual_exclusion(info: LockInfo, cells: Mapping[str, ComparedCell]) -> Finding:
    """Return the property ``mutual-exclusion``: did two clients reach the resource under any fault? The fence is on if
    the lock has one."""
    unsafe = [name for name, cell in cells.items() if cell.state == "unsafe"]
    fenced = [name for name, cell in cells.items() if cell.two_holders and cell.state != "unsafe"]
    known = [name for name, cell in cells.items() if cell.state in ("safe", "fenced", "unavailable")]
    parts = [f"broken under {listed(unsafe)}"] if unsafe else []
    parts += [f"two holders under {listed(fenced)}, but the fencing token stopped the late one"] if fenced else []
    parts += ["never two holders"] if known and not parts else []
    shown = next(iter(unsafe or fenced), None)
    return Finding(
        False if unsafe else True if known else None,
        "; ".join(parts) or f"unknown{'' if info.fence else '; the lock has no fence'}",
        None if shown is None else cells[shown].run,
    )


def fence(info: LockInfo, contended: Verdict | None, cells: Mapping[str, ComparedCell], folder: str | None) -> Finding:
    """Return the property ``fence``: did the token grow with every grant, in the run without faults and in all
    cells?"""
    fell = [name for name, cell in cells.items() if cell.tokens_fell]
    if fell:
        return Finding(False, f"a token was not higher than the one before under {listed(fell)}", cells[fell[0]].run)
    if contended is None or contended.valid is None:
        return NOT_MEASURED
    tokens = contended.stats.get("tokens", 0)
    if not tokens:
        return Finding(False, "no grant had a token", folder)
    words = f"the tokens of {tokens} grants increased" if info.fence else f"{tokens} grants had a token"
    return Finding(contended.valid, words, folder)
