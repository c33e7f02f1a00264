"""Check that every fault of the run was observed to take effect and to be healed.

A run whose fault was not observed, or took effect on some of its hosts or links only, is no test of that fault. A run
whose heal failed says nothing about availability.
"""

from __future__ import annotations

from typing import Final

from harness.history import History, Op

from .base import Verdict, conclude
from .faults import titled, unhealed

PARTIAL: Final = "took effect on"
"""Beginning of the error of an ``inject`` entry if only some of its hosts or links were affected."""
NEVER: Final = "never struck: "
"""Beginning of the error of an ``inject`` entry of a planned fault that was never injected."""


class FaultsChecker:
    """Unknown if an ``inject`` failed to be observed or was never completed, or if a ``heal`` failed; a run without
    faults is valid."""

    name = "faults"

    def check(self, history: History) -> Verdict:
        outcomes = {(op.value or {}).get("id"): op for op in history.nemesis("inject")}
        doubts = [doubt for op in outcomes.values() if (doubt := why_unconfirmed(op)) is not None]
        fine = f"all {len(outcomes)} faults were observed" if outcomes else "the run had no faults"
        stats = {"faults": len(outcomes), "unseen": len(doubts)}
        return conclude(history, [], fine=fine, doubts=(*doubts, unhealed(history)), stats=stats)


def why_unconfirmed(last: Op) -> str | None:
    """Return why it is doubtful that a fault, with its last ``inject`` entry ``last``, took effect; None if it did."""
    title = titled(last.value or {})
    if last.type == "fail":
        if last.error and last.error.startswith(PARTIAL):
            return f"{title} {last.error}"
        if last.error and last.error.startswith(NEVER):
            return f"{(last.value or {}).get('fault')} was never injected: {last.error.removeprefix(NEVER)}"
        return f"{title} was injected but not observed: {last.error or 'no effect seen'}"
    return f"{title} was begun and never reported as injected" if last.type == "invoke" else None
