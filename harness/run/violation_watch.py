"""Notice two holders of a lock while its run goes on."""

from __future__ import annotations

from typing import Final

from harness.checkers.mutual_exclusion import MutualExclusionChecker
from harness.checkers.online import Entry, HoldMonitor
from harness.history import NEMESIS, Op

from .recorder import Recorder

MOST_VAIN: Final = 20
"""Suspicions that the checker did not share, after which the run is watched no more: each costs a whole check."""


class ViolationWatch:
    """Listens to ``recorder``. ``found`` is True from the entry on that shows two holders of a key.

    A monitor in bounded memory suspects two holders; the checker of mutual exclusion decides on the history so far. So
    a run that is stopped has the verdict that it would have at its end.
    """

    def __init__(self, recorder: Recorder) -> None:
        self.found = False
        self._recorder = recorder
        self._monitor = HoldMonitor(leased=False, fenced=False)
        self._vain = 0
        recorder.listeners.append(self._on_entry)

    def _on_entry(self, op: Op) -> None:
        if self.found or self._vain > MOST_VAIN:
            return
        client = str(op.node)
        if op.process == NEMESIS:
            if op.f == "crash":
                self._monitor.lost(client, op.time)
            return
        if isinstance(op.value, dict) and op.value.get("shared"):
            return
        self._monitor.take(Entry(client, op.time, 0, op.process, op.type, op.f, op.key or "", client, op.value))
        suspected = self._monitor.complete(client, op.time)
        if suspected is not None and len({hold["client"] for hold in suspected.involved}) > 1:
            self.found = MutualExclusionChecker().check(self._recorder.history.in_order()).valid is False
            self._vain += not self.found
