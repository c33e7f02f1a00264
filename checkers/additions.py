"""Additions to a counter of the lock's own service (``add``): two that saw the same number are one update lost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from checkers.base import Violation
from checkers.view import ACQUIRE, ADD, INFO, INVOKE, NONE, OK, RELEASE, View

Slot = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Addition:
    """An addition that surely counts; ``invoke`` is its index, times in ns."""

    key: str
    client: int
    invoke: int
    done_ns: int
    seen: int
    written: int


def additions(columns: View) -> list[Addition]:
    """Those that were confirmed, by time of confirmation.

    Their transaction may still be open until the lock is released: one whose release has an unknown outcome, or that
    was followed by none (a crash, the end), may have been rolled back.
    """
    found = []
    for index in columns.rows(ADD, INVOKE).tolist():
        done = int(columns.done[index])
        if done != NONE and columns.type[done] == OK:
            value = columns.value[done]
            key, client = columns.keys[columns.key[index]], int(columns.client[index])
            found.append(Addition(key, client, index, int(columns.time[done]), value["seen"], value["written"]))
    ended = _ended(columns) if found else set()
    return sorted((add for add in found if add.invoke in ended), key=lambda add: (add.done_ns, add.invoke))


def unknown_additions(columns: View) -> int:
    """How many may have been made."""
    done = columns.done[columns.rows(ADD, INVOKE)]
    return int(((done == NONE) | (columns.type[done] == INFO)).sum())


def _ended(columns: View) -> set[int]:
    """The invocations of additions whose section ended with a release that said yes: one that said no may have been the
    end of the transaction, without the addition."""
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
    """Each addition to what another one had been added to."""
    first: dict[tuple[str, int], Addition] = {}
    for add in added:
        other = first.setdefault((add.key, add.seen), add)
        if other is not add:
            yield _collision(columns, other, add)


def _collision(columns: View, one: Addition, two: Addition) -> Violation:
    at, name = columns.at, columns.name
    wrote = f"both wrote {two.written}" if one.written == two.written else f"they wrote {one.written} and {two.written}"
    sentence = (
        f"{name(two.client)} added to {two.key} at {at(two.done_ns)} and saw {two.seen}, which {name(one.client)} "
        f"had seen when it added at {at(one.done_ns)}: {wrote}, and one of the two updates is lost"
    )
    involved = (columns.call(one.invoke), columns.call(two.invoke))
    return Violation("lost-update", two.key, sentence, two.done_ns, two.done_ns, involved)
