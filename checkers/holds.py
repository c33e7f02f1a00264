"""Compute holds: the times in which clients believed that they held a lock, as ``docs/histories.md`` defines them.

A hold begins at the ``ok`` of an acquire. It ends at the first of: the invocation of its release; the completion of a
check or extend that says it is lost; for checking clients, the end of ``valid_for``; the end of ``relies_for``; a crash
of the client's host; the ``exit`` of its process; the end of the history. An acquire by a client that already holds the
key is nested: the hold then needs one more release, and may last longer. A hold is shared if the acquire that began it
was shared. An acquire with an unknown outcome makes no hold, since it may have failed, and a checker accuses no client
on a guess.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final
from weakref import WeakKeyDictionary

import numpy as np

from harness.history import SECOND, History

from .view import ACQUIRE, CHECK, CRASH, EXIT, EXTEND, INVOKE, NONE, OK, RELEASE, Bools, Ints, View, view

ENDINGS: Final = ("open", "released", "lost", "expired", "crashed", "exited")
OPEN, RELEASED, LOST, EXPIRED, CRASHED, EXITED = range(len(ENDINGS))
DIED: Final = (CRASHED, EXITED)
"""Endings of holds whose client's process died or began to exit."""
FOREVER: Final = 2**62
"""The lease end (ns) of a grant without a lease."""
_NOTHING: Final[dict[str, Any]] = {}


@dataclass(frozen=True, slots=True)
class Hold:
    """One hold. Times are in ns; ``lease_end_ns`` is None without a lease.

    ``acquire``, ``grant`` and ``release`` are indices of the acquire's invocation, of its ok, and of the release's
    invocation (-1: there is none).
    """

    client: str
    process: int
    key: str
    start_ns: int
    end_ns: int
    fence: int | str | None
    lease_end_ns: int | None
    acquire: int
    grant: int
    release: int
    ended: str
    shared: bool = False
    """True if other shared holds may overlap it."""

    def to_json(self) -> dict[str, Any]:
        """Return the hold as plain data, in the form of every hold in evidence."""
        mode = {"shared": True} if self.shared else {}
        return {
            "f": "hold",
            "client": self.client,
            "process": self.process,
            "key": self.key,
            "from_ns": self.start_ns,
            "until_ns": self.end_ns,
            "fence": self.fence,
            "lease_end_ns": self.lease_end_ns,
            "ended": self.ended,
            "indices": [index for index in (self.acquire, self.grant, self.release) if index != NONE],
            **mode,
        }


class Holds(Sequence[Hold]):
    """All holds of a history in the order of their grants, by column. Indexing creates a :class:`Hold`.

    ``client`` and ``key`` are the numbers of :class:`View`. ``nested`` has the indices of the grants that began no
    hold, and ``shared`` says which holds are shared. ``requested_ns`` and ``given`` are the times (ns) of the call for
    the lease: the acquire, or the last nested acquire or successful extend. ``nests`` marks the holds with a nested
    acquire. ``stated_end`` is ``lease_end``, and for grants that do not say their lease, the end of the lease in the
    ``start`` entry, if the lock states one there, and no nested acquire may have changed it.
    """

    def __init__(self, columns: View, rows: _Rows) -> None:
        self.view = columns
        self.grant = np.array(rows.grant, dtype=np.int64)
        self.release = np.array(rows.release, dtype=np.int64)
        self.ended = np.array(rows.ended, dtype=np.int8)
        self.end = np.array(rows.end, dtype=np.int64)
        self.lease_end = np.array(rows.lease, dtype=np.int64)
        self.nested = np.array(rows.nested, dtype=np.int64)
        self.nests: Bools = np.array(rows.nests, dtype=bool)
        self.shared: Bools = np.array([is_shared(columns, grant) for grant in rows.grant], dtype=bool)
        basis = np.array(rows.basis, dtype=np.int64)
        self.start: Ints = columns.time[self.grant]
        self.client: Ints = columns.client[self.grant]
        self.key: Ints = columns.key[self.grant]
        begun = np.full(columns.length, NONE, dtype=np.int64)
        invoked = np.flatnonzero(columns.done != NONE)
        begun[columns.done[invoked]] = invoked
        self.acquire: Ints = begun[self.grant]
        self.requested_ns: Ints = columns.time[begun[basis]]
        self.given: Ints = columns.time[basis]
        self.stated_end: Ints = self._stated_end()

    def _stated_end(self) -> Ints:
        stated = self.view.seconds("lease")
        if stated is None:
            return self.lease_end
        unsaid = (self.lease_end == FOREVER) & ~self.nests
        return np.where(unsaid, self.given + stated, self.lease_end)

    def __len__(self) -> int:
        return len(self.grant)

    def __getitem__(self, row: Any) -> Any:
        if isinstance(row, slice):
            return [self[i] for i in range(*row.indices(len(self)))]
        columns, grant = self.view, int(self.grant[row])
        lease = int(self.lease_end[row])
        return Hold(
            client=columns.names[self.client[row]],
            process=int(columns.process[grant]),
            key=columns.keys[self.key[row]],
            start_ns=int(self.start[row]),
            end_ns=int(self.end[row]),
            fence=(columns.value[grant] or {}).get("fence"),
            lease_end_ns=None if lease == FOREVER else lease,
            acquire=int(self.acquire[row]),
            grant=grant,
            release=int(self.release[row]),
            ended=ENDINGS[self.ended[row]],
            shared=bool(self.shared[row]),
        )

    def __iter__(self) -> Iterator[Hold]:
        return (self[row] for row in range(len(self)))


def is_shared(columns: View, index: int) -> bool:
    """Return whether the acquire at this entry is shared."""
    return bool((columns.value[index] or _NOTHING).get("shared"))


class _Rows:
    """The holds found so far, in the order of events; ``slot`` is client and key in one number."""

    def __init__(self, *, checking: bool) -> None:
        self.checking = checking
        self.grant: list[int] = []
        self.release: list[int] = []
        self.ended: list[int] = []
        self.end: list[int] = []
        self.lease: list[int] = []
        self.belief: list[int] = []
        self.nested: list[int] = []
        self.basis: list[int] = []
        self.promise: list[int] = []
        self.nests: list[bool] = []
        self.now: dict[int, int] = {}
        self.last: dict[int, int] = {}
        self.depth: dict[int, int] = {}

    def granted(self, slot: int, index: int, time: int, promise: int, relies: int = FOREVER) -> None:
        """Begin a hold, or nest in one. ``promise`` is the grant's ``valid_for`` in ns, which may be negative, and
        ``relies`` its ``relies_for``; FOREVER without one."""
        if slot in self.now and not self.expired(slot, time):
            self.depth[slot] = self.depth.get(slot, 0) + 1
            self.nested.append(index)
            self.nests[self.now[slot]] = True
            self._renew(self.now[slot], index, time, promise)
            return
        until = FOREVER if promise == FOREVER else time + promise
        self.now[slot] = self.last[slot] = len(self.grant)
        self.grant.append(index)
        self.basis.append(index)
        self.release.append(NONE)
        self.ended.append(OPEN)
        self.end.append(FOREVER)
        self.lease.append(until)
        belief = max(until, time) if self.checking else FOREVER
        self.belief.append(min(belief, FOREVER if relies == FOREVER else time + relies))
        self.promise.append(promise)
        self.nests.append(False)

    def _renew(self, row: int, index: int, time: int, promise: int) -> None:
        """Extend a hold by a nested grant, which states the remaining time; it never shortens the lease."""
        if FOREVER not in (promise, self.lease[row]):
            self.promise[row], self.basis[row] = promise, index
            self.lease[row] = max(self.lease[row], time + promise)
            if self.checking:
                self.belief[row] = max(self.belief[row], time + promise)

    def expired(self, slot: int, time: int) -> bool:
        """End the hold if the client stopped relying on it before ``time``; return whether it did."""
        row = self.now[slot]
        if self.belief[row] > time:
            return False
        self.finish(slot, self.belief[row], EXPIRED)
        return True

    def finish(self, slot: int, time: int, how: int) -> None:
        row = self.now.pop(slot)
        self.end[row], self.ended[row] = time, how
        if self.depth:
            self.depth.pop(slot, None)

    def released(self, slot: int, index: int, time: int) -> None:
        row = self.now.get(slot)
        if row is None or self.expired(slot, time):
            self._release_late(slot, index)
        elif self.depth and self.depth.get(slot):
            self.depth[slot] -= 1
        else:
            self.release[row] = index
            self.finish(slot, time, RELEASED)

    def _release_late(self, slot: int, index: int) -> None:
        """Record a release after the client stopped relying on the hold: the hold is over, but this is its release."""
        row = self.last.get(slot)
        if row is not None and self.release[row] == NONE:
            self.release[row] = index

    def told(self, slot: int, index: int, time: int, *, good: bool, renews: bool, relies: int | None = None) -> None:
        """Process the answer to a check or extend. Success proves the lease up to now; only a successful extend
        prolongs it. ``relies`` is the answer's ``relies_for`` in ns."""
        if slot not in self.now or self.expired(slot, time):
            return
        row = self.now[slot]
        if not good:
            self.finish(slot, time, LOST)
            return
        if renews:
            self.basis[row] = index
        if self.promise[row] != FOREVER:
            self.lease[row] = max(self.lease[row], time + (self.promise[row] if renews else 0))
            if self.checking:
                self.belief[row] = time + self.promise[row]
        if relies is not None:
            self.belief[row] = time + relies

    def close(self, end: int) -> None:
        """End the remaining holds at the end of the history, or earlier where the client stopped relying on them."""
        for slot, row in list(self.now.items()):
            if not self.expired(slot, end):
                self.end[row] = end


def holds(history: History) -> Holds:
    """Return the definite holds of ``history``, computed once as long as it does not grow.

    A hold of a ``checking`` client lasts ``valid_for`` after the ok of the acquire, or of the last successful extend or
    check. A hold with ``relies_for`` lasts for that time after the ok of the acquire, or of the last extend with it.
    """
    found = _cache.get(history)
    if found is None or found.view.length != len(history):
        found = _cache[history] = _build(view(history))
    return found


def nested_calls(found: Holds) -> list[tuple[int, int]]:
    """Return the row of the hold and the invocation of each acquire by a client that held the key when it requested
    it."""
    columns = found.view
    keys, width = max(1, len(columns.keys)), columns.length + 1
    acquires = columns.rows(ACQUIRE, INVOKE)
    begun = (found.client * keys + found.key) * width + found.grant
    order = np.argsort(begun, kind="stable")
    wanted = (columns.client[acquires] * keys + columns.key[acquires]) * width + acquires
    at = np.searchsorted(begun[order], wanted) - 1
    if not len(order):
        return []
    row = order[np.maximum(at, 0)]
    same = (at >= 0) & (found.client[row] == columns.client[acquires]) & (found.key[row] == columns.key[acquires])
    inside = same & (columns.time[acquires] < found.end[row])
    return list(zip(row[inside].tolist(), acquires[inside].tolist(), strict=True))


_cache: WeakKeyDictionary[History, Holds] = WeakKeyDictionary()


def _build(columns: View) -> Holds:
    rows = _Rows(checking=columns.settings.get("discipline") == "checking")
    events = _events(columns)
    codes, times = columns.f[events].tolist(), columns.time[events].tolist()
    slots = (columns.client[events] * max(1, len(columns.keys)) + columns.key[events]).tolist()
    value = columns.value
    granted, released = rows.granted, rows.released
    for index, code, slot, time in zip(events.tolist(), codes, slots, times, strict=True):
        if code == ACQUIRE:
            said = value[index] or _NOTHING
            seconds, relies = said.get("valid_for"), said.get("relies_for")
            granted(slot, index, time, *(FOREVER if it is None else int(it * SECOND) for it in (seconds, relies)))
        elif code == RELEASE:
            released(slot, index, time)
        elif code in (CRASH, EXIT):
            how = CRASHED if code == CRASH else EXITED
            _die(columns, rows, (value[index] or _NOTHING).get("host"), time, how)
        else:
            said = value[index] or _NOTHING
            good, relies = said.get("extended" if code == EXTEND else "valid"), said.get("relies_for")
            rows.told(
                slot,
                index,
                time,
                good=good is not False,
                renews=code == EXTEND,
                relies=None if relies is None else int(relies * SECOND),
            )
    rows.close(columns.end)
    return Holds(columns, rows)


def _events(columns: View) -> Ints:
    """Return the entries that begin, prolong or end a hold."""
    f, ok = columns.f, columns.type == OK
    wanted = (f == ACQUIRE) & ok
    wanted |= (f == RELEASE) & (columns.type == 0)
    wanted |= ((f == CHECK) | (f == EXTEND)) & ok
    wanted |= (f == CRASH) | (f == EXIT)
    return np.flatnonzero(wanted)


def _die(columns: View, rows: _Rows, host: str | None, time: int, how: int) -> None:
    width = max(1, len(columns.keys))
    for slot in [slot for slot in rows.now if columns.names[slot // width] == host]:
        if not rows.expired(slot, time):
            rows.finish(slot, time, how)
