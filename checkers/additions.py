"""Find lost updates of a counter in the lock's own service: two additions (``add``) that started from the same
number."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .base import Violation
from .view import ACQUIRE, ADD, INFO, INVOKE, NONE, OK, RELEASE, View

Slot = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Addition:
    """A confirmed addition; ``invoke`` is its index, times are in ns."""

    key: str
    client: int
    invoke: int
    done_ns: int
    seen: int
    written: int


def additions(columns: View) -> list[Addition]:
    """Return the confirmed additions, by time of confirmation.

    The transaction of an addition may stay open until the lock is released. If the release has an unknown outcome, or
    if there is none (a crash, the end of the run), the transaction may have been rolled back; such additions are left
    out.
    """
    found = []
    for index in columns.rows(ADD, INVOKE).tolist():
        done = int(columns.done[index])
        if done != NONE and columns.type[done] == OK:
            value = columns.value[done]
            key, client = columns.keys[columns.key[index]], int(columns.client[index])
            found.append(Addition(key, client, index, int(columns.time[done]), value["seen"], value["written"]))
    ended = _released_sections(columns) if found else set()
    return sorted((add for add in found if add.invoke in ended), key=lambda add: (add.done_ns, add.invoke))


def unknown_additions(columns: View) -> int:
    """Count the additions with an unknown outcome."""
    done = columns.done[columns.rows(ADD, INVOKE)]
    return int(((done == NONE) | (columns.type[done] == INFO)).sum())


def _released_sections(columns: View) -> set[int]:
    """Return the invocations of additions whose critical section ended with a successful release.

    A failed release may have ended the transaction without the addition.
    """
    waiting: defaultdict[Slot, list[int]] = defaultdict(list)
    ended: set[int] = set()
    rows = np.flatnonzero(np.isin(columns.f, (ADD, ACQUIRE, RELEASE)) & (columns.type == INVOKE))
    for index in rows.tolist():
        pending = waiting[int(columns.client[index]), int(columns.key[index])]
        if columns.f[index] == ADD:
            pending.append(index)
            continue
        done = int(columns.done[index])
        if columns.f[index] == RELEASE and done != NONE and columns.type[done] == OK:
            ended.update(pending)
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
