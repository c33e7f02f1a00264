"""A history as numpy columns: what the checkers share.

Codes instead of strings, each invocation with its completion, and each entry with its *client*: the logical one,
which goes on under a new process number when the outcome of a call is unknown.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Final
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from harness.history import NEMESIS, SECOND, TYPES, History, HistoryError
from harness.history.clients import Event, take_over

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

INVOKE, OK, FAIL, INFO = range(len(TYPES))
ACQUIRE, EXTEND, CHECK, RELEASE, READ, WRITE, CAS, TAKE, MARK, ADD, CRASH, OTHER = range(12)
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
}
NONE: Final = -1


class View:
    """The columns of one history; rows are its indices.

    ``time`` ns, ``type`` and ``f`` the codes above, ``key`` a number into ``keys`` (-1: none), ``client`` a number
    into ``names`` and ``done`` the index of an invocation's completion (-1: it never came back). The nemesis has
    client -1. Raises :class:`HistoryError` for a completion that nobody invoked.
    """

    def __init__(self, history: History) -> None:
        # Not the history itself: the cache below is weak, and a reference from its values to its keys would defeat
        # it.
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
        """For each invocation the next entry of its process: processes do one thing at a time."""
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
        """The names of the clients, and whose each entry is: see :func:`take_over`."""
        numbers, first, inverse = np.unique(self.process, return_index=True, return_inverse=True)
        node = self.node
        begun = zip(first.tolist(), numbers.tolist(), strict=True)
        events: list[Event] = [(i, "begin", p, node[i]) for i, p in begun if p != NEMESIS]
        retired = np.flatnonzero((self.type == INFO) & (self.f != READ) & (self.process != NEMESIS))
        events += [(i, "retire", int(self.process[i]), node[i]) for i in retired.tolist()]
        events += [(i, "crash", NEMESIS, node[i]) for i in self.rows(CRASH).tolist()]
        owner, names = take_over(sorted(events))
        table = np.array([owner.get(int(p), NONE) for p in numbers], dtype=np.int64)
        return names, table[inverse] if self.length else np.zeros(0, dtype=np.int64)

    def rows(self, f: int, kind: int | None = None) -> Ints:
        """The indices of the entries with code ``f`` (and type ``kind``), in order."""
        mask = self.f == f if kind is None else (self.f == f) & (self.type == kind)
        return np.flatnonzero(mask)

    def seconds(self, name: str, default: float | None = None) -> int | None:
        """A duration of the ``start`` entry, in ns; ``default`` is in seconds."""
        value = self.settings.get(name, default)
        return None if value is None else round(value * SECOND)

    def at(self, ns: int) -> str:
        """A time for people: seconds since the first entry."""
        return f"{(int(ns) - self.origin) / SECOND:.3f} s"

    def name(self, client: int) -> str:
        return self.names[client]

    def call(self, index: int) -> dict[str, Any]:
        """The call invoked at ``index`` as plain data."""
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
    """The columns of ``history``, made once as long as it does not grow."""
    found = _views.get(history)
    if found is None or found.length != len(history):
        found = _views[history] = View(history)
    return found
