"""What the lock protects came to no harm (the resource-level oracle, ``LU``): no lost update, no oversold stock, no
money made.

The resource is never faulted and numbers what it accepted, so order is known. Only accesses that surely happened are
accused; one whose answer was lost may have happened, and is used only to excuse.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from checkers.accesses import CODES, WRITES, Access, accesses, lost_accesses, sections
from checkers.additions import additions, collisions, unknown_additions
from checkers.base import Json, Verdict, Violation, conclude
from checkers.holds import holds
from checkers.money import conserved
from checkers.view import ADD, FAIL, NONE, TAKE, View, view
from harness.history import History

SHOWN: Final = 5
"""How many steps a violation has at most."""


class Resource:
    """What the lock protects comes to no harm: no lost update, no stale read, no oversold stock, no order done twice,
    no money made.

    - *lost-update*, *interleaved*: between the accepted read and the accepted write (or ``cas``) of a client (no new
      acquire between them), the resource accepted a write of another client. It is a lost update if that one was based
      on the same version or is itself a write without a read; otherwise (it had read an older version) interleaved.
      Also a lost update: two confirmed additions (``add``) that saw the same number, see :mod:`checkers.additions`.
    - *stale-read*: a read returned neither the newest accepted value nor one that a write with a lost answer may have
      put there.
    - *read-changed*: between two reads of a client in one shared section, the resource accepted a write of another.
    - *oversold*: more takes were accepted than the ``stock`` of the start entry.
    - *processed-twice*: of something that is to be processed once, more than one ``mark`` was accepted.
    - *money-made*, *money-lost*: what was grabbed of a packet and its rest are not what was in it: see
      :mod:`checkers.money`, which tells of a packet in place of the interleaved writes.

    Accesses with lost answers cannot heal any of these: whether or not they were applied, the accepted ones arrived
    in that order, and a stock sold more often than it has units is oversold.
    """

    name = "resource"

    def check(self, history: History) -> Verdict:
        columns, found = view(history), holds(history)
        by_key = accesses(columns)
        lost = lost_accesses(columns)
        violations: list[Violation] = []
        added = additions(columns)
        collided = list(collisions(columns, added))
        money = conserved(columns, by_key, lost)
        told = {violation.key for violation in money}
        violations += [*collided, *money]
        for key, accepted in by_key.items():
            if key not in told:
                violations += _interleaved(columns, accepted, sections(found, key))
            violations += _stale_reads(columns, accepted, lost.get(key, []))
            violations += _changed(columns, accepted, sections(found, key))
            violations += _oversold(columns, key, accepted)
            violations += _processed_twice(columns, key, accepted)
        if not (by_key or lost or len(columns.rows(ADD))):
            return conclude(history, [], fine="not applicable: the workload touched no resource", stats={"accepted": 0})
        gone = sum(lost_updates(accepted, sections(found, key)) for key, accepted in by_key.items()) + len(collided)
        stats = {**_stats(columns, by_key, lost), "lost": gone}
        stats["updates"] = sum(stats["writes"].values()) + len(added)
        stats["accepted"] += len(added)
        stats["unknown"] += unknown_additions(columns)
        return conclude(history, violations, fine=f"{stats['accepted']} accesses were in order", stats=stats)


def _interleaved(columns: View, accepted: list[Access], begun: dict[int, list[int]]) -> Iterator[Violation]:
    """Each write before which another client's was accepted that its own client had not seen."""
    versions: dict[int, int | None] = {}
    for update in _updates(accepted, begun):
        read, known, newest, write = update.read, update.known, update.newest, update.write
        versions[write.arrival] = update.version
        if read is not None and newest is not None and newest is not known and newest.client != write.client:
            yield _lost(columns, read, newest, write, versions)


@dataclass(frozen=True, slots=True)
class Update:
    """An accepted write; the read that it rests on (of the same section, else None), the write that was newest to its
    client (``known``), and the one that was newest when it came. ``version`` is the arrival of ``known``, -1 if there
    had been none, None if it rests on nothing."""

    write: Access
    read: Access | None
    known: Access | None
    newest: Access | None

    @property
    def version(self) -> int | None:
        return None if self.read is None else _arrival(self.known)


def _updates(accepted: list[Access], begun: dict[int, list[int]]) -> Iterator[Update]:
    """``seen`` has, by client, its last read and the write that was newest to it then (or its own,
    once it has written)."""
    newest: Access | None = None
    seen: dict[int, tuple[Access, Access | None]] = {}
    for access in accepted:
        if access.f == "read":
            seen[access.client] = (access, newest)
        elif access.f in WRITES:
            read, known = seen.get(access.client, (None, None))
            based = read is not None and _same_section(begun, read, access)
            yield Update(access, read if based else None, known if based else None, newest)
            if read is not None and based:
                seen[access.client] = (read, access)
            newest = access


def lost_updates(accepted: list[Access], begun: dict[int, list[int]]) -> int:
    """How many accepted writes the last value does not rest on, as the elements that a set has lost in Jepsen's tests
    of locks: an update that is overwritten and comes back, since who overwrote it is overwritten too, is not lost."""
    version = {update.write.arrival: update.version for update in _updates(accepted, begun)}
    kept = 0
    at: int | None = max(version, default=NONE)
    while at is not None and at != NONE:
        kept, at = kept + 1, version[at]
    return len(version) - kept


def _arrival(write: Access | None) -> int:
    return NONE if write is None else write.arrival


def _same_section(begun: dict[int, list[int]], read: Access, write: Access) -> bool:
    """Whether the client did not acquire the lock anew between the read and the write."""
    grants = begun.get(read.client, [])
    return bisect(grants, read.invoke) == bisect(grants, write.invoke)


def _lost(columns: View, read: Access, other: Access, write: Access, versions: dict[int, int | None]) -> Violation:
    lost = versions[other.arrival] in (versions[write.arrival], None)
    one, two, at = columns.name(other.client), columns.name(write.client), columns.at
    effect = f"{one}'s update is lost" if lost else "the two critical sections are interleaved"
    sentence = (
        f"{two} wrote {write.key} at {at(write.done_ns)} on the strength of what it had read at {at(read.done_ns)}, "
        f"but {one}'s write had been accepted in between: {effect} "
        f"(accesses {read.arrival}, {other.arrival}, {write.arrival})"
    )
    involved = tuple(columns.call(access.invoke) for access in (read, other, write))
    kind = "lost-update" if lost else "interleaved"
    begun = min(other.done_ns, write.done_ns)  # from then on what the client knows is not so any more
    return Violation(kind, write.key, sentence, begun, write.done_ns, involved)


def _stale_reads(columns: View, accepted: list[Access], lost: list[int]) -> Iterator[Violation]:
    """Reads that no order of the accepted writes and the lost ones explains; a resource with takes has no register."""
    if any(access.f == "take" for access in accepted) or any(columns.f[index] == TAKE for index in lost):
        return
    newest: Access | None = None
    for access in accepted:
        if access.f in WRITES:
            newest = access
        elif newest is not None and access.value != newest.value and not _explained(columns, access, lost):
            yield _stale(columns, newest, access)


def _explained(columns: View, read: Access, lost: list[int]) -> bool:
    """Whether a write with a lost answer, begun before the read was over, may have put the value there."""
    return any(
        columns.time[index] <= read.done_ns and (columns.value[index] or {}).get("value") == read.value
        for index in lost
    )


def _stale(columns: View, write: Access, read: Access) -> Violation:
    sentence = (
        f"{columns.name(read.client)} read {read.value!r} from {read.key} at {columns.at(read.done_ns)}, after "
        f"{columns.name(write.client)}'s write of {write.value!r} had been accepted "
        f"(accesses {write.arrival}, {read.arrival})"
    )
    involved = (columns.call(write.invoke), columns.call(read.invoke))
    return Violation("stale-read", read.key, sentence, write.done_ns, read.done_ns, involved)


def _changed(columns: View, accepted: list[Access], begun: dict[int, list[int]]) -> Iterator[Violation]:
    """Each shared read before which another client's write was accepted, after a read of the same section."""
    last: dict[int, tuple[Access, Access | None]] = {}
    newest: Access | None = None
    for access in accepted:
        if access.f in WRITES:
            newest = access
        elif access.f == "read" and access.shared:
            read, known = last.get(access.client, (access, newest))
            foreign = newest is not None and newest is not known and newest.client != access.client
            if foreign and newest is not None and _same_section(begun, read, access):
                yield _moved(columns, read, newest, access)
            last[access.client] = (access, newest)


def _moved(columns: View, read: Access, write: Access, again: Access) -> Violation:
    reader, at = columns.name(again.client), columns.at
    sentence = (
        f"{reader} read {read.key} at {at(read.done_ns)} and again at {at(again.done_ns)} in one section, but "
        f"{columns.name(write.client)}'s write had been accepted in between: what it saw changed under it "
        f"(accesses {read.arrival}, {write.arrival}, {again.arrival})"
    )
    involved = tuple(columns.call(access.invoke) for access in (read, write, again))
    return Violation("read-changed", read.key, sentence, write.done_ns, again.done_ns, involved)


def _oversold(columns: View, key: str, accepted: list[Access]) -> Iterator[Violation]:
    stock = (columns.settings.get("stock") or {}).get(key)
    takes = [access for access in accepted if access.f == "take"]
    if not isinstance(stock, int) or len(takes) <= stock:
        return
    first = takes[stock]
    sentence = (
        f"{key} had {stock} units and {len(takes)} were sold: the first too many by "
        f"{columns.name(first.client)} at {columns.at(first.done_ns)}"
    )
    involved = tuple(columns.call(access.invoke) for access in takes[stock : stock + SHOWN])
    yield Violation("oversold", key, sentence, first.done_ns, takes[-1].done_ns, involved)


def _processed_twice(columns: View, key: str, accepted: list[Access]) -> Iterator[Violation]:
    done = [access for access in accepted if access.f == "mark"]
    if len(done) <= 1:
        return
    by = " and ".join(f"by {columns.name(access.client)} at {columns.at(access.done_ns)}" for access in done[:SHOWN])
    times = "twice" if len(done) == 2 else f"{len(done)} times"
    more = ", and so on" if len(done) > SHOWN else ""
    arrivals = ", ".join(str(access.arrival) for access in done[:SHOWN])
    sentence = f"{key} was processed {times}: {by}{more} (accesses {arrivals})"
    involved = tuple(columns.call(access.invoke) for access in done[:SHOWN])
    yield Violation("processed-twice", key, sentence, done[1].done_ns, done[-1].done_ns, involved)


def _stats(columns: View, by_key: dict[str, list[Access]], lost: dict[str, list[int]]) -> Json:
    """Counts over all resources, and the final value of each register: with counters, compare it with its writes."""
    writes = {key: [access for access in accepted if access.f in WRITES] for key, accepted in by_key.items()}
    return {
        "accepted": sum(map(len, by_key.values())),
        "unknown": sum(map(len, lost.values())),
        "rejected": int((np.isin(columns.f, CODES) & (columns.type == FAIL)).sum()),
        "writes": {key: len(found) for key, found in writes.items()},
        "final": {key: found[-1].value for key, found in writes.items() if found},
    }
