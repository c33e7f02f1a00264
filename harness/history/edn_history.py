"""Read histories that Jepsen and Knossos wrote as EDN into columns.

A file has one map a line, or one vector or list of maps, pretty-printed or not; an entry is a record or a map. Most
lines of a history have one of a few forms, which differ only in digits, and the digits inside a token never change
where it ends. So the first line of each form is read token by token, and says where time, process and value are in all
other lines of the form. Entries that are not one map on one line are read token by token.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any, Final

import numpy as np

from . import TYPES, HistoryError
from .calls import NONE, Calls, Ints, Keyed, Wants
from .edn import CLOSING, EdnError, Fields, Unfinished, fields, only_form, skip
from .edn_cuts import DigitCuts, FieldCut
from .edn_values import EdnValues, Names, Processes, key_name, overrule, settle
from .entries import INFO, Block, Entries, Numbers
from .pairing import paired
from .values import bare

LONGEST: Final = 16 << 20
"""The most characters of one entry."""
_LINE: Final = 4096
"""The most characters of a line that is looked up by its form; a longer line is read token by token."""
_PLANS: Final = 4096
"""The most forms of lines that are remembered."""
_DIGITS: Final = re.compile("([0-9]+)")
_KINDS: Final[dict[str, int]] = {name: code for code, name in enumerate(TYPES)}
EXPECTED: Final = "expected a map with :process, :type and :f"
CODES: Final = ("kind", "f", "key", "node", "value")


def read_edn(
    source: str,
    blocks: Iterable[bytes],
    wants: Wants,
    keyed: Keyed,
    *,
    clients: bool = True,
    refusals: Collection[str] = (),
) -> Calls:
    """Read the calls of an EDN history, as :func:`~harness.history.files.read_calls` does; ``source`` is its name for
    errors. Raises :class:`HistoryError`."""
    reader = _Reader(source)
    for text in blocks:
        reader.take(text)
    entries = reader.finish()
    values = settle(entries, reader.values, wants, keyed, clients=clients)
    calls = paired(entries, refusals)
    calls.values = values
    overrule(calls)
    return calls


@dataclass(frozen=True, slots=True)
class _Plan:
    """How to read all lines of one form.

    It has the pieces that are process, time and index (NONE: the form has none), the process if no piece is, the codes
    that are the same in all lines (as in :data:`CODES`), and the texts of the fields that differ, by their places
    there.
    """

    process: int
    fixed: int
    time: int
    index: int
    codes: tuple[int, ...]
    varying: tuple[tuple[int, FieldCut], ...]


class _Columns:
    """The entries of one block; times and indices are still texts. ``codes`` has the fields of :data:`CODES`."""

    def __init__(self) -> None:
        self.process: list[int] = []
        self.time: list[str] = []
        self.index: list[str] = []
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
    def whole(column: list[str]) -> Ints:
        """Convert a column to numbers. Raises OverflowError or EdnError."""
        try:
            return np.fromiter(map(int, column, repeat(0)), np.int64, len(column))
        except ValueError:  # octal numbers
            return np.fromiter(map(only_form, column), np.int64, len(column))


class _Reader:
    def __init__(self, source: str) -> None:
        self.entries = Entries(source)
        self.values = EdnValues()
        self._processes = Processes(self.entries)
        of = self.entries
        self._numbers: tuple[Numbers, ...] = (
            Names(of.fs, bare),
            Names(of.keys, key_name),
            Names(of.nodes, bare),
            self.values,
        )
        """Numbers by text, for f, key, node and value."""
        self._plans: dict[tuple[str, ...], _Plan] = {}
        self._rest = ""
        self._line = 1
        self._closing = ""
        self._ended = False
        self._columns = _Columns()
        self._indices: list[Ints] = []
        self._timed = self._indexed = True

    def take(self, raw: bytes) -> None:
        """Read a block of whole lines."""
        try:
            text = self._rest + raw.decode()
        except UnicodeDecodeError as error:
            line = self._line + self._rest.count("\n") + raw.count(b"\n", 0, error.start)
            raise self.entries.fault(line, f"expected text in UTF-8: {error}") from error
        if self._line == 1 and not self._rest:
            text = text.removeprefix("\ufeff")
        at = self._read(text)
        self._rest = text[at:]
        columns, self._columns = self._columns, _Columns()
        if columns.line:
            self.entries.blocks.append(self._block(columns))

    def finish(self) -> Entries:
        """Return all entries in the order of the file, or of their indices if each has one."""
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
        except (EdnError, OverflowError) as error:
            pairs = zip(columns.time, columns.index, columns.line, strict=True)
            line = next(line for time, index, line in pairs if not (_is_number(time) and _is_number(index)))
            raise self.entries.fault(line, "expected whole numbers of at most 63 bits as :time and :index") from error

    def _read(self, text: str) -> int:
        """Read the complete entries in ``text``; return the position of the first incomplete one."""
        at = 0
        while at < len(text):
            end = text.find("\n", at, at + _LINE)
            if end < 0 and len(text) - at < _LINE:
                end = len(text)
            line = text[at:end].strip(" \t\r,") if end >= 0 else ""
            if end >= 0 and (not line or (not self._ended and self._quick(line))):
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
        """Return the error for an entry: ``at`` is in the current line, ``where`` is the position of the error."""
        column = where - text.rfind("\n", 0, where)
        return self.entries.fault(self._line + text.count("\n", at, where), what, column)

    def _quick(self, line: str) -> bool:
        """Read a line of a known form, or learn its form. False if the line is not one map."""
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
            process = plan.fixed if plan.process == NONE else self._processes[pieces[plan.process]]
            if plan.varying:
                codes = [*codes]
                for place, cut in plan.varying:
                    codes[place] = self._numbers[place - 1][cut.of(pieces)]
        except (EdnError, OverflowError):
            return False
        columns = self._columns
        columns.process.append(process)
        columns.time.append("0" if plan.time == NONE else pieces[plan.time])
        columns.index.append("0" if plan.index == NONE else pieces[plan.index])
        columns.codes.append(codes)
        columns.line.append(self._line)
        return True

    def _plan(self, line: str, pieces: list[str]) -> _Plan | None:
        """Return how to read all lines that have the form of this one; None if the form does not determine it."""
        if line[:1] not in ("{", "#") or line[-1:] != "}" or len(self._plans) >= _PLANS:
            return None
        try:
            found, end = fields(line, 0)
            entry = _entry_of(found, 0)
            cuts = DigitCuts(line, pieces)
            at = [cuts.number(found, name) for name in ("process", "time", "index")]
            if end != len(line) or self._is_start(found):
                return None
            client = entry.client
            fixed = self._processes[found.written("process")] if client and at[0] == NONE else NONE
            codes = [entry.kind]
            varying: list[tuple[int, FieldCut]] = []
            for place, name in enumerate(CODES[1:], 1):
                codes.append(self._code(place, found) if client or name != "value" else NONE)
                cut = cuts.cut(found, name)
                if cut is not None and (client or name != "value"):
                    varying.append((place, cut))
        except (EdnError, OverflowError, RecursionError):
            return None
        self._timed &= not client or entry.time is not None
        self._indexed &= entry.index is not None
        process = at[0] if client else NONE
        return _Plan(process, fixed, at[1], at[2], tuple(codes), tuple(varying))

    def _slow(self, text: str, start: int) -> int:
        """Read one entry, or the bracket around all of them; return the position after it."""
        at = skip(text, start)
        first = text[at : at + 1]
        if first and self._ended:
            raise EdnError(at, f"expected nothing after the bracket around all entries, got {text[at : at + 40]!r}")
        if first in ("[", "(") and not self._closing:
            self._closing = CLOSING[first]
        elif first and first == self._closing:
            self._closing = ""
            self._ended = True
        elif first:
            if first not in "{#":
                raise EdnError(at, f"{EXPECTED}, got {text[at : at + 40]!r}")
            found, end = fields(text, at)
            self._add(found, at, self._line + text.count("\n", start, at))
            return end
        return at + len(first)

    def _add(self, found: Fields, at: int, line: int) -> None:
        """Add an entry that was read token by token."""
        entry, columns = _entry_of(found, at), self._columns
        client = entry.client
        wanted = range(1, len(CODES)) if client else range(1, len(CODES) - 1)
        codes = [entry.kind, *(self._code(place, found) for place in wanted), *([] if client else [NONE])]
        process = self._processes[found.written("process")] if client else NONE
        self._timed &= not client or entry.time is not None
        self._indexed &= entry.index is not None
        if self._is_start(found):
            self.entries.settings = listed(found.value("value"))
        columns.process.append(process)
        columns.time.append(str(entry.time or 0))
        columns.index.append(str(entry.index or 0))
        columns.codes.append(codes)
        columns.line.append(line)

    def _code(self, place: int, found: Fields) -> int:
        """Return the number of the field at ``place`` of :data:`CODES`."""
        name = CODES[place]
        try:
            return self._numbers[place - 1][found.written(name)]
        except EdnError as error:
            raise EdnError(found.at(name) + error.at, str(error)) from error

    def _is_start(self, found: Fields) -> bool:
        """Return whether the entry is the first ``start`` entry and of this project; Jepsen's nemeses have ``start``
        entries too."""
        if self.entries.settings is not None or found.written("f") != ":start":
            return False
        if found.written("process") != ":nemesis" or not found.written("value").startswith("{"):
            return False
        value = found.value("value")
        return isinstance(value, dict) and {"clients", "workload"} <= value.keys()


@dataclass(frozen=True, slots=True)
class _Entry:
    """An entry without its names and values."""

    client: bool
    time: int | None
    index: int | None
    kind: int


def _entry_of(found: Fields, at: int) -> _Entry:
    """Return the entry with the fields ``found``. Raises EdnError for an invalid field."""
    if not {"process", "type", "f"} <= found.places.keys():
        names = ", ".join(f":{name}" for name in found.places) or "nothing"
        raise EdnError(at, f"{EXPECTED}, got one with {names}")
    process, kind = found.value("process"), found.value("type")
    known = _KINDS.get(kind[:]) if isinstance(kind, str) else None
    time, index = _whole(found, "time"), _whole(found, "index")
    if process is None or (isinstance(process, str) and bare(process) == "nemesis"):
        return _Entry(client=False, time=time, index=index, kind=INFO if known is None else known)
    if _is_whole(process) and abs(process) >= 2**63:
        raise EdnError(found.at("process"), f"a process of more than 63 bits: {process}")
    if known is None:
        raise EdnError(found.at("type"), f"expected a :type of :invoke, :ok, :fail or :info, got {kind!r}")
    f = found.value("f")
    if not isinstance(f, str):
        raise EdnError(found.at("f"), f"expected the name of a function as :f, got {f!r}")
    return _Entry(client=True, time=time, index=index, kind=known)


def _whole(found: Fields, name: str) -> int | None:
    value = found.value(name)
    if value is None or (_is_whole(value) and abs(value) < 2**63):
        return value  # type: ignore[no-any-return]
    raise EdnError(found.at(name), f"expected a whole number of at most 63 bits as :{name}, got {value!r}")


def _is_number(text: str) -> bool:
    try:
        return bool(abs(only_form(text)) < 2**63)
    except EdnError:
        return False


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def listed(value: Any) -> Any:
    """Return ``value`` with its tuples as lists, as in JSON."""
    if isinstance(value, str):
        return bare(value)
    if isinstance(value, tuple):
        return list(map(listed, value))
    if isinstance(value, dict):
        return {key: listed(item) for key, item in value.items()}
    return value
