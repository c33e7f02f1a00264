"""The five properties that the articles ask of a lock, as it claims them and as they were seen, and how long a dead
holder keeps others out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from checkers import availability
from checkers.base import Verdict
from lock_impls.base import LockInfo, Safety

from ..history import SECOND, History
from ..listing import SAFETY
from ..options import counted
from ..plan import Plan
from ..runs import Result
from ..story import fault_records

Found = dict[str, Any]
"""``measured`` (True, False, or None: nobody can tell), ``found`` (words), ``run`` (folder, or None)."""
NAMES: Final = ("mutual-exclusion", "released", "reentrant", "no-single-point", "fence")
EXCLUDES: Final[dict[Safety, bool | None]] = {"F": True, "F?": None, "E": False, "X": False}
"""Whether locks of this tag keep all but one from the resource, with the fence where they have one; of those that would
with a token that they do not hand out, neither can be said."""
NOT_SEEN: Final[Found] = {"measured": None, "found": "not measured", "run": None}


def claims(info: LockInfo) -> dict[str, Found]:
    """What a lock says of itself, by property."""
    said: dict[str, tuple[bool | None, str]] = {
        "mutual-exclusion": (EXCLUDES[info.safety], SAFETY[info.safety]),
        "released": (info.on_death != "nothing" if info.on_death else None, _on_death(info.on_death)),
        "reentrant": (info.reentrant, "its holder may take it again" if info.reentrant else "not promised"),
        "no-single-point": (info.no_single_point if info.outage else None, info.outage or "not said"),
        "fence": (info.fence, "a token that grows with every grant" if info.fence else "none"),
    }
    return {name: {"claimed": claimed, "claim": words} for name, (claimed, words) in said.items()}


def _on_death(frees: str) -> str:
    if not frees:
        return "not said"
    return "nothing frees it when its holder dies" if frees == "nothing" else f"freed by {frees}"


# Of runs of their own.


def released(result: Result, folder: str | None) -> tuple[Found, Found]:
    """Of a run in which a holder dies: the property, and the time to recover."""
    late, died = recovery_s(result.history), _died_at(result.history)
    verdict, plan = result.verdicts["deadlock"], result.plan
    if died is None:
        return {**NOT_SEEN, "found": "no holder died", "run": folder}, no_recovery("no holder died")
    left = plan.time_limit - died
    if late is None:
        words = f"not granted again in the {left:.1f} s that were left after its holder had died"
    else:
        words = f"granted again {late:.2f} s after its holder had died (ttl {plan.ttl:g} s)"
    measured = None if verdict.valid is None else verdict.valid and late is not None
    if late is None and verdict.valid is not False and left < plan.ttl + plan.slack:  # it was not due yet
        return {"measured": None, "found": words, "run": folder}, no_recovery(words)
    return (
        {"measured": measured, "found": words, "run": folder},
        {"seconds": late, "found": words, "run": folder},
    )


def no_recovery(why: str) -> Found:
    """The time to recover where no run tells it."""
    return {"seconds": None, "found": why, "run": None}


def recovery_s(history: History) -> float | None:
    """Seconds from the death of the first holder that died to the next grant of its key; None if there was neither."""
    death = _death(history)
    return None if death is None or death.ns is None else round(death.ns / SECOND, 6)


def _died_at(history: History) -> float | None:
    death = _death(history)
    return None if death is None else (death.since_ns - history.origin) / SECOND


def _death(history: History) -> availability.Recovery | None:
    """The first death of a holder, and what followed."""
    stretches = availability.stretches_of(history)
    return next((one for one in availability.recoveries(stretches) if one.key), None) if stretches is not None else None


def reentrant(verdict: Verdict, folder: str | None) -> Found:
    """Of the checker's verdict on a run in which holders ask again."""
    nested, granted = verdict.stats.get("nested", 0), verdict.stats.get("granted", 0)
    measured = None if verdict.valid is None or not nested else verdict.valid and granted > 0
    return {"measured": measured, "found": f"{granted} of {nested} nested acquires were granted", "run": folder}


def outage(result: Result) -> tuple[bool | None, str]:
    """Of a run in which a server is killed for good: is the lock granted without it? And in words."""
    killed = next((fault for fault in fault_records(result.history) if fault.seen), None)
    if killed is None or killed.healed_ns is None:
        return None, "the server was not seen to die"
    # It is started again at the end of the faults, and seen to be back only later.
    back = result.history.origin + round((result.plan.time_limit - result.plan.settle_time) * SECOND)
    until = min(killed.healed_ns, back)
    acquires = [call for call in result.history.calls("acquire") if killed.injected_ns < call.invoke.time]
    granted = [
        call.done.time for call in acquires if call.done is not None and call.outcome == "ok" and call.done.time < until
    ]
    gone = " and ".join(killed.hosts)
    if not granted:
        return False, f"nobody got it in the {(until - killed.injected_ns) / SECOND:.0f} s without {gone}"
    late = (min(granted) - killed.injected_ns) / SECOND
    return True, f"granted again {late:.2f} s after {gone} had been lost, {counted(len(granted), 'grant')} without it"


def no_single_point(usual: tuple[bool | None, str], others: Mapping[str, tuple[bool | None, str]], folder: str | None,
                    plan: Plan) -> Found:  # fmt: skip
    """Of the lock on its ``usual`` kind of cluster (``plan``'s), and in words on the ``others`` by kind."""
    measured, words = usual
    told = [f"on {plan.kind}: {words}" if others else words]
    told += [f"on {kind}: {more}" for kind, (_, more) in others.items()]
    return {"measured": measured, "found": "; ".join(told), "run": folder}


# Of the cells.


def mutual_exclusion(info: LockInfo, cells: Mapping[str, Found]) -> Found:
    """Whether any fault got two clients to the resource, with the fence on where the lock has one."""
    unsafe = [name for name, cell in cells.items() if cell["state"] == "unsafe"]
    fenced = [name for name, cell in cells.items() if cell["two_holders"] and cell["state"] != "unsafe"]
    known = [name for name, cell in cells.items() if cell["state"] in ("safe", "fenced", "unavailable")]
    told = [f"broken under {_listed(unsafe)}"] if unsafe else []
    told += [f"two holders under {_listed(fenced)}, and the fence refused the late one"] if fenced else []
    told += ["never two holders"] if known and not told else []
    shown = next(iter(unsafe or fenced), None)
    return {
        "measured": False if unsafe else True if known else None,
        "found": "; ".join(told) or f"nobody can tell{'' if info.fence else ', and there is no fence'}",
        "run": None if shown is None else cells[shown]["run"],
    }


def fence(info: LockInfo, contended: Verdict | None, cells: Mapping[str, Found], folder: str | None) -> Found:
    """Whether tokens grew with every grant: of the run without faults, and of the cells."""
    fell = [name for name, cell in cells.items() if cell["tokens_fell"]]
    if fell:
        return {
            "measured": False,
            "found": f"not above the last one under {_listed(fell)}",
            "run": cells[fell[0]]["run"],
        }
    if contended is None or contended.valid is None:
        return dict(NOT_SEEN)
    tokens = contended.stats.get("tokens", 0)
    if not tokens:
        return {"measured": False, "found": "no grant had a token", "run": folder}
    words = f"the tokens of {tokens} grants grew" if info.fence else f"{tokens} grants had a token"
    return {"measured": contended.valid, "found": words, "run": folder}


def _listed(names: list[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last
