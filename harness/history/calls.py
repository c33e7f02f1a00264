"""The calls of a history as numpy columns: the input of the linearizability checkers.

A call is an invocation with its completion. Ten million calls fit into a gigabyte, because columns contain numbers:
each name (of a function, key or client) and each value is stored once, in a list, and a column has its number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from . import SECOND

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]
Marks = npt.NDArray[np.int8]

NEVER: Final = 2**62
"""The position and time (ns) of an entry that does not exist; the lease of a grant without one."""
NONE: Final = -1
NO_FENCE: Final = -(2**63)

Wants = Literal["nothing", "leases", "grants", "values"]
"""The values to read. ``leases``: from the answers to acquire, extend and check, the leases and whether the lock is
still held. ``grants``: the tokens as well. ``values``: every value, each stored once."""
REFUSED: Final = "refused "
"""Before the function of a failed call that is kept as evidence."""
Keyed = Literal["auto", "yes", "no"]
"""True if values of an EDN history are ``[key value]`` pairs, as ``jepsen.independent`` writes them."""


@dataclass(slots=True)
class Calls:
    """Calls in the order of their invocations, one row each.

    Failed calls, which surely did not happen, and entries of the nemesis are left out; but failed calls of functions
    that the reader was asked to keep are calls of the function ``refused <function>``, which surely happened.

    ``invoked`` and ``returned`` are the positions of the two entries in the history, from 0 (in the order of time;
    NEVER if the call did not return or its outcome is unknown). ``began`` and ``ended`` are their times in nanoseconds.
    ``known`` is 1 for a call that surely happened and 0 for a call that may have happened. ``f``, ``key`` and
    ``client`` are numbers into the lists of names, which have each name once; a client continues under a new
    ``process`` number after an unknown outcome. ``argument`` and ``result`` are numbers into ``values`` (NONE: there is
    no value, or values were not wanted). ``fence``, ``lease`` (ns; NEVER: none was promised) and ``good`` (1 if an
    extend or check said that the lock is still held, 0 if it said that it is lost, NONE otherwise) come from answers;
    they are empty unless wanted.
    """

    fs: list[str]
    keys: list[str]
    clients: list[str]
    f: Codes
    key: Codes
    client: Codes
    process: Ints
    known: Marks
    invoked: Ints
    returned: Ints
    began: Ints
    ended: Ints
    argument: Codes
    result: Codes
    fence: Ints
    lease: Ints
    good: Marks
    values: list[Any] = field(default_factory=list)
    failed: int = 0
    entries: int = 0
    origin: int = 0
    """The time of the first entry, ns; reports count from it."""
    settings: dict[str, Any] = field(default_factory=dict)
    """The value of the ``start`` entry, if the history was recorded by this project."""
    complete: bool = True
    """False if the last line of the file was truncated."""

    def __len__(self) -> int:
        return len(self.f)

    def pick(self, rows: npt.NDArray[Any]) -> Calls:
        """Return the history with these calls only (a mask, or rows in rising order)."""
        columns = {f.name: getattr(self, f.name) for f in fields(self)}
        whole = len(self)
        for name, column in columns.items():
            if isinstance(column, np.ndarray) and len(column) == whole:
                columns[name] = column[rows]
        return Calls(**columns)

    def named(self, names: Sequence[str]) -> npt.NDArray[np.bool_]:
        """Return a mask of the calls of the functions ``names``."""
        wanted = np.array([name in names for name in self.fs] or [False])
        return wanted[self.f]

    def argument_of(self, row: int) -> Any:
        """Return the value with which the call ``row`` was invoked."""
        return None if self.argument[row] == NONE else self.values[self.argument[row]]

    def result_of(self, row: int) -> Any:
        """Return the value that the call ``row`` returned; for a grant, a mapping of the wanted fields."""
        if not len(self.fence):
            return None if self.result[row] == NONE else self.values[self.result[row]]
        found: dict[str, Any] = {}
        if self.fence[row] != NO_FENCE:
            found["fence"] = int(self.fence[row])
        if self.lease[row] != NEVER:
            found["valid_for"] = int(self.lease[row]) / SECOND
        if self.good[row] != NONE:
            found["good"] = bool(self.good[row])
        return found
