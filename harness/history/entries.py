"""Entries by column, as the readers of files leave them.

Entries of the nemesis keep their rows, so that a row is a position in the history, but are of process NONE.
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
    """Numbers for names as they come, from 0; what stands for no name has NONE."""

    def __init__(self, nothing: Hashable = None) -> None:
        super().__init__({nothing: NONE})
        self.names: list[Any] = []

    def __missing__(self, name: Any) -> int:
        number = self[name] = len(self.names)
        self.names.append(name)
        return number


@dataclass(slots=True)
class Block:
    """Some entries one after the other. ``value`` is there only if values were wanted, and ``fence``, ``lease`` and
    ``good``, which are those of :class:`Calls`, only if grants were. ``line`` is where in the file they are."""

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
    """All entries of a history, in blocks, with the names that their columns number. ``named`` says which processes
    (by number) are of which client, where the history itself does; ``written`` has the names of those processes that
    are no numbers, by the numbers that they were given."""

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
        """Put the entries into the order of ``by``, one column for each block; entries of one rank keep theirs."""
        rising = Rising()
        if not all(map(rising.goes_on, by)):
            whole = _joined(self.blocks)
            self.blocks = deque([whole.pick(np.argsort(np.concatenate(by), kind="stable"))])


class Rising:
    """Watches whether numbers rise, or stay, from block to block."""

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
