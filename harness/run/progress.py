"""Progress of a run in words, for the bar that a command shows while the run goes on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from harness.checkers.base import Checker
from harness.history import Op
from harness.history.ongoing import Ongoing

Progress = Callable[[float, str], None]
"""Callback with the fraction done (0 to 1) and a text ``phase: details``; the phase is one of :data:`PHASES`."""
PHASES: Final = ("starting", "running", "ending", "reading", "checking", "writing")
KEYS_SHOWN: Final = 2
"""If more keys are held, only their number is shown."""


class ProgressReporter:
    """Reports the state of one run to a progress callback.

    ``on_entry`` must be called with each entry of the history. Nothing may be recorded during a call of ``running``.
    """

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._ongoing = Ongoing()
        self._fraction = 0.0

    def on_entry(self, op: Op) -> None:
        """Take in the next entry of the history."""
        self._ongoing.add(op)

    def cluster(self, line: str) -> None:
        """Report what the cluster does before the first entry or after the last one."""
        if line:
            self._report("ending" if self._fraction else "starting", line)

    def running(self, elapsed: float, limit: float) -> None:
        """Report the time, the grants, the holders and the active faults. ``elapsed`` and ``limit`` are in seconds."""
        self._fraction = min(1.0, elapsed / limit)
        granted = self._ongoing.granted
        parts = [f"{min(elapsed, limit):.1f} of {limit:g} s", f"{granted} grant{'' if granted == 1 else 's'}"]
        self._report("running", " · ".join([*parts, *_holder_phrases(self._ongoing), *_forces(self._ongoing)]))

    def checking(self, checkers: Sequence[Checker]) -> Iterator[Checker]:
        """Yield the checkers, and report each before it is yielded."""
        self._fraction = 1.0
        for number, checker in enumerate(checkers, 1):
            self._report("checking", f"{checker.name} ({number} of {len(checkers)})")
            yield checker

    def _report(self, phase: str, details: str) -> None:
        self._progress(self._fraction, f"{phase}: {details}")


def _holder_phrases(ongoing: Ongoing) -> Iterator[str]:
    holders = ongoing.holders()
    if len(holders) > KEYS_SHOWN:
        yield f"{len(holders)} keys are held"
        return
    for key, clients in holders.items():
        yield f"{' and '.join(clients)} {'holds' if len(clients) == 1 else 'hold'} {key}"


def _forces(ongoing: Ongoing) -> Iterator[str]:
    """Yield each active fault with its hosts."""
    hosts: dict[str, Counter[str]] = {}
    for force in ongoing.forces.values():
        hosts.setdefault(force.fault, Counter()).update(force.hosts)
    for fault, affected in hosts.items():
        yield f"{fault} on {', '.join(sorted(affected))}" if affected else fault
