"""What a run is at, in words for whoever shows it while it goes on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from checkers.base import Checker

from .history import Op
from .history.ongoing import Ongoing

Progress = Callable[[float, str], None]
"""Called with the fraction done and what is going on: ``phase: more``, the phase being one of :data:`PHASES`."""
PHASES: Final = ("starting", "running", "ending", "reading", "checking", "writing")
KEYS_SHOWN: Final = 2
"""Of more keys than these it is told how many are held."""


class Telling:
    """Tells a progress what one run is at. It hears each entry of the history (``heard``), and whoever asks for words
    must keep others from recording meanwhile."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._ongoing = Ongoing()
        self._fraction = 0.0

    def heard(self, op: Op) -> None:
        """The next entry of the history."""
        self._ongoing.add(op)

    def cluster(self, line: str) -> None:
        """What the cluster is at before the first entry, or after the last one."""
        if line:
            self._tell("ending" if self._fraction else "starting", line)

    def running(self, elapsed: float, limit: float) -> None:
        """``elapsed`` and ``limit`` in seconds."""
        self._fraction = min(1.0, elapsed / limit)
        granted = self._ongoing.granted
        parts = [f"{min(elapsed, limit):.1f} of {limit:g} s", f"{granted} grant{'' if granted == 1 else 's'}"]
        self._tell("running", " · ".join([*parts, *_held(self._ongoing), *_forces(self._ongoing)]))

    def checking(self, checkers: Sequence[Checker]) -> Iterator[Checker]:
        """The checkers, each told when it is taken."""
        self._fraction = 1.0
        for number, checker in enumerate(checkers, 1):
            self._tell("checking", f"{checker.name} ({number} of {len(checkers)})")
            yield checker

    def _tell(self, phase: str, more: str) -> None:
        self._progress(self._fraction, f"{phase}: {more}")


def _held(ongoing: Ongoing) -> Iterator[str]:
    """Who holds what, of as many keys as can be told apart in a line."""
    holders = ongoing.holders()
    if len(holders) > KEYS_SHOWN:
        yield f"{len(holders)} keys are held"
        return
    for key, clients in holders.items():
        yield f"{' and '.join(clients)} {'holds' if len(clients) == 1 else 'hold'} {key}"


def _forces(ongoing: Ongoing) -> Iterator[str]:
    """The faults in force, by name, with the hosts that they struck."""
    hosts: dict[str, Counter[str]] = {}
    for force in ongoing.forces.values():
        hosts.setdefault(force.fault, Counter()).update(force.hosts)
    for fault, struck in hosts.items():
        yield f"{fault} on {', '.join(sorted(struck))}" if struck else fault
