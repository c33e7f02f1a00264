"""The calls of a history by column: what a checker of linearizability reads.

A call is an invocation with its completion. Ten million of them fit into a gigabyte, because a column holds numbers:
names (of functions, keys, clients) and values are kept once, in a list, and a column says which.
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
"""The position and the time (ns) of what never came; the lease of a grant that has none."""
NONE: Final = -1
NO_FENCE: Final = -(2**63)

Wants = Literal["nothing", "leases", "grants", "values"]
"""What is to be read of the values: nothing; of the answers to acquire, extend and check the leases and whether the
lock is still held; the tokens as well; or every value, each kept once."""


@dataclass(slots=True)
class Calls:
    """Calls in the order of their invocations, one row each; those that failed, which surely did not happen, are left
    out, and so is what the nemesis did.

    ``invoked`` and ``returned`` are the positions of the two entries in the history, from 0 (in the order of time;
    NEVER if nothing came back or nobody knows what came of it), ``began`` and ``ended`` the same in nanoseconds.
    ``known`` is 1 for a call that surely happened and 0 for one that may have. ``f``, ``key`` and ``client`` are
    numbers into the lists of names, each of which is there once; a client goes on under a new ``process`` number
    after an unknown outcome.
    ``argument`` and ``result`` are numbers into ``values`` (NONE: there is none, or values were not wanted).
    ``fence``, ``lease`` (ns; NEVER: none was promised) and ``good`` (1 if an extend or check said that the lock is
    still held, 0 if it said that it is lost, NONE otherwise) are those of answers; they are empty unless wanted.
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
    """The time of the first entry, ns: reports count from here."""
    settings: dict[str, Any] = field(default_factory=dict)
    """The value of the ``start`` entry of a history of ours."""
    complete: bool = True
    """Whether the file's last line was whole."""

    def __len__(self) -> int:
        return len(self.f)

    def pick(self, rows: npt.NDArray[Any]) -> Calls:
        """The same history with these calls only (a mask, or rows in rising order)."""
        columns = {f.name: getattr(self, f.name) for f in fields(self)}
        whole = len(self)
        for name, column in columns.items():
            if isinstance(column, np.ndarray) and len(column) == whole:
                columns[name] = column[rows]
        return Calls(**columns)

    def named(self, names: Sequence[str]) -> npt.NDArray[np.bool_]:
        """Which rows are calls of one of the functions ``names``."""
        wanted = np.array([name in names for name in self.fs] or [False])
        return wanted[self.f]

    def argument_of(self, row: int) -> Any:
        """The value that the call ``row`` was invoked with."""
        return None if self.argument[row] == NONE else self.values[self.argument[row]]

    def result_of(self, row: int) -> Any:
        """The value that the call ``row`` returned; of grants, a mapping of what was wanted of it."""
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
