"""Was every fault of the run seen to take effect, and to be undone? A run whose fault was not seen is no test of it,
whatever came of it; one whose heal did not work says nothing about availability."""

from __future__ import annotations

from checkers.base import Verdict, conclude
from checkers.faults import titled, unhealed
from harness.history import History, Op


class FaultsSeen:
    """Unknown if an ``inject`` failed to be observed or was never completed, or if a ``heal`` failed; a run without
    faults is valid."""

    name = "faults"

    def check(self, history: History) -> Verdict:
        outcomes = {(op.value or {}).get("id"): op for op in history.nemesis("inject")}
        doubts = [doubt for op in outcomes.values() if (doubt := unseen(op)) is not None]
        fine = f"all {len(outcomes)} faults were observed" if outcomes else "the run had no faults"
        stats = {"faults": len(outcomes), "unseen": len(doubts)}
        return conclude(history, [], fine=fine, doubts=(*doubts, unhealed(history)), stats=stats)


def unseen(last: Op) -> str | None:
    """Why a fault, whose last inject entry this is, was not seen to take effect; None if it was."""
    title = titled(last.value or {})
    if last.type == "fail":
        return f"{title} was injected but not observed: {last.error or 'no effect seen'}"
    return f"{title} was begun and never reported as injected" if last.type == "invoke" else None
