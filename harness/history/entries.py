"""The entries of a history as columns: the output of the file readers.

Entries of the nemesis keep their rows, so that a row is a position in the history, but their process is NONE.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from . import NEMESIS, TYPES, HistoryError
from .calls import NONE, Codes, Ints, Marks

INVOKE, OK, FAIL, INFO = range(len(TYPES))


class Numbers(dict[Any, int]):
    """Numbers for names in the order of first use, from 0; a missing name has NONE."""

    def __init__(self, nothing: Hashable = None) -> None:
        super().__init__({nothing: NONE})
        self.names: list[Any] = []

    def __missing__(self, name: Any) -> int:
        number = self[name] = len(self.names)
        self.names.append(name)
        return number


@dataclass(slots=True)
class Block:
    """Some consecutive entries.

    ``value`` exists only if values were wanted; ``fence``, ``lease`` and ``good``, as in :class:`.calls.Calls`, exist
    only if grants were wanted. ``line`` is the position of each entry in the file.
    """

    time: Ints
    process: Codes
    kind: Marks
    f: Codes
    key: Codes
    node: Codes
    line: Codes
    value: Codes | None = None
    fence: Ints | None = None
    lease: Ints | None = None
    good: Marks | None = None

    def __len__(self) -> int:
        return len(self.time)

    def pick(self, rows: npt.NDArray[Any]) -> Block:
        columns: dict[str, Any] = {}
        for column in fields(self):
            whole = getattr(self, column.name)
            columns[column.name] = None if whole is None else whole[rows]
        return Block(**columns)


@dataclass(slots=True)
class Entries:
    """All entries of a history, in blocks, with the names for the numbers in their columns.

    ``named`` has the client of each process (by number), if the history itself says so. ``written`` has the names of
    processes that are not numbers, by their assigned numbers.
    """

    source: str = "the history"
    unit: str = "line"
    fs: Numbers = field(default_factory=Numbers)
    keys: Numbers = field(default_factory=Numbers)
    nodes: Numbers = field(default_factory=Numbers)
    processes: Numbers = field(default_factory=lambda: Numbers(NEMESIS))
    named: dict[int, str] = field(default_factory=dict)
    written: dict[int, str] = field(default_factory=dict)
    blocks: deque[Block] = field(default_factory=deque)
    settings: dict[str, Any] | None = None
    complete: bool = True

    def fault(self, line: int, what: str, column: int | None = None) -> HistoryError:
        return HistoryError(f"{self.source}, {self.unit} {line}{f', column {column}' if column else ''}: {what}")

    def sort(self, by: list[Ints]) -> None:
        """Sort the entries by ``by``, one column for each block; entries that are equal there keep their order."""
        rising = Rising()
        if not all(map(rising.goes_on, by)):
            whole = _joined(self.blocks)
            self.blocks = deque([whole.pick(np.argsort(np.concatenate(by), kind="stable"))])


class Rising:
    """Checks whether numbers never fall from block to block."""

    def __init__(self) -> None:
        self._last: int | None = None

    def goes_on(self, column: Ints) -> bool:
        if not len(column):
            return True
        last, self._last = self._last, int(column[-1])
        return (last is None or last <= column[0]) and not (column[1:] < column[:-1]).any()


def _joined(blocks: deque[Block]) -> Block:
    columns: dict[str, Any] = {}
    for column in fields(Block):
        parts = [getattr(block, column.name) for block in blocks]
        columns[column.name] = None if parts[0] is None else np.concatenate(parts)
    return Block(**columns)
