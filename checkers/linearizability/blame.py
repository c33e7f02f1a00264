"""Who is to blame for a lock that two clients had, where the history says how long their leases were."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from checkers.base import Json, Violation
from checkers.holds import Holds, holds
from checkers.leases import Leases, lease_of, reason
from checkers.models import ACQUIRE
from harness.history import History


def blamed(violation: Violation, history: History) -> Violation:
    """``violation`` with the ruling of :mod:`checkers.leases`, if its calls are two grants of a lock, the later one
    during the hold of the other client. ``history`` is the one it was found in, in the order of time."""
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
    lease = lease_of(found, lasting[-1])
    ruling = Leases(history.nemesis()).rule(lease, granted)
    why = reason(lease, ruling, found.view.at)
    said = f"{last['client']} was granted it at {found.view.at(granted)}, {why}: to blame is the {ruling.blame}"
    sentence = f"{violation.sentence}. {said}"
    return replace(violation, sentence=sentence, blame=ruling.blame)


def _hold(found: Holds, call: Json) -> int | None:
    rows = np.flatnonzero(found.grant == call["indices"][1])
    return int(rows[0]) if len(rows) else None


def _client(found: Holds, call: Json) -> int:
    return int(found.view.client[call["indices"][0]])
