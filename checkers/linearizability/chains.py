"""Check registers and keys of a store in O(n log n), where each value is written at most once.

In an order of such a history, the calls on one value follow each other: the write of the value, and then its reads. A
write that fits only after a certain value, as a compare-and-set fits after the old one, follows directly after the
calls on that value. So some calls are a *block*: they are next to each other, in groups whose order is known (the
first write, its reads, the next write, its reads and so on). The initial value begins a block too, without a write.
Blocks may have any order among each other. For a block let f be the first return in it, and s the last invocation. A
block must come before another one if its f is before the other's s.

The history is linearizable if and only if

1. every value that is read, or compared with, is the initial one or one that somebody wrote, and at most one write
   follows each value;
2. in each block, no call returns before a call of an earlier group is invoked;
3. there are no two blocks each of which must come before the other.

*Only if* is clear. *If:* by 3 the blocks have an order, unless three or more must come before each other in a circle,
each before the next, and no two do. Let that circle be as short as possible. Around it f1 < s2, f2 < s3 and so on. If
s <= f in every block of it, f1 < s2 <= f2 < s3 ... never leads back. So let f1 < s1 for block 1. As blocks 1 and 2 are
not contradictory by themselves, s1 < f2, hence f1 < s1 < f2 < s3, and the circle is shorter without block 2. This is
the argument of P. B. Gibbons and E. Korach ("Testing shared memories", SIAM Journal on Computing 26, 1997), whose
zones are blocks with one write; it does not need more than that the calls of a block are next to each other.

*Appends.* If a get returned a text that can be read in one way only as a text that was put (or none) and texts that
were appended, then these writes follow each other directly: each but the first follows the one before it. A put or
append of which no get tells is a block of its own.

*Unknown outcomes.* A write of unknown outcome happened if its value was read, or another write that happened follows
it. Otherwise it is left out; an order that has it is one without it. So every key is decided, except if a value was
written twice, if appends can be read in several ways, or if they are mixed with compare-and-set.

*The part that proves it.* An order is still one if all calls of a block are left out. So a wrong block, or two, are
wrong by themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np

from harness.checkers.models import Register
from harness.history.calls import NONE, Calls, Ints

from .elements import Timeline, failure, first_failures, running_argmax
from .problem import ProvedImpossible, QuickResult
from .writes import Writes


def check(calls: Calls, model: Register) -> QuickResult:
    """Decide every key of ``calls``, which are those of a register or of a store; an ambiguous key is undecided.

    Raises ValueError if the value of a compare-and-set is not ``[old, new]``.
    """
    written = Writes(calls, model)
    ambiguous = tuple(np.flatnonzero(written.ambiguous).tolist())
    if len(ambiguous) == len(calls.keys):
        return QuickResult(undecided=ambiguous)
    blocks = _Blocks(calls, written)
    failures = [*written.failures, *blocks.failures()]
    failures = [one for one in failures if not written.ambiguous[one.key]]
    return QuickResult(first_failures(failures), ambiguous)


class _Blocks:
    """The calls of all blocks, sorted by block and group: rows (NONE: the start of a key) and windows."""

    def __init__(self, calls: Calls, written: Writes) -> None:
        self._calls, self._written = calls, written
        line = Timeline.of(calls)
        root, depth = _roots(written.parent)
        writes = np.flatnonzero(written.needed & (written.row != NONE))
        starts = np.flatnonzero(written.row == NONE)
        write = np.concatenate((starts, writes, written.read_write))
        row = np.concatenate((written.row[starts], written.row[writes], written.read_row))
        group = 2 * depth[write]
        group[len(starts) + len(writes) :] += 1
        judged = ~written.ambiguous[written.key[write]]
        circular = np.flatnonzero(judged & (root[write] == CIRCLE))
        self.circular = row[circular[np.argsort(written.key[write[circular]], kind="stable")]]
        order = np.flatnonzero(judged & (root[write] != CIRCLE))
        order = order[np.lexsort((group[order], root[write[order]]))]
        self.root, self.group, self.row = root[write[order]], group[order], row[order]
        self.key = written.key[write[order]]
        begin = self.key.astype(np.int64) * line.span
        self.invoked = np.where(self.row == NONE, begin, line.invoked[self.row])
        self.returned = np.where(self.row == NONE, begin, line.returned[self.row])
        self._span = line.span

    def failures(self) -> Iterator[ProvedImpossible]:
        yield from self._circles()
        if not len(self.row):
            return
        yield from self._lost()
        yield from self._branches()
        yield from self._wrong_groups()
        yield from self._contradictions()

    def _failure(self, roots: Iterable[int]) -> ProvedImpossible:
        """Return the failure of these blocks."""
        rows: list[int] = []
        for root in roots:
            begin, end = np.searchsorted(self.root, [root, root + 1]).tolist()
            rows += self.row[begin:end].tolist()
        return failure(self._calls, [row for row in rows if row != NONE])

    def _first(self, places: Ints) -> list[int]:
        """Return one of these places for each key."""
        return places[np.unique(self.key[places], return_index=True)[1]].tolist()  # type: ignore[no-any-return]

    def _circles(self) -> Iterator[ProvedImpossible]:
        """Yield the keys on which writes follow each other in a circle."""
        keys = self._calls.key[self.circular]
        for rows in np.split(self.circular, np.flatnonzero(np.diff(keys)) + 1) if len(keys) else ():
            yield failure(self._calls, rows.tolist())

    def _lost(self) -> Iterator[ProvedImpossible]:
        """Yield the keys on which a write follows a value that nobody wrote."""
        for place in self._first(np.flatnonzero(self._written.lost[self.root])):
            yield self._failure([int(self.root[place])])

    def _branches(self) -> Iterator[ProvedImpossible]:
        """Yield the keys on which two writes follow the same value."""
        same = (self.root[1:] == self.root[:-1]) & (self.group[1:] == self.group[:-1]) & (self.group[1:] % 2 == 0)
        for place in self._first(np.flatnonzero(same)):
            yield self._failure([int(self.root[place])])

    def _wrong_groups(self) -> Iterator[ProvedImpossible]:
        """Yield the blocks in which a call returned before one of an earlier group was invoked."""
        block = np.cumsum(np.append(True, self.root[1:] != self.root[:-1])) - 1
        begins = np.append(True, (block[1:] != block[:-1]) | (self.group[1:] != self.group[:-1]))
        within = self.invoked - self.key.astype(np.int64) * self._span + block * self._span
        latest = np.maximum.accumulate(within)
        group_begin = np.flatnonzero(begins)[np.cumsum(begins) - 1]
        before = np.where(group_begin > 0, latest[group_begin - 1], -1)
        returned = self.returned - self.key.astype(np.int64) * self._span + block * self._span
        for place in self._first(np.flatnonzero((before >= block * self._span) & (before > returned))):
            yield self._failure([int(self.root[place])])

    def _contradictions(self) -> Iterator[ProvedImpossible]:
        """Yield two blocks each of which must come before the other one."""
        first = np.flatnonzero(np.append(True, self.root[1:] != self.root[:-1]))
        f, s = np.minimum.reduceat(self.returned, first), np.maximum.reduceat(self.invoked, first)
        long = np.flatnonzero(f < s)
        if not len(long):
            return
        long = long[np.argsort(f[long], kind="stable")]
        latest = long[running_argmax(s[long])]
        crossing = np.flatnonzero(s[latest[:-1]] > f[long[1:]])
        other = {int(first[long[place + 1]]): int(latest[place]) for place in crossing.tolist()}
        short = np.flatnonzero(f >= s)
        place = np.searchsorted(f[long], s[short]) - 1
        inside = np.flatnonzero((place >= 0) & (s[latest[place]] > f[short]))
        other |= {int(first[short[one]]): int(latest[place[one]]) for one in inside.tolist()}
        for at in self._first(np.array(sorted(other), dtype=np.int64)):
            yield self._failure([int(self.root[at]), int(self.root[first[other[at]]])])


CIRCLE: Final = -1
"""The root of writes that follow each other in a circle."""


def _roots(parent: Ints) -> tuple[Ints, Ints]:
    """Return the first write of the block of each write, or CIRCLE, and the number of writes between them."""
    root, depth = np.arange(len(parent)), np.zeros(len(parent), dtype=np.int64)
    following = np.flatnonzero(parent != NONE).tolist()
    above: list[int] = parent.tolist()
    new = set(following)
    for write in following:
        path, at = [], write
        while at in new:
            new.remove(at)
            path.append(at)
            at = above[at]
        circle = at in set(path)
        for one in reversed(path):
            root[one] = CIRCLE if circle else root[above[one]]
            depth[one] = depth[above[one]] + 1
    return root, depth
