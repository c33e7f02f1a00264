"""Histories: the calls of all clients and the actions of the nemesis, in the order in which they were recorded.

A history is a list of entries, as in Jepsen. A call has two entries: an ``invoke`` before it is dispatched, and one
after it returned, which is ``ok`` (it happened), ``fail`` (it surely did not happen) or ``info`` (unknown outcome).
Faults are entries of the process :data:`NEMESIS`. This follows the model of https://github.com/jepsen-io/history.

The entries are stored by column, so that a checker can read one field of a hundred thousand entries without building a
hundred thousand objects.
"""

from __future__ import annotations

import contextlib
import gzip
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import le
from pathlib import Path
from typing import IO, Any, Final, Literal, overload

import msgspec

from harness.files import LineStream, WriterMark, refuse_device, whole_file

OpType = Literal["invoke", "ok", "fail", "info"]
TYPES: Final[tuple[OpType, ...]] = ("invoke", "ok", "fail", "info")
_CODE: Final[dict[str, int]] = {name: code for code, name in enumerate(TYPES)}
SECOND: Final = 1_000_000_000
"""Times in histories are in nanoseconds."""
NEMESIS: Final = -1
"""The process number of entries that no client made: faults, clock readings, the start and the end of the run."""


class HistoryError(ValueError):
    """A history file that cannot be read; the message names the file, the line and the expected content."""


class Op(msgspec.Struct, frozen=True, omit_defaults=True):
    """One entry of a history.

    ``time`` is the ``CLOCK_MONOTONIC`` that the client read, in nanoseconds: one clock for all processes of a run.
    ``wall`` is the wall clock that the same client read, in nanoseconds since 1970: faults move this clock. ``process``
    is the number of a logical client; after a call that ended ``info``, the client continues under a new number.
    ``node`` is the name of the host on which the entry was made.
    """

    index: int
    time: int
    wall: int
    process: int
    type: OpType
    f: str
    key: str | None = None
    value: Any = None
    error: str | None = None
    node: str | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """An invocation and its completion; ``done`` is None as long as the call has not returned, and stays None if it
    never does."""

    invoke: Op
    done: Op | None

    @property
    def outcome(self) -> OpType:
        """Return ``ok``, ``fail`` or ``info``; a call that never returned is ``info``: it may have happened."""
        return "info" if self.done is None else self.done.type


class History(Sequence[Op]):
    """An append-only sequence of entries, columnar inside; the index of an entry is its position."""

    def __init__(self, ops: Iterable[Op] = ()) -> None:
        self.time = array("q")
        self.wall = array("q")
        self.process = array("q")
        self.type = array("b")
        self.f: list[str] = []
        self.key: list[str | None] = []
        self.value: list[Any] = []
        self.error: list[str | None] = []
        self.node: list[str | None] = []
        for op in ops:
            self.append(op)

    def append(self, op: Op) -> None:
        """Add ``op``; its own index must be the next one."""
        if op.index != len(self.time):
            raise HistoryError(f"entry {op.index} appended at position {len(self.time)}: indices must be consecutive")
        self.time.append(op.time)
        self.wall.append(op.wall)
        self.process.append(op.process)
        self.type.append(_CODE[op.type])
        self.f.append(op.f)
        self.key.append(op.key)
        self.value.append(op.value)
        self.error.append(op.error)
        self.node.append(op.node)

    def __len__(self) -> int:
        return len(self.time)

    @overload
    def __getitem__(self, index: int) -> Op: ...
    @overload
    def __getitem__(self, index: slice) -> list[Op]: ...
    def __getitem__(self, index: int | slice) -> Op | list[Op]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if index < 0:
            index += len(self)
        return Op(
            index,
            self.time[index],
            self.wall[index],
            self.process[index],
            TYPES[self.type[index]],
            self.f[index],
            self.key[index],
            self.value[index],
            self.error[index],
            self.node[index],
        )

    def __iter__(self) -> Iterator[Op]:
        return (self[i] for i in range(len(self)))

    @property
    def origin(self) -> int:
        """The time of the first entry, ns; reports count from it."""
        return self.time[0] if self.time else 0

    def calls(self, *fs: str) -> list[Call]:
        """Return the clients' calls (of the functions ``fs``, or all) in the order of their invocations.

        Raises :class:`HistoryError` for a completion without an invocation: a client cannot have recorded such a
        history.
        """
        wanted = frozenset(fs)
        found: list[Call | None] = []
        open_calls: dict[int, tuple[int, Op]] = {}
        for op in self:
            if op.process == NEMESIS or (wanted and op.f not in wanted):
                continue
            if op.type == "invoke":
                open_calls[op.process] = (len(found), op)
                found.append(Call(op, None))
                continue
            begun = open_calls.pop(op.process, None)
            if begun is None or begun[1].f != op.f:
                raise HistoryError(f"entry {op.index}: process {op.process} completed {op.f!r} but never invoked it")
            found[begun[0]] = Call(begun[1], op)
        return [call for call in found if call is not None]

    def nemesis(self, *fs: str) -> list[Op]:
        """Return the entries that no client made, of the functions ``fs`` or all."""
        return [self[i] for i, p in enumerate(self.process) if p == NEMESIS and (not fs or self.f[i] in fs)]

    def in_order(self) -> History:
        """Return the entries sorted by time and numbered anew; entries of the same time keep their order.

        Entries of clients in containers arrive one client at a time, so a recorded history may be slightly out of
        order.
        """
        if all(map(le, self.time, self.time[1:])):
            return self
        order = sorted(range(len(self)), key=self.time.__getitem__)
        return History(msgspec.structs.replace(self[old], index=new) for new, old in enumerate(order))

    def save(self, path: Path) -> None:
        """Write the entries as JSON lines (with gzip if the name ends in ``.gz``)."""
        encode = msgspec.json.Encoder().encode
        with written_history(path) as file:
            file.writelines(encode(op) + b"\n" for op in self)

    @classmethod
    def load(cls, path: Path) -> History:
        """Read a file that :meth:`save` or a run wrote; raises :class:`HistoryError` with the number of the bad
        line."""
        history, cut = cls.salvage(path)
        if cut:
            raise HistoryError(cut)
        return history

    @classmethod
    def salvage(cls, path: Path) -> tuple[History, str]:
        """Read like :meth:`load`, but skip a truncated last line; the second value then says so."""
        history = cls()
        decoder = msgspec.json.Decoder(Op)
        try:
            with open_history(path) as file:
                for number, line in enumerate(file, 1):
                    try:
                        history._add_line(decoder, line, path, number)
                    except HistoryError as error:
                        if line.endswith(b"\n") or number == 1:
                            raise
                        return history, str(error)
        except (OSError, EOFError) as error:
            raise HistoryError(f"{path}: cannot read the history: {error}") from error
        return history, ""

    def _add_line(self, decoder: msgspec.json.Decoder[Op], line: bytes, path: Path, number: int) -> None:
        if not line.strip():
            return
        try:
            self.append(decoder.decode(line))
        except (msgspec.MsgspecError, HistoryError, OverflowError, RecursionError) as error:
            cut = "; the file is truncated here" if not line.endswith(b"\n") else ""
            raise HistoryError(
                f"{path}, line {number}: expected one history entry as a JSON object, got "
                f"{line[:60].decode(errors='replace').rstrip()!r}: {error}{cut}"
            ) from error


class HistoryWriter:
    """Writes entries as they are recorded, line by line, so that a crash loses no recorded entry.

    The writer marks the file, so that readers know that more entries will follow.
    """

    def __init__(self, path: Path) -> None:
        self._file = LineStream(path)
        self._mark = WriterMark(path, self._file)
        self._encode = msgspec.json.Encoder().encode

    def write(self, op: Op) -> None:
        """Write an entry. Raises HarnessError for the first that cannot be written; later ones are dropped."""
        self._file.write(self._encode(op) + b"\n")

    def close(self) -> None:
        self._file.close()
        self._mark.close()

    def __enter__(self) -> HistoryWriter:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def open_history(path: Path) -> IO[bytes]:
    """Open the file at ``path`` for reading, through gzip if its name ends in ``.gz``. Raises OSError, also for a
    device, which may never end."""
    refuse_device(path)
    if path.suffix == ".gz":
        return gzip.open(path, "rb")  # type: ignore[return-value]
    return path.open("rb")


@contextlib.contextmanager
def written_history(path: Path) -> Iterator[IO[bytes]]:
    """Open the file at ``path`` for writing as a whole, through gzip if its name ends in ``.gz``."""
    with whole_file(path) as file:
        if path.suffix != ".gz":
            yield file
            return
        with gzip.GzipFile(path.name.removesuffix(".gz"), "wb", fileobj=file) as packed:
            yield packed  # type: ignore[misc]
