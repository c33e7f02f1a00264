"""Check queues in O(n log n), on keys on which each element is enqueued at most once.

Let an element be enqueued between a and b, and dequeued between c and d (at the end, if it never is). T. A. Henzinger,
A. Sezgin and V. Vafeiadis ("Aspect-oriented linearizability proofs", CONCUR 2013) show that a history of a queue in
which all outcomes are known is linearizable if and only if it has none of these patterns:

1. An element is dequeued that nobody enqueued, or before it was enqueued (d < a), or twice
   (:mod:`harness.checkers.linearizability.elements`).
2. Two elements are dequeued in the wrong order: u was enqueued before v (b of u < a of v), and v was dequeued before u
   (d of v < c of u).
3. A dequeue found the queue empty, although it never was while that call ran. An element is surely in the queue from b
   to c. The queue is never empty while such times cover the whole call. Each of them overlaps with the next one, so
   they form a chain, as in the paper.

*Only if* is clear for each pattern. *If:* without patterns 1 and 2, the order of enqueues and the order of dequeues
that the windows demand never contradict each other, so some order of the elements respects both. At a moment that no
sure time covers, the elements whose sure time is over can all be dequeued before that moment, and the others enqueued
after it; so there is a moment at which the queue is empty.

"Efficient decrease-and-conquer linearizability monitoring" (Lee and Mathur, OOPSLA 2025, arXiv 2410.04581) and
"Efficient linearizability monitoring" (Abdulla and others, arXiv 2509.17795) have the bound O(n log n) too. Here, 2 is
a running maximum over the elements sorted by b, and 3 a union of intervals.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from harness.history.calls import Calls, Ints

from .elements import Elements, Timeline, check, failure, running_argmax
from .problem import ProvedImpossible, QuickResult


def check_queues(calls: Calls) -> QuickResult:
    """Decide every key of ``calls``, which are those of a queue; an ambiguous key is undecided."""
    return check(calls, "enqueue", _failures)


def _failures(calls: Calls, line: Timeline, elements: Elements) -> list[ProvedImpossible]:
    return [*_wrong_orders(calls, elements), *false_empties(calls, line, elements)]


def _wrong_orders(calls: Calls, elements: Elements) -> Iterator[ProvedImpossible]:
    """Yield each element that was dequeued before another one which had been enqueued earlier."""
    order = np.argsort(elements.b, kind="stable")
    latest = running_argmax(elements.c[order])
    before = np.searchsorted(elements.b[order], elements.a) - 1  # the elements that were surely enqueued earlier
    first = order[latest[before]] if len(order) else before
    for element in np.flatnonzero((before >= 0) & (elements.c[first] > elements.d)).tolist():
        rows = elements.rows([int(first[element]), element])
        yield failure(calls, rows, int(calls.returned[elements.remove[element]]))


def false_empties(calls: Calls, line: Timeline, elements: Elements) -> Iterator[ProvedImpossible]:
    """Yield each call that found the collection empty although elements were in it all the time."""
    sure = np.flatnonzero(elements.b < elements.c)
    if not len(sure) or not len(elements.empty):
        return
    sure = sure[np.argsort(elements.b[sure], kind="stable")]
    begin, end = elements.b[sure], elements.c[sure]
    latest = running_argmax(end)
    reach = end[latest]
    last = np.append(begin[1:] > reach[:-1], True)  # of the elements whose times are one chain
    chain_end = reach[last][np.cumsum(last) - last]
    invoked, returned = line.invoked[elements.empty], line.returned[elements.empty]
    place = np.searchsorted(begin, invoked) - 1
    for number in np.flatnonzero((place >= 0) & (chain_end[place] > returned)).tolist():
        chain = list(_chain(begin, reach, latest, int(invoked[number]), int(returned[number])))
        empty = int(elements.empty[number])
        yield failure(calls, [*elements.rows(sure[chain]), empty], int(calls.returned[empty]))


def _chain(begin: Ints, reach: Ints, latest: Ints, at: int, until: int) -> Iterator[int]:
    """Yield the elements that are surely in the collection from ``at`` to ``until``, as few as possible."""
    while at < until:
        place = int(np.searchsorted(begin, at)) - 1
        yield int(latest[place])
        at = int(reach[place])
