"""Turn entries into calls: pair each invocation with its completion, and each process with its client."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from .calls import NEVER, NO_FENCE, NONE, REFUSED, Calls, Codes, Ints, Marks
from .clients import Event, distinct_names, take_over
from .compiled import compilable, fastest
from .entries import FAIL, INFO, INVOKE, OK, Block, Entries

FAILED: Final = 2
"""The mark of a failed call in ``known``, until failed calls are removed."""
RECORDING: Final = "recording"
"""The field of the ``start`` entry that recordings of applications have."""
GRANTS: Final = ("fence", "lease", "good")


def paired(entries: Entries, refusals: Collection[str] = ()) -> Calls:
    """Return the calls of ``entries``, and consume its blocks. Raises :class:`harness.history.HistoryError`."""
    pairing = Pairing(entries, sum(map(len, entries.blocks)), refusals)
    while entries.blocks:
        pairing.add(entries.blocks.popleft())
    return pairing.calls()


class Pairing:
    """Pair invocations with completions, block by block.

    ``entries`` has the names, which grow meanwhile. ``expected`` estimates the number of all entries; it only decides
    whether machine code pays. Failed calls of the functions ``refusals`` are kept.
    """

    def __init__(self, entries: Entries, expected: int = 0, refusals: Collection[str] = ()) -> None:
        self.entries = entries
        self._refusals = refusals
        self._expected = expected
        self._rows = _Rows()
        self._clients = _Clients(entries)
        self._opened: Ints = np.empty(0, dtype=np.int64)
        self._origin: int | None = None
        self._position = 0

    def add(self, block: Block) -> None:
        """Add the next entries.

        Raises :class:`harness.history.HistoryError` for a completion that its process did not invoke, and for an
        invocation while another call of its process is open.
        """
        if self._origin is None and len(block):
            self._origin = int(block.time[0])
        self._opened = _longer(self._opened, len(self.entries.processes.names), NONE)
        self._clients.look(block, self._position)
        pair = fastest(_pair, rows=max(self._expected, self._position + len(block)))
        wrong = self._rows.add(pair, block, self._opened, self._position)
        if wrong != NONE:
            raise self.entries.fault(int(block.line[wrong]), self._what_is_wrong(block, wrong))
        self._position += len(block)

    def calls(self) -> Calls:
        """Return all calls; call this after all entries have been added."""
        entries, rows = self.entries, self._rows
        for f in self._refusals:
            if f in entries.fs.names:
                rows.rename_failed(entries.fs.names.index(f), entries.fs[REFUSED + f])
        failed = rows.drop_failed()
        names, client = self._clients.found()
        numbers = np.array([*entries.processes.names, NONE], dtype=np.int64)
        keys = self._keys()
        columns: dict[str, Any] = dict(rows.columns)
        process = columns.pop("process")
        return Calls(
            fs=entries.fs.names,
            keys=keys,
            clients=names,
            process=numbers[process],
            client=client[process],
            failed=failed,
            entries=self._position,
            origin=self._origin or 0,
            settings=entries.settings or {},
            complete=entries.complete,
            **columns,
        )

    def _keys(self) -> list[str]:
        """Return the names of the keys; calls without a key have the key with the empty name."""
        keys: list[str] = self.entries.keys.names
        column = self._rows.columns["key"]
        none = column == NONE
        if none.any():
            column[none] = len(keys)
            keys.append("")
        return keys

    def _what_is_wrong(self, block: Block, at: int) -> str:
        fs, process = self.entries.fs.names, block.process[at]
        f, row = fs[block.f[at]], self._opened[process]
        number = self.entries.processes.names[process]
        who = f"process {self.entries.written.get(number, number)}"
        if block.kind[at] == INVOKE:
            return f"{who} invoked {f!r} while its {fs[self._rows.columns['f'][row]]!r} was open"
        return f"{who} completed {f!r} but never invoked it"


def _longer(column: npt.NDArray[Any], length: int, value: Any) -> npt.NDArray[Any]:
    more = length - len(column)
    return np.concatenate((column, np.full(more, value, dtype=column.dtype))) if more else column


class _Rows:
    """The columns of :class:`Calls` while they grow. They have no spare room: growing moves memory pages and copies
    nothing.

    ``process`` and ``client`` are one column here: numbers into the list of the processes' names.
    """

    def __init__(self) -> None:
        codes, ints, marks = np.int32, np.int64, np.int8
        kinds: dict[str, Any] = dict.fromkeys(("f", "key", "process", "argument", "result"), codes)
        kinds |= dict.fromkeys(("invoked", "returned", "began", "ended", "fence", "lease"), ints)
        kinds |= dict.fromkeys(("known", "good"), marks)
        self.columns: dict[str, npt.NDArray[Any]] = {name: np.empty(0, kind) for name, kind in kinds.items()}
        self.count = 0

    def add(self, pair: Callable[..., tuple[int, int]], block: Block, opened: Ints, position: int) -> int:
        """Add ``block``, whose first entry is at ``position``; return the row in it of an impossible entry, or NONE."""
        more = int(((block.kind == INVOKE) & (block.process != NONE)).sum())
        for name, column in self.columns.items():
            if block.fence is not None or name not in GRANTS:
                column.resize(self.count + more, refcheck=False)
        self.count, wrong = pair(
            (block.process, block.f, block.key, _EMPTY_CODES if block.value is None else block.value),
            (block.kind, _EMPTY_MARKS if block.good is None else block.good),
            (
                block.time,
                _EMPTY_INTS if block.fence is None else block.fence,
                _EMPTY_INTS if block.lease is None else block.lease,
            ),
            opened,
            position,
            self.count,
            tuple(self.columns[name] for name in ("process", "f", "key", "argument", "result")),
            tuple(self.columns[name] for name in ("known", "good")),
            tuple(self.columns[name] for name in ("invoked", "returned", "began", "ended", "fence", "lease")),
        )
        return int(wrong)

    def rename_failed(self, f: int, refused: int) -> None:
        """Turn failed calls of the function number ``f`` into calls that happened, of the function ``refused``."""
        kept = (self.columns["known"] == FAILED) & (self.columns["f"] == f)
        self.columns["f"][kept], self.columns["known"][kept] = refused, 1

    def drop_failed(self) -> int:
        kept = self.columns["known"] != FAILED
        failed = len(kept) - int(kept.sum())
        for name, column in self.columns.items():
            if failed and len(column):
                self.columns[name] = column[kept]
        return failed


_EMPTY_CODES: Final[Codes] = np.empty(0, np.int32)
_EMPTY_MARKS: Final[Marks] = np.empty(0, np.int8)
_EMPTY_INTS: Final[Ints] = np.empty(0, np.int64)


@compilable
def _pair(
    codes: tuple[Codes, ...],
    marks: tuple[Marks, ...],
    ints: tuple[Ints, ...],
    opened: Ints,
    position: int,
    count: int,
    to_codes: tuple[Codes, ...],
    to_marks: tuple[Marks, ...],
    to_ints: tuple[Ints, ...],
) -> tuple[int, int]:
    """Pair the entries of a block; ``opened`` is the row of the open call of each process.

    Returns the number of rows so far, and the impossible entry or NONE. An ``info`` of a process without an open call
    is about no call.
    """
    process, f, key, value = codes
    kind, good = marks
    time, fence, lease = ints
    to_process, to_f, to_key, argument, result = to_codes
    known, to_good = to_marks
    invoked, returned, began, ended, to_fence, to_lease = to_ints
    for i in range(len(process)):
        p = process[i]
        if p == NONE:
            continue
        row = opened[p]
        if kind[i] == INVOKE:
            if row != NONE:
                return count, i
            opened[p] = count
            to_process[count], to_f[count], to_key[count] = p, f[i], key[i]
            invoked[count], began[count] = position + i, time[i]
            returned[count], ended[count] = NEVER, NEVER
            known[count] = 0
            argument[count] = value[i] if len(value) else NONE
            result[count] = NONE
            if len(to_fence):
                to_fence[count], to_lease[count], to_good[count] = NO_FENCE, NEVER, NONE
            count += 1
            continue
        if row == NONE and kind[i] == INFO:
            continue
        if row == NONE or to_f[row] != f[i]:
            return count, i
        opened[p] = NONE
        if to_key[row] == NONE:
            to_key[row] = key[i]
        if kind[i] == FAIL:
            known[row], returned[row], ended[row] = FAILED, position + i, time[i]
        elif kind[i] == OK:
            known[row], returned[row], ended[row] = 1, position + i, time[i]
            if len(value):
                result[row] = value[i]
            if len(to_fence):
                to_fence[row], to_lease[row], to_good[row] = fence[i], lease[i], good[i]
    return count, NONE


class _Clients:
    """Collects the events of processes for :func:`take_over`."""

    def __init__(self, entries: Entries) -> None:
        self.entries = entries
        self.events: list[Event] = []
        self.new: npt.NDArray[np.bool_] = np.empty(0, dtype=np.bool_)

    def look(self, block: Block, position: int) -> None:
        fs, numbers, process = self.entries.fs, self.entries.processes.names, block.process
        self.new = _longer(self.new, len(numbers), value=True)
        there = process != NONE
        entering = np.flatnonzero(there)
        entering = entering[self.new[process[entering]]]
        begun = entering[np.unique(process[entering], return_index=True)[1]]
        self.new[process[begun]] = False
        if RECORDING in (self.entries.settings or {}):  # a client of a recording may use several processes at a time
            self.entries.named |= {int(process[row]): self._host(block, row) or "" for row in begun.tolist()}
        lost = np.flatnonzero((block.kind == INFO) & (block.f != fs.get("read", NONE)) & there)
        died = np.flatnonzero((block.f == fs.get("crash", NONE)) & ~there)
        found: list[Event] = [(position + row, "crash", NONE, self._host(block, row)) for row in died.tolist()]
        ends: tuple[tuple[Literal["begin", "retire"], Ints], ...] = (("begin", begun), ("retire", lost))
        for what, rows in ends:
            for row in rows.tolist():
                if process[row] not in self.entries.named:
                    found.append((position + row, what, numbers[process[row]], self._host(block, row)))
        self.events += sorted(found, key=lambda event: event[0])

    def _host(self, block: Block, row: int) -> str | None:
        if block.node[row] != NONE:
            node: str = self.entries.nodes.names[block.node[row]]
            return node
        process = self.entries.processes.names[block.process[row]] if block.process[row] != NONE else NONE
        return f"process {self.entries.written[process]}" if process in self.entries.written else None

    def found(self) -> tuple[list[str], Codes]:
        """Return the names of the clients, and the client of each process by its number in the list of names."""
        processes, written = self.entries.processes.names, self.entries.written
        owner, hosts = take_over(self.events)
        first: dict[int, int] = {}
        for process, number in owner.items():
            first.setdefault(number, process)
        names = [(host, str(written.get(first[number], first[number]))) for number, host in enumerate(hosts)]
        client = np.array([owner.get(number, NONE) for number in [*processes, NONE]], dtype=np.int32)
        numbers: dict[str, int] = {}
        for code, name in self.entries.named.items():
            if name not in numbers:
                numbers[name] = len(names)
                names.append((name, str(written.get(processes[code], processes[code]))))
            client[code] = numbers[name]
        return distinct_names(names), client
