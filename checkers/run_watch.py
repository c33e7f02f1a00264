"""Notice two holders of a lock in a run of ours while it is recorded.

A monitor in bounded memory (:mod:`.online`) suspects two holders, and the checker of mutual exclusion decides on the
history so far. So what is found is what the check of the whole history finds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from harness.history import NEMESIS, History, Op

from .base import Violation
from .mutual_exclusion import MutualExclusionChecker
from .online import Entry, HoldMonitor

MOST_VAIN: Final = 20
"""Suspicions that the checker did not share, after which the run is watched no more: each costs a whole check."""


class RunWatch:
    """Takes the entries of a run, those of each client in order. ``history`` returns the entries so far, in the order
    of time; it may leave out what is too old to overlap a hold that begins now.

    With ``in_order`` the entries of all clients come in the order of time, as on the simulator. Without it, an overlap
    is certain only when a later entry of both clients has come: a release may still be on its way.
    """

    def __init__(self, history: Callable[[], History], *, in_order: bool) -> None:
        self.violation: Violation | None = None
        """The first violation of mutual exclusion, from the entry on that shows it."""
        self._history = history
        self._in_order = in_order
        self._monitor = HoldMonitor(leased=False, fenced=False)
        self._vain = 0

    @property
    def gave_up(self) -> bool:
        """Return whether the run is watched no more, so that only the check at its end finds a violation."""
        return self._vain > MOST_VAIN

    def add(self, op: Op) -> None:
        """Take the next entry."""
        if self.violation is None and not self.gave_up and self._suspects(op):
            verdict = MutualExclusionChecker().check(self._history())
            if verdict.valid is False:
                self.violation = verdict.evidence[0]
            else:
                self._vain += 1

    def _suspects(self, op: Op) -> bool:
        """Take an entry; return whether it shows that two clients may hold a key."""
        client = str(op.node)
        if op.process == NEMESIS:
            if op.f == "crash":
                self._monitor.lost(client, op.time)
            return False
        if isinstance(op.value, dict) and op.value.get("shared"):
            return False
        self._monitor.take(Entry(client, op.time, 0, op.process, op.type, op.f, op.key or "", client, op.value))
        suspected = self._monitor.complete(client, op.time)
        if self._in_order and suspected is None:
            suspected = self._monitor.complete_all(op.time)
        return suspected is not None and len({hold["client"] for hold in suspected.involved}) > 1
