"""Read histories of this project, JSON lines, into columns.

A block of lines is decoded at once into slim objects, the fastest way in Python. A block that cannot be decoded, or
that is not one entry a line, is decoded again line by line, to name the bad line.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Annotated, Any, Final

import msgspec
import numpy as np

from . import TYPES, History, HistoryError, OpType
from .calls import NEVER, NO_FENCE, NONE, Codes, Ints, Marks, Wants
from .entries import OK, Block, Entries, Numbers
from .grants import ANSWERS, WHOLE, GrantFields, TokenError, grant_columns

NULL: Final = msgspec.Raw(b"null")
_ERRORS: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_KINDS: Final = {name: code for code, name in enumerate(TYPES)}


_Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class _Entry(msgspec.Struct, gc=False):
    process: _Int64
    type: OpType
    f: str
    time: _Int64
    key: str | None = None
    node: str | None = None


class _Full(_Entry, gc=False):
    value: msgspec.Raw = NULL


class Values(Numbers):
    """Numbers of distinct values, by their texts."""

    def __init__(self) -> None:
        super().__init__(b"null")
        self.found: list[Any] = []

    def __missing__(self, text: bytes) -> int:
        self.found.append(frozen_lists(msgspec.json.decode(text)))
        return super().__missing__(text)


def frozen_lists(value: Any) -> Any:
    """Return ``value`` with its lists as tuples."""
    if isinstance(value, list):
        return tuple(map(frozen_lists, value))
    if isinstance(value, dict):
        return {key: frozen_lists(item) for key, item in value.items()}
    return value


def _numbered(names: Iterable[Any], numbers: Numbers) -> Codes:
    return np.fromiter([numbers[name] for name in names], np.int32)


class Reader:
    """Reads blocks of whole lines; ``values.found`` has the values of :class:`.calls.Calls`."""

    def __init__(self, source: str, wants: Wants) -> None:
        self.entries = Entries(source)
        self.values = Values()
        self._wants = wants
        self._kind = _Entry if wants == "nothing" else _Full
        self._decoder = msgspec.json.Decoder(self._kind)
        self._line = 1

    def take(self, text: bytes) -> None:
        """Add a block to ``entries``; raises :class:`HistoryError` with the number of the bad line."""
        lines = text.count(b"\n")
        first, self._line = self._line, self._line + lines
        found: Sequence[Any] | None = None
        with suppress(*_ERRORS):
            found = self._decoder.decode_lines(text)
        if found is not None and len(found) == lines:
            self._add(found, np.arange(first, first + lines), text, first)
        else:
            self._take_by_line(text, first)

    def _take_by_line(self, text: bytes, first: int) -> None:
        found: list[Any] = []
        numbers: list[int] = []
        lines = text.split(b"\n")
        for number, line in enumerate(lines, first):
            if not line.strip():
                continue
            try:
                entry = self._decoder.decode(line)
            except _ERRORS as error:
                cut = number == first + len(lines) - 1
                if cut and number > 1:
                    self.entries.complete = False
                    break
                raise self._malformed(number, line, error, cut=cut) from error
            found.append(entry)
            numbers.append(number)
        self._add(found, np.array(numbers, dtype=np.int64), text, first)

    def _malformed(self, number: int, line: bytes, error: Exception, *, cut: bool) -> HistoryError:
        return self.entries.fault(
            number,
            f"expected one history entry as a JSON object, got {line[:60].decode(errors='replace').rstrip()!r}: {error}"
            + ("; the file is truncated here" if cut else ""),
        )

    def _add(self, found: Sequence[Any], lines: Ints, text: bytes, first: int) -> None:
        entries, count = self.entries, len(found)
        if not count:
            return
        fs, keys, nodes, processes = entries.fs, entries.keys, entries.nodes, entries.processes
        block = Block(
            time=np.fromiter([entry.time for entry in found], np.int64, count),
            process=np.fromiter([processes[entry.process] for entry in found], np.int32, count),
            kind=np.fromiter([_KINDS[entry.type] for entry in found], np.int8, count),
            f=np.fromiter([fs[entry.f] for entry in found], np.int32, count),
            key=np.fromiter([keys[entry.key] for entry in found], np.int32, count),
            node=np.fromiter([nodes[entry.node] for entry in found], np.int32, count),
            line=lines.astype(np.int32),
        )
        entries.blocks.append(block)
        if entries.settings is None:
            self._find_settings(block, text, first)
        if self._wants != "nothing":
            self._add_values(block, [entry.value for entry in found])

    def add(self, history: History) -> None:
        """Add a history in memory."""
        entries = self.entries
        block = Block(
            time=np.array(history.time, dtype=np.int64),
            process=_numbered(history.process, entries.processes),
            kind=np.array(history.type, dtype=np.int8),
            f=_numbered(history.f, entries.fs),
            key=_numbered(history.key, entries.keys),
            node=_numbered(history.node, entries.nodes),
            line=np.arange(len(history), dtype=np.int32),
        )
        entries.settings = next((op.value or {} for op in history.nemesis("start")), None)
        if self._wants != "nothing":
            encode = msgspec.json.Encoder().encode
            self._add_values(block, [msgspec.Raw(encode(value)) for value in history.value])
        entries.blocks.append(block)

    def _add_values(self, block: Block, values: list[msgspec.Raw]) -> None:
        if self._wants in ("leases", "grants"):
            self._add_grants(block, values)
            return
        for row in np.flatnonzero(block.process == NONE).tolist():
            values[row] = NULL
        block.value = _numbered(map(bytes, values), self.values)

    def _find_settings(self, block: Block, text: bytes, first: int) -> None:
        starts = np.flatnonzero((block.process == NONE) & (block.f == self.entries.fs.get("start", NONE)))
        if len(starts):
            after = int(block.line[starts[0]]) - first
            value = msgspec.json.decode(text.split(b"\n", after + 1)[after]).get("value")
            self.entries.settings = value if isinstance(value, dict) else {}

    def _add_grants(self, block: Block, values: Sequence[msgspec.Raw]) -> None:
        names = self.entries.fs
        answers = [names[name] for name in ANSWERS if name in names]
        rows = np.flatnonzero((block.kind == OK) & (block.process != NONE) & np.isin(block.f, answers))
        found = self._grants([values[row] for row in rows.tolist()], block.line[rows])
        block.fence = np.full(len(block), NO_FENCE)
        block.lease = np.full(len(block), NEVER)
        block.good = np.full(len(block), NONE, dtype=np.int8)
        block.fence[rows], block.lease[rows], block.good[rows] = found

    def _grants(self, values: Sequence[msgspec.Raw], lines: Codes) -> tuple[Ints, Ints, Marks]:
        tokens = self._wants == "grants"
        try:
            return grant_columns(_GRANTS.decode_lines(b"\n".join(values)), tokens=tokens)
        except (msgspec.MsgspecError, TokenError):
            for value, line in zip(values, lines.tolist(), strict=True):
                try:
                    grant_columns([_GRANTS.decode(value)], tokens=tokens)
                except (msgspec.MsgspecError, TokenError) as error:
                    raise self.entries.fault(line, f"{WHOLE}, got {bytes(value)[:60].decode()}") from error
            raise


_GRANTS: Final = msgspec.json.Decoder(GrantFields | int | float | str | bool | list[Any] | None)
