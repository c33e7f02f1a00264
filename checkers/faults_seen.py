"""Was every fault of the run seen to take effect? A run whose fault was not is no test of it, whatever came of it."""

from __future__ import annotations

from typing import Any

from checkers.base import Verdict, conclude
from harness.history import History, Op


class FaultsSeen:
    """Unknown if an ``inject`` failed to be observed or was never completed; a run without faults is valid."""

    name = "faults"

    def check(self, history: History) -> Verdict:
        outcomes = {(op.value or {}).get("id"): op for op in history.nemesis("inject")}
        doubts = [doubt for op in outcomes.values() if (doubt := unseen(op)) is not None]
        fine = f"all {len(outcomes)} faults were observed" if outcomes else "the run had no faults"
        return conclude(history, [], fine=fine, doubts=doubts, stats={"faults": len(outcomes), "unseen": len(doubts)})


def unseen(last: Op) -> str | None:
    """Why a fault, whose last inject entry this is, was not seen to take effect; None if it was."""
    title = _title(last.value or {})
    if last.type == "fail":
        return f"{title} was injected but not observed: {last.error or 'no effect seen'}"
    return f"{title} was begun and never reported as injected" if last.type == "invoke" else None


def _title(value: dict[str, Any]) -> str:
    return f"{value.get('fault')} on {', '.join(value.get('hosts') or ['no host'])}"
