"""Judge additions (``add``) to a counter in the lock's own service, each of which adds one.

The number says in which order additions took effect: an addition that saw a higher number came later. So two confirmed
additions never see the same number (the update of one is lost), an addition that begins after another one is over sees
what that one wrote, and the numbers that nobody is known to have written are no more than the additions of unknown
outcome. If so, the order of the numbers is one that the counter allows: this decides it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .base import Violation
from .view import ACQUIRE, ADD, FAIL, INFO, INVOKE, NONE, OK, RELEASE, View

Slot = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Addition:
    """A confirmed addition; ``invoke`` is its index, times are in ns. ``over`` is the index of the return of the
    release, by which its transaction had ended."""

    key: str
    client: int
    invoke: int
    over: int
    done_ns: int
    seen: int
    written: int


def additions(columns: View) -> list[Addition]:
    """Return the confirmed additions, by time of confirmation.

    The transaction of an addition may stay open until the lock is released. If the release has an unknown outcome, or
    if there is none (a crash, the end of the run), the transaction may have been rolled back; such additions are left
    out.
    """
    ended = _released_sections(columns)
    found = []
    for index, over in ended.items():
        done = int(columns.done[index])
        if done != NONE and columns.type[done] == OK:
            value = columns.value[done]
            key, client = columns.keys[columns.key[index]], int(columns.client[index])
            found.append(Addition(key, client, index, over, int(columns.time[done]), value["seen"], value["written"]))
    return sorted(found, key=lambda add: (add.done_ns, add.invoke))


def unknown_additions(columns: View) -> int:
    """Count the additions with an unknown outcome."""
    done = columns.done[columns.rows(ADD, INVOKE)]
    return int(((done == NONE) | (columns.type[done] == INFO)).sum())


def _released_sections(columns: View) -> dict[int, int]:
    """Return the invocations of additions whose critical section ended with a successful release, with the return of
    that release.

    A failed release may have ended the transaction without the addition.
    """
    waiting: defaultdict[Slot, list[int]] = defaultdict(list)
    ended: dict[int, int] = {}
    rows = np.flatnonzero(np.isin(columns.f, (ADD, ACQUIRE, RELEASE)) & (columns.type == INVOKE))
    for index in rows.tolist():
        pending = waiting[int(columns.client[index]), int(columns.key[index])]
        if columns.f[index] == ADD:
            pending.append(index)
            continue
        done = int(columns.done[index])
        if columns.f[index] == RELEASE and done != NONE and columns.type[done] == OK:
            ended.update(dict.fromkeys(pending, done))
        pending.clear()
    return ended


def collisions(columns: View, added: list[Addition]) -> Iterator[Violation]:
    """Yield each addition to a number to which another addition had been made."""
    first: dict[tuple[str, int], Addition] = {}
    for add in added:
        other = first.setdefault((add.key, add.seen), add)
        if other is not add:
            yield _collision(columns, other, add)


def _collision(columns: View, one: Addition, two: Addition) -> Violation:
    at, name = columns.at, columns.name
    wrote = f"both wrote {two.written}" if one.written == two.written else f"they wrote {one.written} and {two.written}"
    sentence = (
        f"One of two additions to {two.key} is lost: {name(one.client)} (at {at(one.done_ns)}) and {name(two.client)} "
        f"(at {at(two.done_ns)}) both saw {two.seen}, and {wrote}"
    )
    involved = (columns.call(one.invoke), columns.call(two.invoke))
    return Violation("lost-update", two.key, sentence, two.done_ns, two.done_ns, involved)


def misread(columns: View, added: list[Addition]) -> Iterator[Violation]:
    """Yield, for each counter, the first addition that saw too low a number, or the numbers that nobody wrote. No two
    of ``added`` saw the same number of one counter."""
    by_key: defaultdict[str, list[Addition]] = defaultdict(list)
    for add in added:
        by_key[add.key].append(add)
    for key, some in by_key.items():
        some.sort(key=lambda add: add.seen)
        stale = next(_stale(columns, some), None)
        if stale is not None:
            yield stale
        else:
            yield from _never_written(columns, key, some)


def _stale(columns: View, added: list[Addition]) -> Iterator[Violation]:
    """Yield the additions, by number, that began after an addition with a higher number was over."""
    later = added[-1]
    for add in reversed(added[:-1]):
        if later.over < add.invoke:
            sentence = (
                f"{columns.name(add.client)} saw a stale {add.seen} in {add.key} at {columns.at(add.done_ns)}: "
                f"{columns.name(later.client)} had made it {later.written} by an addition that was over at "
                f"{columns.at(int(columns.time[later.over]))}"
            )
            involved = (columns.call(later.invoke), columns.call(add.invoke))
            yield Violation("stale-read", add.key, sentence, add.done_ns, add.done_ns, involved)
        later = min(later, add, key=lambda one: one.over)


def _never_written(columns: View, key: str, added: list[Addition]) -> Iterator[Violation]:
    """Yield one violation if the numbers between the lowest and the highest one that were seen are more than the
    additions that may have written them."""
    invoked = columns.rows(ADD, INVOKE)
    mine = invoked[columns.key[invoked] == columns.keys.index(key)]
    done = columns.done[mine]
    possible = int(((done == NONE) | (columns.type[done] != FAIL)).sum())
    numbers = added[-1].written - added[0].seen
    if numbers > possible:
        last = added[-1]
        sentence = (
            f"{key} went from {added[0].seen} to {last.written} by {possible} additions: somebody saw a number that no "
            "addition had written"
        )
        involved = (columns.call(added[0].invoke), columns.call(last.invoke))
        yield Violation("never-written", key, sentence, last.done_ns, last.done_ns, involved)
