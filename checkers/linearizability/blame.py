"""Find the cause of a double grant that linearizability checking found, if the history states the leases."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from harness.checkers.base import Json, Violation
from harness.checkers.holds import Holds, holds
from harness.checkers.leases import Leases, reason
from harness.checkers.models import ACQUIRE
from harness.history import History


def blamed(violation: Violation, history: History) -> Violation:
    """Return ``violation`` with the cause that :mod:`harness.checkers.leases` finds, if its calls are two grants of
    a lock.

    The later grant must be during the hold of the other client. ``history`` is the one that was checked, in the order
    of time. Other violations are returned unchanged.
    """
    grants = [call for call in violation.involved if call["f"] in ACQUIRE and call["outcome"] == "ok"]
    if len(grants) < 2:
        return violation
    found = holds(history)
    *before, last = sorted(grants, key=lambda call: int(call["indices"][1]))
    granted = int(history.time[last["indices"][1]])
    rows = [row for call in before if (row := _hold(found, call)) is not None]
    lasting = [row for row in rows if found.end[row] > granted and found.client[row] != _client(found, last)]
    if not lasting:
        return violation
    later = _hold(found, last)
    if later is None:
        return violation
    lease, ruling = Leases.of(history).overlap(found, lasting[-1], later)
    why = reason(lease, ruling, found.view.at)
    cause = f"Cause: {ruling.blame}. {last['client']} was granted the lock at {found.view.at(granted)}; {why}"
    sentence = f"{violation.sentence}. {cause}"
    return replace(violation, sentence=sentence, blame=ruling.blame)


def _hold(found: Holds, call: Json) -> int | None:
    rows = np.flatnonzero(found.grant == call["indices"][1])
    return int(rows[0]) if len(rows) else None


def _client(found: Holds, call: Json) -> int:
    return int(found.view.client[call["indices"][0]])
