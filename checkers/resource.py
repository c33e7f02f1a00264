"""Check what the lock protects: no lost update, no oversold stock, no money created (``LU``, the resource oracle).

No fault touches the resource, and it numbers the accesses that it accepts, so their order is known. Three models judge
them:

- A resource is a register, or a stock from which units are taken, or an order that is processed once. Its accesses must
  fit that in their order: a read returns the newest value, a unit is there before it is taken.
- A critical section is a transaction on these registers. The sections must have an order in which each happens at one
  instant (:mod:`.sections`). If they have none, the accesses that are in each other's way are named as a lost update
  and so on.
- A counter in the lock's own service is a number to which each addition adds one (:mod:`.additions`).

None of them knows what a section may write. That no money is made or lost is a property of the values, so the sums of
:mod:`.money` are judged besides.

Only accesses that surely happened count as evidence. An access whose answer was lost may have happened; it can only
excuse, unless a read shows that it did happen.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from harness.history import History

from .accesses import CODES, WRITES, Access, accesses, lost_accesses, sections
from .additions import additions, collisions, misread, unknown_additions
from .base import Json, Verdict, Violation, conclude, no_lock_taken, not_applicable
from .completed import too_few_completed
from .holds import Holds, holds
from .money import conserved
from .sections import Edge, Sections, critical_sections, explain
from .view import ADD, FAIL, INVOKE, NONE, TAKE, View, view

SHOWN: Final = 5
"""The most accesses that a violation shows."""


class ResourceChecker:
    """The resource shows no lost update, stale read, oversold stock, order processed twice or money created.

    - *lost-update*, *interleaved*: the critical sections have no order. Between the accepted read and the accepted
      write (or ``cas``) of a client (no new acquire between them), the resource accepted a write of another client. It
      is a lost update if that one was based on the same version or is itself a write without a read; otherwise (it had
      read an older version) interleaved. Also a lost update: two confirmed additions (``add``) that saw the same
      number, see :mod:`harness.checkers.additions`.
    - *stale-read*: a read returned neither the newest accepted value nor one that a write with a lost answer may have
      put there. An addition saw a number from before another one that was over when it began.
    - *never-written*: additions saw more numbers than there were additions.
    - *read-changed*: between two reads of a client in one shared section, the resource accepted a write of another.
    - *oversold*: more takes were accepted than the ``stock`` of the start entry.
    - *processed-twice*: of something that is to be processed once, more than one ``mark`` was accepted.
    - *money-made*, *money-lost*: what was grabbed of a packet and its rest are not what was in it: see
      :mod:`harness.checkers.money`, which tells of a packet in place of the interleaved writes.

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
        violations += [*collided, *(() if collided else misread(columns, added)), *money]
        for key, accepted in by_key.items():
            violations += _stale_reads(columns, accepted, lost.get(key, []))
            violations += _oversold(columns, key, accepted)
            violations += _processed_twice(columns, key, accepted)
        ordered = critical_sections(columns, by_key, lost, found)
        for key, some in ordered.items():
            if cycle := some.cycle():
                violations += _disorder(columns, key, cycle, some, found, {one.key for one in violations})
        unfinished = too_few_completed(found, by_key)
        if not (by_key or lost or len(columns.rows(ADD)) or unfinished):
            return not_applicable(history, "the workload touched no resource", stats={"accepted": 0})
        gone = sum(lost_updates(accepted, sections(found, key)) for key, accepted in by_key.items()) + len(collided)
        stats = {**_stats(columns, by_key, lost), "lost": gone}
        stats["updates"] = sum(stats["writes"].values()) + len(added)
        stats["accepted"] += len(added)
        stats["unknown"] += unknown_additions(columns)
        stats["sections"] = sum(len(some.sections) for some in ordered.values())
        fine = f"{stats['accepted']} accesses were in order"
        return conclude(history, violations, fine=fine, doubts=(_alone(history, columns), unfinished), stats=stats)


def _alone(history: History, columns: View) -> str | None:
    """Return a doubt if a run without locks, where no other checker sees it, had a single client."""
    if no_lock_taken(history) is None:
        return None
    rows = np.flatnonzero((columns.type == INVOKE) & np.isin(columns.f, (*CODES, ADD)))
    clients = np.unique(columns.client[rows])
    if len(clients) != 1:
        return None
    return f"only {columns.name(clients[0])} accessed the resource, so it was not contended"


def _disorder(
    columns: View, key: str, cycle: list[Edge], some: Sections, found: Holds, reported: set[str | None]
) -> list[Violation]:
    """Return the violations of critical sections on ``key`` that have no order, if nothing else was ``reported``."""
    registers = {name: [step.access for step in steps if not step.lost] for name, steps in some.steps.items()}
    if not reported.isdisjoint({key, *registers}):
        return []
    begun = sections(found, key)
    named = [
        violation
        for accepted in registers.values()
        for violation in (*_interleaved(columns, accepted, begun), *_changed(columns, accepted, begun))
    ]
    return named or [explain(columns, key, cycle)]


def _interleaved(columns: View, accepted: list[Access], begun: dict[int, list[int]]) -> Iterator[Violation]:
    """Yield each write that overwrote another client's write which its own client had not read."""
    versions: dict[int, int | None] = {}
    for update in _updates(accepted, begun):
        read, known, newest, write = update.read, update.known, update.newest, update.write
        versions[write.arrival] = update.version
        if read is not None and newest is not None and newest is not known and newest.client != write.client:
            yield _lost(columns, read, newest, write, versions)


@dataclass(frozen=True, slots=True)
class Update:
    """An accepted write, and what it is based on.

    ``read`` is its client's read in the same critical section (None: none), ``known`` the newest write that this read
    could see, and ``newest`` the newest write when this one arrived. ``version`` is the arrival of ``known``: -1 if
    there was no earlier write, None if there was no read.
    """

    write: Access
    read: Access | None
    known: Access | None
    newest: Access | None

    @property
    def version(self) -> int | None:
        return None if self.read is None else _arrival(self.known)


def _updates(accepted: list[Access], begun: dict[int, list[int]]) -> Iterator[Update]:
    """Yield the accepted writes with what they are based on, in arrival order."""
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
    """Count the accepted writes on which the last value is not based.

    This is how Jepsen's tests of locks count elements that a set has lost: an update that was overwritten, and whose
    overwriter was overwritten too, is in the value again and not lost.
    """
    version = {update.write.arrival: update.version for update in _updates(accepted, begun)}
    writes = 0
    at: int | None = max(version, default=NONE)
    while at is not None and at != NONE:
        writes, at = writes + 1, version[at]
    return len(version) - writes


def _arrival(write: Access | None) -> int:
    return NONE if write is None else write.arrival


def _same_section(begun: dict[int, list[int]], read: Access, write: Access) -> bool:
    """Return whether the client did not acquire the lock again between the read and the write."""
    grants = begun.get(read.client, [])
    return bisect(grants, read.invoke) == bisect(grants, write.invoke)


def _lost(columns: View, read: Access, other: Access, write: Access, versions: dict[int, int | None]) -> Violation:
    lost = versions[other.arrival] in (versions[write.arrival], None)
    one, two, at = columns.name(other.client), columns.name(write.client), columns.at
    effect = f"{one}'s update of {write.key} is lost" if lost else f"Critical sections interleaved on {write.key}"
    sentence = (
        f"{effect}: {two} read at {at(read.done_ns)} and wrote at {at(write.done_ns)}, and {one}'s write had been "
        f"accepted in between (accesses {read.arrival}, {other.arrival}, {write.arrival})"
    )
    involved = tuple(columns.call(access.invoke) for access in (read, other, write))
    kind = "lost-update" if lost else "interleaved"
    begun = min(other.done_ns, write.done_ns)  # from then on, the client's knowledge is out of date
    return Violation(kind, write.key, sentence, begun, write.done_ns, involved)


def _stale_reads(columns: View, accepted: list[Access], lost: list[int]) -> Iterator[Violation]:
    """Yield reads that no order of accepted and lost writes explains; a resource with takes has no register."""
    if any(access.f == "take" for access in accepted) or any(columns.f[index] == TAKE for index in lost):
        return
    newest: Access | None = None
    for access in accepted:
        if access.f in WRITES:
            newest = access
        elif newest is not None and access.value != newest.value and not _explained(columns, access, lost):
            yield _stale(columns, newest, access)


def _explained(columns: View, read: Access, lost: list[int]) -> bool:
    """Return whether a write with a lost answer, invoked before the read returned, may have written the value."""
    return any(
        columns.time[index] <= read.done_ns and (columns.value[index] or {}).get("value") == read.value
        for index in lost
    )


def _stale(columns: View, write: Access, read: Access) -> Violation:
    sentence = (
        f"{columns.name(read.client)} read a stale {read.value!r} from {read.key} at {columns.at(read.done_ns)}: "
        f"{columns.name(write.client)}'s write of {write.value!r} had been accepted before "
        f"(accesses {write.arrival}, {read.arrival})"
    )
    involved = (columns.call(write.invoke), columns.call(read.invoke))
    return Violation("stale-read", read.key, sentence, write.done_ns, read.done_ns, involved)


def _changed(columns: View, accepted: list[Access], begun: dict[int, list[int]]) -> Iterator[Violation]:
    """Yield each shared read that follows another client's write after an earlier read of the same critical section."""
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
        f"{read.key} changed during one critical section of {reader}, which read it at {at(read.done_ns)} and again at "
        f"{at(again.done_ns)}: {columns.name(write.client)}'s write was accepted in between "
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
        f"{len(takes)} units of {key} were sold, but only {stock} existed: {columns.name(first.client)} took the first "
        f"one too many at {columns.at(first.done_ns)}"
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
    """Return counts over all resources, and the final value of each register (of a counter: its number of writes)."""
    writes = {key: [access for access in accepted if access.f in WRITES] for key, accepted in by_key.items()}
    return {
        "accepted": sum(map(len, by_key.values())),
        "unknown": sum(map(len, lost.values())),
        "rejected": int((np.isin(columns.f, CODES) & (columns.type == FAIL)).sum()),
        "writes": {key: len(found) for key, found in writes.items()},
        "final": {key: found[-1].value for key, found in writes.items() if found},
    }
