"""A partial linearization as data: the calls that have a place in the order, with the state after each, and the others.

``reports/linearization.py`` draws it.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.history.calls import NEVER


@dataclass(frozen=True, slots=True)
class Bar:
    """A call.

    ``label`` is what it did, such as ``acquire → fence 7``. ``invoked`` and ``returned`` are positions in the history,
    ``began`` and ``ended`` ns since the first entry (NEVER: it is not known to have returned; -1: the history has no
    times).

    ``place`` is its number in the order, from 1 (0: it has none), and ``state`` the state of the lock after it.
    ``core`` marks calls of the smallest part of the history that is still wrong; ``stuck`` marks the call whose return
    no order reaches.
    """

    client: str
    label: str
    invoked: int
    returned: int
    began: int
    ended: int
    known: bool
    place: int = 0
    state: str = ""
    core: bool = False
    stuck: bool = False

    @property
    def open(self) -> bool:
        """Return whether the return of the call is unknown."""
        return self.returned == NEVER


@dataclass(frozen=True, slots=True)
class Picture:
    """One key of a history that is not linearizable, around the place where it goes wrong.

    ``initial`` is the state before the first bar, ``left_out`` the number of calls of this key that are not shown.
    ``smallest``: it is proved that no part smaller than the bars of the core is wrong.
    """

    file: str
    model: str
    key: str
    sentence: str
    initial: str
    bars: tuple[Bar, ...]
    left_out: int = 0
    smallest: bool = True
