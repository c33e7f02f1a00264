"""Histories for the benchmark: of a lock or of a register, of any length, right or with one thing wrong.

Written as files of ours or as Jepsen writes them; the same :class:`Shape` gives the same bytes. The one double hold
of a wrong history of a lock is one for every model of a lock, whatever became of the calls that crashed: both grants
come back before either holder releases, and with the second there are two more grants than releases so far. The one
corrupted read of a register gives a value that nothing can have put there when it was read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from benchmarks.linearizability import going_on, simulate
from benchmarks.linearizability.simulate import ACQUIRE, CAS, ENQUEUE, FAIL, INFO, INVOKE, NIL, OK, READ, VALUES, WRITE
from harness.history.calls import NEVER, Ints, Marks
from harness.history.compiled import fastest

Workload = Literal["lock", "rw-lock", "queued-lock", "semaphore", "register", "cas-register"]
PERMITS: Final = 3
"""Permits of the semaphore, whose clients go on after unknown outcomes."""
FS: Final = ("acquire", "release", "read", "write", "cas", "enqueue")
TYPES: Final = ("invoke", "ok", "fail", "info")
STEPS: Final = 10
"""A call of a lock whose clients go on takes as long as so many rows of an array."""
BLOCK: Final = 500_000
"""Entries that are made into text at once."""
START: Final = {
    "servers": ["n1"],
    "discipline": "trusting",
    "fencing": "off",
    "ttl": 30.0,
    "hold": 0.02,
    "slack": 1.0,
    "stock": {},
}
WALL: Final = 1_700_000_000_000_000_000
LONGEST: Final = 320
"""No line has more bytes."""
_INDEX, _TIME, _WALL, _PROCESS, _FIRST, _SECOND, _CLIENT = (chr(number) for number in range(7))


@dataclass(frozen=True, slots=True)
class Shape:
    """``operations`` counts calls (a lock may have fewer), ``clients`` those that are at it at any time, ``crashed``
    those that leave, each in the middle of a call, and ``unknown`` the calls of a lock after whose unknown outcome the
    client goes on (None: clients do not go on). All that happens in the first half of the history, and what is wrong,
    if anything, comes at nine tenths of it."""

    workload: Workload
    operations: int
    clients: int
    crashed: int = 0
    wrong: bool = False
    seed: int = 0
    unknown: int | None = None

    @property
    def name(self) -> str:
        """Tells shapes apart, also as the name of a file."""
        seed = (f"-{self.seed}" if self.seed else "") + ("" if self.unknown is None else f"-{self.unknown}-unknown")
        verdict = "wrong" if self.wrong else "right"
        return f"{self.workload}-{self.operations}-{self.clients}-{self.crashed}-{verdict}{seed}"

    @property
    def going_on(self) -> int:
        """Number of clients if they go on after unknown outcomes, else 0."""
        return 0 if self.unknown is None else self.clients


@dataclass(frozen=True, slots=True)
class Entries:
    """A history by column, in the order of time; see :mod:`benchmarks.linearizability.simulate`."""

    time: Ints
    process: Ints
    kind: Marks
    f: Marks
    first: Ints
    second: Ints

    def __len__(self) -> int:
        return len(self.time)


def make(shape: Shape) -> Entries:
    """A history of this shape. Raises ValueError if it is too short for what it should have."""
    columns = _room(2 * (shape.operations + _reserve(shape)))
    if shape.workload not in ("register", "cas-register"):
        count, wrong = _lock(columns, shape)
        if wrong != shape.wrong:
            raise ValueError(f"{shape}: nobody waited when the lock was to be granted twice")
        return _filled(columns, count)
    fs = 3 if shape.workload == "cas-register" else 2
    crashes = _first_half(shape, shape.crashed)
    register = fastest(simulate.register, rows=shape.operations)
    made = _filled(columns, register(columns, shape.clients, shape.operations, crashes, fs, shape.seed))
    if shape.wrong:
        corrupt(made)
    return made


def _lock(columns: simulate.Columns, shape: Shape) -> tuple[int, int]:
    wrong_from = shape.operations * 9 // 10 if shape.wrong else NEVER
    if shape.unknown is None:
        leaving = fastest(simulate.lock, rows=shape.operations)
        crashes = _first_half(shape, shape.crashed)
        return leaving(columns, shape.clients, shape.operations, crashes, wrong_from, shape.seed)
    first = ENQUEUE if shape.workload == "queued-lock" else ACQUIRE
    lock = fastest(going_on.lock, rows=STEPS * shape.operations)
    unknown = _first_half(shape, shape.unknown)
    reads = 0.5 if shape.workload == "rw-lock" else 0.0
    permits = PERMITS if shape.workload == "semaphore" else 1
    most = shape.operations + _reserve(shape)
    return lock(columns, shape.clients, most, unknown, wrong_from, shape.seed, first, reads, permits)


def _reserve(shape: Shape) -> int:
    """Return how many more calls there is room for if many have an unknown outcome: the lock keeps room for the calls
    that repeat them, which are few."""
    unknown = shape.unknown or 0
    return unknown * 4 // 3 if unknown > shape.operations // 10 else 0


def _first_half(shape: Shape, count: int) -> Ints:
    return np.linspace(0, shape.operations // 2, count).astype(np.int64)


def _room(count: int) -> simulate.Columns:
    def numbers() -> Ints:
        return np.empty(count, dtype=np.int64)

    return numbers(), numbers(), np.empty(count, dtype=np.int8), np.empty(count, dtype=np.int8), numbers(), numbers()


def _filled(columns: simulate.Columns, count: int) -> Entries:
    time, process, kind, f, first, second = columns
    return Entries(time[:count], process[:count], kind[:count], f[:count], first[:count], second[:count])


def corrupt(entries: Entries) -> None:
    """Let one read from nine tenths on (or the last one) return what the register cannot have held: the earliest that
    can be given such a value among :data:`VALUES`, or else the first, one that is never written."""
    starts, ends = _windows(entries)
    reads = np.flatnonzero((entries.f == READ) & (entries.kind == OK))
    if not len(reads):
        raise ValueError("no read to corrupt")
    reads = reads[min(int(np.searchsorted(reads, len(entries) * 9 // 10)), len(reads) - 1) :]
    for read in reads:
        here = int(np.flatnonzero(ends == read)[0])
        wrong = set(range(VALUES)) - _possible(entries, starts, ends, here)
        if wrong:
            entries.first[read] = min(wrong)
            return
    entries.first[reads[0]] = VALUES


def _windows(entries: Entries) -> tuple[Ints, Ints]:
    """Where each call begins and ends (NEVER: nobody knows; failed calls are left out), in the order of its start."""
    open_calls: dict[int, int] = {}
    starts: list[int] = []
    ends: list[int] = []
    for position, (process, kind) in enumerate(zip(entries.process.tolist(), entries.kind.tolist(), strict=True)):
        if kind == INVOKE:
            open_calls[process] = len(starts)
            starts.append(position)
            ends.append(NEVER)
        else:
            ends[open_calls[process]] = {OK: position, FAIL: NIL, INFO: NEVER}[kind]
    happened = np.array(ends) != NIL
    return np.array(starts)[happened], np.array(ends)[happened]


def _possible(entries: Entries, starts: Ints, ends: Ints, read: int) -> set[int]:
    """At least the values that the call ``read`` may have seen: of each call that writes, begins before it ends, and
    after which no other one that writes is known to have begun and ended before it began."""
    writes = np.flatnonzero((entries.f[starts] != READ) & (starts < ends[read]))
    over = writes[ends[writes] < starts[read]]
    last = starts[over].max(initial=0)
    seen = writes[ends[writes] >= last]
    f = entries.f[starts[seen]]
    return set(np.where(f == CAS, entries.second[starts[seen]], entries.first[starts[seen]]).tolist())


def write(entries: Entries, path: Path, clients: int = 0) -> None:
    """Write ``entries`` as a history of ours (``.jsonl``) or as Jepsen writes one (``.edn``). ``clients`` is the number
    of clients if they go on after unknown outcomes; each process is a client of its own if it is 0."""
    ours = path.suffix == ".jsonl"
    templates = [_line(number, ours=ours) for number in range(len(FS) * len(TYPES) * 2)]
    with path.open("wb") as file:
        if ours:
            names = [f"c{number}" for number in range(clients or int(entries.process.max()) + 1)]
            file.write(_nemesis(0, 0, "start", {"clients": names, **START}))
        for block in _text(entries, templates, from_index=int(ours), clients=clients or NEVER):
            file.write(block.data)
        if ours:
            file.write(_nemesis(len(entries) + 1, int(entries.time[-1]) + 1, "stop", {"reason": "done"}))


def _nemesis(index: int, time: int, f: str, value: Any) -> bytes:
    entry = {"index": index, "time": time, "wall": WALL + time, "process": -1, "type": "info", "f": f, "value": value}
    return msgspec.json.encode(entry) + b"\n"


def _text(entries: Entries, templates: list[str], from_index: int, clients: int) -> Iterator[npt.NDArray[np.uint8]]:
    lines = [line.encode() for line in templates]
    lengths = np.array([len(line) for line in lines])
    table = np.zeros((len(lines), lengths.max()), dtype=np.uint8)
    for number, line in enumerate(lines):
        table[number, : len(line)] = np.frombuffer(line, dtype=np.uint8)
    out = np.empty(min(BLOCK, len(entries)) * LONGEST, dtype=np.uint8)
    for begin in range(0, len(entries), BLOCK):
        some = slice(begin, min(begin + BLOCK, len(entries)))
        fields, which = _fields(entries, some, from_index, clients)
        write_lines = fastest(simulate.write_lines, rows=len(entries))
        yield out[: write_lines(fields, which, table, lengths, out)]


def _fields(entries: Entries, some: slice, from_index: int, clients: int) -> tuple[Ints, Marks]:
    time = entries.time[some]
    index = np.arange(some.start, some.stop) + from_index
    process = entries.process[some]
    columns = (index, time, time + WALL, process, entries.first[some], entries.second[some], process % clients)
    which = (entries.f[some] * len(TYPES) + entries.kind[some]) * 2 + (entries.first[some] == NIL)
    fields: npt.NDArray[np.int64] = np.stack(columns)
    return fields, which.astype(np.int8)


def _line(number: int, *, ours: bool) -> str:
    """The template of one function and type, and of one in which the register held nothing."""
    f, kind, nil = number // (2 * len(TYPES)), number // 2 % len(TYPES), number % 2
    if ours:
        value = _value_of_ours(f, kind, nil=bool(nil))
        error = ',"error":"timed out"' if kind == INFO else ""
        return (
            f'{{"index":{_INDEX},"time":{_TIME},"wall":{_WALL},"process":{_PROCESS},"type":"{TYPES[kind]}",'
            f'"f":"{FS[f]}","key":"k0"{value and f",{chr(34)}value{chr(34)}:{value}"}{error},"node":"c{_CLIENT}"}}\n'
        )
    value = _value_of_jepsen(f, kind, nil=bool(nil))
    error = ", :error :timeout" if kind == INFO else ""
    what = f":type :{TYPES[kind]}, :process {_PROCESS}, :f :{FS[f]}, :value {value}{error}"
    return f"{{:index {_INDEX}, :time {_TIME}, {what}}}\n"


def _value_of_ours(f: int, kind: int, *, nil: bool) -> str:
    if f == ACQUIRE:
        mode = ',"mode":"read"' if nil else ""
        return {INVOKE: f'{{"timeout":60.0{mode}}}', OK: f'{{"fence":{_FIRST},"valid_for":30.0}}'}.get(kind, "")
    if f == READ:
        return "" if kind != OK or nil else _FIRST
    return {WRITE: _FIRST, CAS: f"[{_FIRST},{_SECOND}]"}.get(f, "")


def _value_of_jepsen(f: int, kind: int, *, nil: bool) -> str:
    if f == ACQUIRE and kind == OK:
        return _FIRST
    if f == READ:
        return "nil" if kind != OK or nil else _FIRST
    return {WRITE: _FIRST, CAS: f"[{_FIRST} {_SECOND}]"}.get(f, "nil")
