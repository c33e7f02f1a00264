"""Lines of EDN cut at their digits: in which pieces the fields of an entry are.

Lines of one form differ only in digits, so the place of a field in the pieces is the same in all of them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from itertools import accumulate

from .calls import NONE
from .edn import EdnError, Fields


@dataclass(frozen=True, slots=True)
class FieldCut:
    """The place of a field in a line that is cut at its digits: some pieces, and the text around them."""

    head: str
    first: int
    last: int
    tail: str

    def of(self, pieces: list[str]) -> str:
        return self.head + "".join(pieces[self.first : self.last]) + self.tail


class DigitCuts:
    """A line, cut into pieces; every second piece is digits."""

    def __init__(self, line: str, pieces: list[str]) -> None:
        self.line = line
        self.starts = list(accumulate(map(len, pieces), initial=0))

    def cut(self, found: Fields, name: str) -> FieldCut | None:
        """Return the place of the field ``name``; None if it has no digits or does not exist.

        Raises EdnError if it begins or ends between digits, which happens only with characters such as ``\\u00411``.
        """
        if name not in found.places:
            return None
        begin, end = found.places[name]
        starts = self.starts
        first, last = bisect_right(starts, begin) - 1, bisect_left(starts, end) - 1
        begins, ends = begin == starts[first], end == starts[last + 1]
        if (first % 2 and not begins) or (last % 2 and not ends):
            raise EdnError(begin, "cut between digits")
        if first == last and not first % 2:
            return None
        head = "" if begins else self.line[begin : starts[first + 1]]
        tail = "" if ends else self.line[starts[last] : end]
        return FieldCut(head, first if begins else first + 1, last + 1 if ends else last, tail)

    def number(self, found: Fields, name: str) -> int:
        """Return the piece that is the number in the field ``name``; NONE if the field does not exist.

        Raises EdnError if the field is not digits alone.
        """
        cut = self.cut(found, name)
        if cut is None:
            return NONE
        if cut.head or cut.tail or cut.last != cut.first + 1:
            raise EdnError(found.at(name), "more than digits")
        return cut.first
