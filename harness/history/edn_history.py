"""Histories as Jepsen and Knossos write them, in EDN, into columns.

One map a line, or one vector or list of maps, pretty-printed or not, records or maps. Cut at its digits, most lines of
a history are one of a few, and the digits inside a token never change where it ends: so the first line of each form
is read token by token, and says where time, process and value are in all others. Whatever is not one map on one line
is read token by token.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Any, Final

import numpy as np

from . import TYPES, HistoryError
from .calls import NONE, Calls, Ints, Wants
from .edn import CLOSING, EdnError, Unfinished, fields, skip
from .edn_values import EdnValues, Keyed, Names, Processes, settle
from .entries import INFO, Block, Entries, Numbers
from .pairing import paired

LONGEST: Final = 16 << 20
"""Characters that one entry may have."""
_LINE: Final = 4096
"""Characters of a line that is looked up; a longer one is read token by token."""
_PLANS: Final = 4096
"""Forms of lines that are remembered."""
_DIGITS: Final = re.compile("([0-9]+)")
_KINDS: Final = {name: code for code, name in enumerate(TYPES)}
EXPECTED: Final = "expected a map with :process, :type and :f"
_Fields = dict[str, tuple[Any, int, int]]
CODES: Final = ("kind", "f", "key", "node", "value")


def read_edn(source: str, blocks: Iterable[bytes], wants: Wants, keyed: Keyed) -> Calls:
    """The calls of an EDN history; ``source`` is its name for errors. Raises :class:`HistoryError`."""
    reader = _Reader(source)
    for text in blocks:
        reader.take(text)
    entries = reader.finish()
    values = settle(entries, reader.values, wants, keyed)
    calls = paired(entries)
    calls.values = values
    return calls


@dataclass(frozen=True, slots=True)
class _Cut:
    """Where a field's text is in a line that is cut at its digits: some pieces, and what surrounds them."""

    head: str
    first: int
    last: int
    tail: str

    def of(self, pieces: list[str]) -> str:
        return self.head + "".join(pieces[self.first : self.last]) + self.tail


@dataclass(frozen=True, slots=True)
class _Plan:
    """How to read all lines of a form: the pieces that are process, time and index (NONE: there is none), what is the
    same in all of them (as in :data:`CODES`), and the texts that are not, by their places there."""

    process: int
    time: int
    index: int
    codes: tuple[int, ...]
    varying: tuple[tuple[int, _Cut], ...]


class _Columns:
    """The entries of one block; times and indices may still be texts. ``codes`` has those of :data:`CODES`."""

    def __init__(self) -> None:
        self.process: list[int] = []
        self.time: list[Any] = []
        self.index: list[Any] = []
        self.codes: list[Sequence[int]] = []
        self.line: list[int] = []

    def block(self) -> Block:
        count = len(self.line)
        codes = np.fromiter(chain.from_iterable(self.codes), np.int32, count * len(CODES)).reshape(count, len(CODES))
        columns: dict[str, Any] = {name: codes[:, place].copy() for place, name in enumerate(CODES)}
        columns["kind"] = columns["kind"].astype(np.int8)
        process, line = np.array(self.process, dtype=np.int32), np.array(self.line, dtype=np.int32)
        return Block(time=self.whole(self.time), process=process, line=line, **columns)

    @staticmethod
    def whole(column: list[Any]) -> Ints:
        return np.fromiter(map(int, column), np.int64, len(column))


class _Reader:
    def __init__(self, source: str) -> None:
        self.entries = Entries(source)
        self.values = EdnValues()
        self._processes = Processes(self.entries.processes)
        of = self.entries
        self._numbers: tuple[Numbers, ...] = (*map(Names, (of.fs, of.keys, of.nodes)), self.values)
        """By their texts: f, key, node and value."""
        self._plans: dict[tuple[str, ...], _Plan] = {}
        self._rest = ""
        self._line = 1
        self._closing = ""
        self._columns = _Columns()
        self._indices: list[Ints] = []
        self._timed = self._indexed = True

    def take(self, raw: bytes) -> None:
        """A block of whole lines."""
        try:
            text = self._rest + raw.decode()
        except UnicodeDecodeError as error:
            line = self._line + self._rest.count("\n") + raw.count(b"\n", 0, error.start)
            raise self.entries.fault(line, f"expected text in UTF-8: {error}") from error
        at = self._read(text)
        self._rest = text[at:]
        columns, self._columns = self._columns, _Columns()
        if columns.line:
            self.entries.blocks.append(self._block(columns))

    def finish(self) -> Entries:
        """All entries in their order: that of the file, or of their indices, if each has one."""
        entries = self.entries
        if self._rest:
            if not entries.blocks or "\n" in self._rest.rstrip():
                raise entries.fault(self._line, f"what begins here does not end: {self._rest[:40]!r}")
            entries.complete = False
        entries.complete &= not self._closing
        if self._indexed and self._indices:
            entries.sort(self._indices)
        if not self._timed:
            first = 0
            for block in entries.blocks:
                block.time = np.arange(first, first + len(block))
                first += len(block)
        return entries

    def _block(self, columns: _Columns) -> Block:
        try:
            if self._indexed:
                self._indices.append(columns.whole(columns.index))
            return columns.block()
        except OverflowError as error:
            pairs = zip(columns.time, columns.index, columns.line, strict=True)
            line = next(line for time, index, line in pairs if max(abs(int(time)), abs(int(index))) >= 2**63)
            raise self.entries.fault(line, "a time or index of more than 63 bits") from error

    def _read(self, text: str) -> int:
        """Read what is whole in ``text``; the position of what is not."""
        at = 0
        while at < len(text):
            end = text.find("\n", at, at + _LINE)
            if end < 0 and len(text) - at < _LINE:
                end = len(text)
            line = text[at:end].strip(" \t\r,") if end >= 0 else ""
            if end >= 0 and (not line or self._quick(line)):
                self._line += 1
                at = end + 1
                continue
            try:
                after = self._slow(text, at)
            except EdnError as error:
                if isinstance(error, Unfinished) and len(text) - at < LONGEST:
                    return at
                raise self._fault(text, at, error.at, str(error)) from error
            except RecursionError as error:
                raise self._fault(text, at, at, "values are nested too deeply") from error
            self._line += text.count("\n", at, after)
            at = after
        return at

    def _fault(self, text: str, at: int, where: int, what: str) -> HistoryError:
        """``at`` is in the current line, ``where`` is the position at fault."""
        column = where - text.rfind("\n", 0, where)
        return self.entries.fault(self._line + text.count("\n", at, where), what, column)

    def _quick(self, line: str) -> bool:
        """Read a line of a form that is known, or make it known; False if it is not one map."""
        pieces = _DIGITS.split(line)
        form = tuple(pieces[::2])
        plan = self._plans.get(form)
        if plan is None:
            plan = self._plan(line, pieces)
            if plan is None:
                return False
            self._plans[form] = plan
        codes: Sequence[int] = plan.codes
        try:
            process = NONE if plan.process == NONE else self._processes[pieces[plan.process]]
            if plan.varying:
                codes = [*codes]
                for place, cut in plan.varying:
                    codes[place] = self._numbers[place - 1][cut.of(pieces)]
        except (EdnError, OverflowError):
            return False
        columns = self._columns
        columns.process.append(process)
        columns.time.append(0 if plan.time == NONE else pieces[plan.time])
        columns.index.append(0 if plan.index == NONE else pieces[plan.index])
        columns.codes.append(codes)
        columns.line.append(self._line)
        return True

    def _plan(self, line: str, pieces: list[str]) -> _Plan | None:
        """How to read all lines that are cut like this one; None if that cannot be said."""
        if line[:1] not in ("{", "#") or line[-1:] != "}" or len(self._plans) >= _PLANS:
            return None
        try:
            found, end = fields(line, 0)
            entry = _understood(found, 0)
            cuts = _Cuts(line, pieces)
            at = [cuts.number(found, name) for name in ("process", "time", "index")]
            if end != len(line) or self._is_start(found):
                return None
            client = entry.process is not None
            codes = [entry.kind]
            varying: list[tuple[int, _Cut]] = []
            for place, name in enumerate(CODES[1:], 1):
                codes.append(self._code(place, found, line) if client or name != "value" else NONE)
                cut = cuts.cut(found, name)
                if cut is not None and (client or name != "value"):
                    varying.append((place, cut))
        except (EdnError, OverflowError, RecursionError):
            return None
        self._timed &= not client or entry.time is not None
        self._indexed &= entry.index is not None
        process = at[0] if client else NONE
        return _Plan(process, at[1], at[2], tuple(codes), tuple(varying))

    def _slow(self, text: str, start: int) -> int:
        """Read one entry, or the bracket around all of them; the position after it."""
        at = skip(text, start)
        first = text[at : at + 1]
        if first in ("[", "(") and not self._closing:
            self._closing = CLOSING[first]
        elif first and first == self._closing:
            self._closing = ""
        elif first:
            if first not in "{#":
                raise EdnError(at, f"{EXPECTED}, got {text[at : at + 40]!r}")
            found, end = fields(text, at)
            self._add(found, text, at, self._line + text.count("\n", start, at))
            return end
        return at + len(first)

    def _add(self, found: _Fields, text: str, at: int, line: int) -> None:
        """Take in an entry that was read token by token."""
        entry, columns = _understood(found, at), self._columns
        process = NONE if entry.process is None else self._processes[str(entry.process)]
        codes = [entry.kind, *(self._code(place, found, text) for place in range(1, len(CODES)))]
        if entry.process is None:
            codes[-1] = NONE
        self._timed &= entry.process is None or entry.time is not None
        self._indexed &= entry.index is not None
        if self._is_start(found):
            self.entries.settings = listed(found["value"][0])
        columns.process.append(process)
        columns.time.append(entry.time or 0)
        columns.index.append(entry.index or 0)
        columns.codes.append(codes)
        columns.line.append(line)

    def _code(self, place: int, found: _Fields, text: str) -> int:
        """The number of the field at ``place`` of :data:`CODES`."""
        _, begin, end = found.get(CODES[place], (None, 0, 0))
        return self._numbers[place - 1][text[begin:end] or "nil"]

    def _is_start(self, found: _Fields) -> bool:
        """Whether it is the first ``start`` that we wrote: Jepsen's nemeses start as well."""
        if self.entries.settings is not None or found["f"][0] != "start" or "value" not in found:
            return False
        value = found["value"][0]
        return found["process"][0] == "nemesis" and isinstance(value, dict) and "clients" in value


@dataclass(frozen=True, slots=True)
class _Entry:
    """An entry without its names and values; ``process`` is None if no client made it."""

    process: int | None
    time: int | None
    index: int | None
    kind: int


def _understood(found: _Fields, at: int) -> _Entry:
    """The entry with the fields ``found``. Raises EdnError for what is wrong with it."""
    if not {"process", "type", "f"} <= found.keys():
        raise EdnError(at, f"{EXPECTED}, got one with {', '.join(f':{name}' for name in found) or 'nothing'}")
    process, kind, f = (found[name][0] for name in ("process", "type", "f"))
    if not _is_whole(process) or process < 0:
        return _Entry(None, _whole(found, "time"), _whole(found, "index"), _KINDS.get(kind, INFO))
    if process >= 2**63:
        raise EdnError(found["process"][1], f"a process of more than 63 bits: {process}")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise EdnError(found["type"][1], f"expected a :type of :invoke, :ok, :fail or :info, got {kind!r}")
    if not isinstance(f, str):
        raise EdnError(found["f"][1], f"expected the name of a function as :f, got {f!r}")
    return _Entry(process, _whole(found, "time"), _whole(found, "index"), _KINDS[kind])


def _whole(found: _Fields, name: str) -> int | None:
    value, at, _ = found.get(name, (None, 0, 0))
    if value is None or (_is_whole(value) and abs(value) < 2**63):
        return value  # type: ignore[no-any-return]
    raise EdnError(at, f"expected a whole number of at most 63 bits as :{name}, got {value!r}")


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


class _Cuts:
    """A line and the pieces that it was cut into; those at odd places are digits."""

    def __init__(self, line: str, pieces: list[str]) -> None:
        self.line = line
        self.starts = list(accumulate(map(len, pieces), initial=0))

    def cut(self, found: _Fields, name: str) -> _Cut | None:
        """Where the field ``name`` is; None if it has no digits or is not there. Raises EdnError if it begins or ends
        between digits, which only characters such as ``\\u00411`` do."""
        if name not in found:
            return None
        _, begin, end = found[name]
        starts = self.starts
        first, last = bisect_right(starts, begin) - 1, bisect_left(starts, end) - 1
        begins, ends = begin == starts[first], end == starts[last + 1]
        if (first % 2 and not begins) or (last % 2 and not ends):
            raise EdnError(begin, "cut between digits")
        if first == last and not first % 2:
            return None
        head = "" if begins else self.line[begin : starts[first + 1]]
        tail = "" if ends else self.line[starts[last] : end]
        return _Cut(head, first if begins else first + 1, last + 1 if ends else last, tail)

    def number(self, found: _Fields, name: str) -> int:
        """The piece that is the number in the field ``name``; NONE if there is none. Raises EdnError if it is not
        digits alone."""
        cut = self.cut(found, name)
        if cut is None:
            return NONE
        if cut.head or cut.tail or cut.last != cut.first + 1:
            raise EdnError(found[name][1], "more than digits")
        return cut.first


def listed(value: Any) -> Any:
    """``value`` with its tuples as lists, as JSON has them."""
    if isinstance(value, tuple):
        return list(map(listed, value))
    if isinstance(value, dict):
        return {key: listed(item) for key, item in value.items()}
    return value
