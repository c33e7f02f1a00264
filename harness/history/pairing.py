"""Entries become calls: each invocation with its completion, and each process with its client."""

from __future__ import annotations

from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from harness.compiled import compiled

from .calls import NEVER, NO_FENCE, NONE, Calls, Codes, Ints, Marks
from .clients import Event, take_over
from .entries import FAIL, INFO, INVOKE, OK, Block, Entries

FAILED: Final = 2
"""What ``known`` says of a call that failed, until it is left out."""
GRANTS: Final = ("fence", "lease", "good")


def paired(entries: Entries) -> Calls:
    """The calls of ``entries``, which are used up. Raises :class:`HistoryError` for a completion that its process did
    not invoke, and for an invocation while another one of its process is open."""
    rows = _Rows(grants=bool(entries.blocks) and entries.blocks[0].fence is not None)
    clients = _Clients(entries)
    opened = np.full(len(entries.processes), NONE, dtype=np.int64)
    origin = int(entries.blocks[0].time[0]) if entries.blocks else 0
    position = 0
    while entries.blocks:
        block = entries.blocks.popleft()
        clients.look(block, position)
        wrong = rows.add(block, opened, position)
        if wrong != NONE:
            raise entries.fault(int(block.line[wrong]), _what_is_wrong(entries, block, wrong, rows, opened))
        position += len(block)
    failed = rows.drop_failed()
    names, client = clients.found()
    numbers = np.array([*entries.processes.names, NONE], dtype=np.int64)
    keys = _keys(entries, rows)
    columns: dict[str, Any] = {name: column for name, column in rows.columns.items() if name != "process"}
    return Calls(
        fs=entries.fs.names,
        keys=keys,
        clients=names,
        process=numbers[rows.process],
        client=client[rows.process],
        failed=failed,
        entries=position,
        origin=origin,
        settings=entries.settings or {},
        complete=entries.complete,
        **columns,
    )


def _keys(entries: Entries, rows: _Rows) -> list[str]:
    """The names of the keys; calls without one are of the key that has an empty name."""
    keys: list[str] = entries.keys.names
    none = rows.columns["key"] == NONE
    if none.any():
        rows.columns["key"][none] = len(keys)
        keys.append("")
    return keys


def _what_is_wrong(entries: Entries, block: Block, at: int, rows: _Rows, opened: Ints) -> str:
    fs, process = entries.fs.names, block.process[at]
    f, row = fs[block.f[at]], opened[process]
    who = f"process {entries.processes.names[process]}"
    if block.kind[at] == INVOKE:
        return f"{who} invoked {f!r} while its {fs[rows.columns['f'][row]]!r} was open"
    return f"{who} completed {f!r} but never invoked it"


class _Rows:
    """The columns of :class:`Calls` as they grow, with no room to spare: growing moves pages, it copies nothing.
    ``process`` and ``client`` are one column here, of the processes' numbers in the list of their names."""

    def __init__(self, *, grants: bool) -> None:
        codes, ints, marks = np.int32, np.int64, np.int8
        kinds: dict[str, Any] = dict.fromkeys(("f", "key", "process", "argument", "result"), codes)
        kinds |= dict.fromkeys(("invoked", "returned", "began", "ended", "fence", "lease"), ints)
        kinds |= dict.fromkeys(("known", "good"), marks)
        self.columns: dict[str, npt.NDArray[Any]] = {name: np.empty(0, kind) for name, kind in kinds.items()}
        self.growing = [name for name in kinds if grants or name not in GRANTS]
        self.count = 0

    def add(self, block: Block, opened: Ints, position: int) -> int:
        """Take in ``block``, whose first entry is at ``position``; the row in it that cannot be, or NONE."""
        more = int(((block.kind == INVOKE) & (block.process != NONE)).sum())
        for name in self.growing:
            self.columns[name].resize(self.count + more, refcheck=False)
        self.count, wrong = _pair(
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

    def drop_failed(self) -> int:
        kept = self.columns["known"] != FAILED
        failed = len(kept) - int(kept.sum())
        for name in self.growing if failed else ():
            self.columns[name] = self.columns[name][kept]
        return failed

    @property
    def process(self) -> Codes:
        return self.columns["process"]


_EMPTY_CODES: Final[Codes] = np.empty(0, np.int32)
_EMPTY_MARKS: Final[Marks] = np.empty(0, np.int8)
_EMPTY_INTS: Final[Ints] = np.empty(0, np.int64)


@compiled
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
    """One loop over a block; ``opened`` is the row of each process's open call. Returns the number of rows by now
    and the entry that cannot be, or NONE."""
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
        if row == NONE or to_f[row] != f[i]:
            return count, i
        opened[p] = NONE
        if to_key[row] == NONE:
            to_key[row] = key[i]
        if kind[i] == FAIL:
            known[row] = FAILED
        elif kind[i] == OK:
            known[row], returned[row], ended[row] = 1, position + i, time[i]
            if len(value):
                result[row] = value[i]
            if len(to_fence):
                to_fence[row], to_lease[row], to_good[row] = fence[i], lease[i], good[i]
    return count, NONE


class _Clients:
    """What happened to processes, gathered for :func:`take_over`."""

    def __init__(self, entries: Entries) -> None:
        self.entries = entries
        self.numbers = entries.processes.names
        self.nodes = [*entries.nodes.names, None]
        self.read = entries.fs.get("read", NONE)
        self.crash = entries.fs.get("crash", NONE)
        self.events: list[Event] = []
        self.new = np.ones(len(entries.processes), dtype=np.bool_)
        self.new[list(entries.named)] = False

    def look(self, block: Block, position: int) -> None:
        process = block.process
        there = process != NONE
        entering = np.flatnonzero(self.new[process] & there)
        begun = entering[np.unique(process[entering], return_index=True)[1]]
        self.new[process[begun]] = False
        lost = np.flatnonzero((block.kind == INFO) & (block.f != self.read) & there)
        died = np.flatnonzero((block.f == self.crash) & ~there)
        found: list[Event] = [(position + row, "crash", NONE, self._host(block, row)) for row in died.tolist()]
        ends: tuple[tuple[Literal["begin", "retire"], Ints], ...] = (("begin", begun), ("retire", lost))
        for what, rows in ends:
            for row in rows.tolist():
                if process[row] not in self.entries.named:
                    found.append((position + row, what, self.numbers[process[row]], self._host(block, row)))
        self.events += sorted(found, key=lambda event: event[0])

    def _host(self, block: Block, row: int) -> str | None:
        node: str | None = self.nodes[block.node[row]]
        return node

    def found(self) -> tuple[list[str], Codes]:
        """The names of the clients, and the client of each process by its number in the list of names."""
        owner, names = take_over(self.events)
        client = np.array([owner.get(number, NONE) for number in [*self.numbers, NONE]], dtype=np.int32)
        numbers: dict[str, int] = {}
        for process, name in self.entries.named.items():
            if name not in numbers:
                numbers[name] = len(names)
                names.append(name)
            client[process] = numbers[name]
        return names, client
