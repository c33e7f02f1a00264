"""Was every fault of the run seen to take effect? A run whose fault was not is no test of it, whatever came of it."""

from __future__ import annotations

from typing import Any

from checkers.base import Verdict, conclude
from harness.history import History


class FaultsSeen:
    """Unknown if an ``inject`` failed to be observed or was never completed; a run without faults is valid."""

    name = "faults"

    def check(self, history: History) -> Verdict:
        outcomes: dict[Any, str] = {}
        doubts: list[str] = []
        for op in history.nemesis("inject"):
            value = op.value or {}
            outcomes[value.get("id")] = op.type
            if op.type == "fail":
                doubts.append(f"{_title(value)} was injected but not observed: {op.error or 'no effect seen'}")
        asked = {(op.value or {}).get("id"): op.value or {} for op in history.nemesis("inject")}
        doubts += [
            f"{_title(asked[number])} was begun and never reported as injected"
            for number, outcome in outcomes.items()
            if outcome == "invoke"
        ]
        fine = f"all {len(outcomes)} faults were observed" if outcomes else "the run had no faults"
        return conclude(history, [], fine=fine, doubts=doubts, stats={"faults": len(outcomes), "unseen": len(doubts)})


def _title(value: dict[str, Any]) -> str:
    return f"{value.get('fault')} on {', '.join(value.get('hosts') or ['no host'])}"
