"""A history as numpy columns, which most checkers read instead of its entries.

Strings become numbers. Each invocation is paired with its completion. Each entry has its *client*: the logical client,
which continues under a new process number after a call with an unknown outcome.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Final
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from harness.history import NEMESIS, SECOND, TYPES, History, HistoryError
from harness.history.clients import Event, take_over
from harness.wording import in_seconds, moment

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

INVOKE, OK, FAIL, INFO = range(len(TYPES))
ACQUIRE, EXTEND, CHECK, RELEASE, READ, WRITE, CAS, TAKE, MARK, ADD, CRASH, EXIT, OTHER = range(13)
CODES: Final = {
    "acquire": ACQUIRE,
    "extend": EXTEND,
    "check": CHECK,
    "release": RELEASE,
    "read": READ,
    "write": WRITE,
    "cas": CAS,
    "take": TAKE,
    "mark": MARK,
    "add": ADD,
    "crash": CRASH,
    "exit": EXIT,
}
NONE: Final = -1


class View:
    """The columns of one history; rows are its indices.

    ``time`` is in ns. ``type`` and ``f`` are the codes above, ``key`` is a number into ``keys`` (-1: none), ``client``
    a number into ``names``, and ``done`` the index of an invocation's completion (-1: it did not return). The nemesis
    has client -1. Raises :class:`HistoryError` for a completion without an invocation.
    """

    def __init__(self, history: History) -> None:
        # No reference to the history itself: the cache below is weak, and a reference from its values to its keys would
        # keep every history in memory.
        self.fs, self.value, self.error, self.node = history.f, history.value, history.error, history.node
        self.length = len(history)
        self.time: Ints = np.array(history.time, dtype=np.int64)
        self.process: Ints = np.array(history.process, dtype=np.int64)
        self.type = np.array(history.type, dtype=np.int8)
        self.f = np.fromiter(map(defaultdict(lambda: OTHER, CODES).__getitem__, history.f), np.int8, self.length)
        numbers: defaultdict[str | None, int] = defaultdict(lambda: len(numbers) - 1, {None: NONE})
        self.key: Ints = np.fromiter(map(numbers.__getitem__, history.key), np.int64, self.length)
        self.keys = [key for key in numbers if key is not None]
        self.done = self._completions()
        self.names, self.client = self._clients()
        self.origin = history.origin
        self.end = int(self.time.max()) if self.length else 0
        self.settings: dict[str, Any] = next((op.value or {} for op in history.nemesis("start")), {})

    def _completions(self) -> Ints:
        """Return, for each invocation, the next entry of its process: a process makes one call at a time."""
        order = np.argsort(self.process, kind="stable")
        done = np.full(self.length, NONE, dtype=np.int64)
        here, after = order[:-1], order[1:]
        same = (self.process[here] == self.process[after]) & (self.process[here] != NEMESIS)
        pair = same & (self.type[here] == INVOKE) & (self.type[after] != INVOKE)
        done[here[pair]] = after[pair]
        self._reject_strays(done)
        return done

    def _reject_strays(self, done: Ints) -> None:
        completion = (self.type != INVOKE) & (self.process != NEMESIS)
        completion[done[done != NONE]] = False
        calls = np.flatnonzero(done != NONE)
        wrong = done[calls[self.f[calls] != self.f[done[calls]]]]
        strays = np.concatenate((np.flatnonzero(completion), wrong))
        if len(strays):
            raise HistoryError(f"entry {strays[0]}: {self.fs[strays[0]]!r} completed but never invoked")

    def _clients(self) -> tuple[list[str], Ints]:
        """Return the names of the clients, and the client of each entry: see :func:`take_over`."""
        numbers, first, inverse = np.unique(self.process, return_index=True, return_inverse=True)
        node = self.node
        begun = zip(first.tolist(), numbers.tolist(), strict=True)
        events: list[Event] = [(i, "begin", p, node[i]) for i, p in begun if p != NEMESIS]
        retired = np.flatnonzero((self.type == INFO) & (self.f != READ) & (self.process != NEMESIS))
        events += [(i, "retire", int(self.process[i]), node[i]) for i in retired.tolist()]
        events += [(i, "crash", NEMESIS, node[i]) for i in self.deaths().tolist()]
        owner, names = take_over(sorted(events))
        table = np.array([owner.get(int(p), NONE) for p in numbers], dtype=np.int64)
        return names, table[inverse] if self.length else np.zeros(0, dtype=np.int64)

    def deaths(self) -> Ints:
        """Return the indices of the entries at which clients' processes ended: crashes, and the begin of exits."""
        return np.flatnonzero((self.f == CRASH) | (self.f == EXIT))

    def rows(self, f: int, kind: int | None = None) -> Ints:
        """Return the indices of the entries with code ``f`` (and type ``kind``), in order."""
        mask = self.f == f if kind is None else (self.f == f) & (self.type == kind)
        return np.flatnonzero(mask)

    def seconds(self, name: str, default: float | None = None) -> int | None:
        """Return a duration of the ``start`` entry, in ns; ``default`` is in seconds."""
        value = self.settings.get(name, default)
        return None if value is None else round(value * SECOND)

    def wake(self) -> int:
        """Return how long (ns) after a heal what a fault delayed may take effect: leases that began during it end after
        the ttl, and clients repeat requests whose answers were lost; the slack comes on top."""
        waits = max(self.seconds("ttl", 0.0) or 0, self.seconds("answer_timeout", 0.0) or 0)
        return waits + (self.seconds("slack", 1.0) or 0)

    def at(self, ns: int) -> str:
        """Return a time as text: seconds since the first entry."""
        return moment(int(ns), self.origin)

    @staticmethod
    def span(ns: int) -> str:
        """Return a duration as text: ``1 ns``, ``92 ms``, or ``1.250 s`` from one second on."""
        if ns >= SECOND:
            return in_seconds(ns)
        return f"{ns / 1e6:.3g} ms" if ns >= 1000 else f"{ns} ns"

    def name(self, client: int) -> str:
        return self.names[client]

    def idle(self, release: int) -> bool:
        """Return whether a release was made by a client that knew that it held nothing."""
        return bool((self.value[release] or {}).get("idle"))

    def call(self, index: int) -> dict[str, Any]:
        """Return the call invoked at ``index`` as plain data."""
        done = int(self.done[index])
        return {
            "f": self.fs[index],
            "key": self.keys[self.key[index]],
            "client": self.names[self.client[index]],
            "process": int(self.process[index]),
            "indices": [int(index)] if done == NONE else [int(index), done],
            "outcome": "info" if done == NONE else TYPES[self.type[done]],
            "from_ns": int(self.time[index]),
            "until_ns": None if done == NONE else int(self.time[done]),
            "invoked": self.value[index],
            "returned": None if done == NONE else self.value[done],
        }


_views: WeakKeyDictionary[History, View] = WeakKeyDictionary()


def view(history: History) -> View:
    """Return the columns of ``history``, computed once as long as it does not grow."""
    found = _views.get(history)
    if found is None or found.length != len(history):
        found = _views[history] = View(history)
    return found
