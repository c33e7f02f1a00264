"""Check stacks in O(n log n), on keys on which each element is pushed at most once.

Let an element be pushed between a and b, and popped between c and d (at the end, if it never is). Patterns that are
wrong by themselves (an element popped that nobody pushed, before its push, or twice) come from
:mod:`harness.checkers.linearizability.elements`. Otherwise an order gives each element an interval from its push to its
pop, any two of which are nested or disjoint. The element is surely on the stack from b to c: its *core*.

1. *An element without a core* (c < b) can be pushed and popped at one moment, where nobody notices. Leave it out.
2. *A component* is a set of elements whose cores cover a stretch of time without a gap. Each component can be judged by
   itself. For let t be a moment in a gap. An order of all elements gives an order of those on each side of t. The other
   way round, take an order of each side. A pop of an element on the left that comes after t can move to directly before
   t, since c is before t; let these pops keep their order. In the same way the pushes of the right side that come
   before t move to directly after it. Now every interval is on one side of t.
3. *The root.* In an order of a component, one interval contains all the others, since nested or disjoint intervals
   without a gap between them have only one that is in no other. Let l be the first b and r the last c of the component.
   The element of that interval has a < l and r < d. Conversely, let any element have a < l and r < d, and let the other
   elements have an order. Pushes that come before l can move to directly after the push of this element, which comes
   shortly before l, and pops that come after r to directly before its pop. So the element can be the outermost one.
   Hence: a component without such an element has no order; otherwise leave out any such element, and judge what is
   left, which may be several components.
4. *A pop that found the stack empty* needs a moment that no core covers (:mod:`.queues`); by 2, it is enough.

Lee and Mathur ("Efficient decrease-and-conquer linearizability monitoring", OOPSLA 2025, arXiv 2410.04581) leave out
such elements one by one, too. Abdulla and others ("Efficient linearizability monitoring", arXiv 2509.17795) judge
stacks in O(n^2) and give counter-examples to earlier algorithms.

*The bound.* When a component is divided, l only rises and r only falls for its elements. So whether a < l and whether
r < d changes once for each element, and segment trees find the elements for which it changes. Another one counts how
many cores cover each gap between two consecutive ends of cores, and finds the gaps that no core covers any more.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from harness.history.calls import NEVER, Calls, Ints, Marks
from harness.history.compiled import compilable, fastest

from .elements import Elements, Timeline, check, failure
from .problem import ProvedImpossible, QuickResult
from .queues import false_empties

EXPLAINED: Final = 5
"""The most components of a history whose wrong part is made small."""
ROWS_PER_ELEMENT: Final = 20
"""Number of rows that cost as much time in plain Python as one element (see :func:`fastest`)."""


def check_stacks(calls: Calls) -> QuickResult:
    """Decide every key of ``calls``, which are those of a stack; an ambiguous key is undecided."""
    return check(calls, "push", _failures)


def _failures(calls: Calls, line: Timeline, elements: Elements) -> list[ProvedImpossible]:
    return [*false_empties(calls, line, elements), *_wrong_components(calls, elements)]


def _wrong_components(calls: Calls, elements: Elements) -> Iterator[ProvedImpossible]:
    """Yield the components that have no root, as the elements that are left in them."""
    core = np.flatnonzero(elements.b < elements.c)
    core = core[np.argsort(elements.b[core], kind="stable")]
    component = _rootless(elements, core)
    wrong = np.flatnonzero(component >= 0)
    wrong = wrong[np.argsort(component[wrong], kind="stable")]
    for number, rest in enumerate(np.split(wrong, np.flatnonzero(np.diff(component[wrong])) + 1) if len(wrong) else ()):
        part = core[rest]
        yield failure(calls, elements.rows(_reduced(elements, part) if number < EXPLAINED else part))


def _reduced(elements: Elements, part: Ints) -> Ints:
    """Return a stretch of ``part`` (sorted by b) that is wrong by itself and not by leaving out one of its ends.

    A part of a right history is right, so a search by halves finds the shortest beginning that is wrong, and then its
    shortest ending.
    """

    def is_wrong(some: Ints) -> bool:
        return bool((_rootless(elements, some) >= 0).any())

    short, long = 0, len(part)
    while long - short > 1:
        middle = (short + long) // 2
        short, long = (short, middle) if is_wrong(part[:middle]) else (middle, long)
    part = part[:long]
    first, last = 0, len(part)
    while last - first > 1:
        middle = (first + last) // 2
        first, last = (middle, last) if is_wrong(part[middle:]) else (first, middle)
    return part[first:]


def _rootless(elements: Elements, core: Ints) -> Ints:
    """Return, for each element of ``core`` (sorted by b), the component without a root in which it is left, or -1."""
    n = len(core)
    b, c = elements.b[core], elements.c[core]
    ends = np.concatenate((b, c))
    order = np.argsort(ends, kind="stable")
    rank = np.empty(2 * n, dtype=np.int64)
    rank[order] = np.arange(2 * n)
    begins = np.concatenate(([0], np.cumsum(order < n)))
    component = np.full(n, -1, dtype=np.int64)
    nest = fastest(_nest, rows=ROWS_PER_ELEMENT * n)
    nest(elements.a[core], elements.d[core], rank[:n], rank[n:], ends[order], begins, component)
    return component


@compilable
def _nest(
    a: Ints, d: Ints, first: Ints, last: Ints, ends: Ints, begins: Ints, component: Ints
) -> None:  # pragma: no cover - machine code
    """Leave out roots until no component is left, or only components without a root; note those in ``component``.

    ``ends`` has the ends of the cores in order, and ``first`` and ``last`` the places there of each core. ``begins``
    counts the cores that begin before each place.
    """
    n, places = len(a), len(ends)
    leaves = _room(n)
    early, late = np.full(2 * leaves, NEVER, dtype=np.int64), np.full(2 * leaves, NEVER, dtype=np.int64)
    for element in range(n):
        early[leaves + element], late[leaves + element] = a[element], -d[element]
    _fill(early, leaves)
    _fill(late, leaves)
    width = _room(places)
    cover, more = np.full(2 * width, NEVER, dtype=np.int64), np.zeros(2 * width, dtype=np.int64)
    left, right = np.empty(n + 1, dtype=np.int64), np.empty(n + 1, dtype=np.int64)
    waiting = _components(first, last, places, width, cover, left, right)
    _fill(cover, width)
    ready = np.zeros(n, dtype=np.int8)
    found = 0
    while waiting:
        waiting -= 1
        begin, end = left[waiting], right[waiting]
        low, high = begins[begin], begins[end + 1]
        roots = _make_ready(early, leaves, low, high, ends[begin], ready, first, last, cover, more, width)
        roots += _make_ready(late, leaves, low, high, -ends[end], ready, first, last, cover, more, width)
        if roots == 0:
            for element in range(low, high):
                if ready[element] < 2:
                    component[element] = found
            found += 1
            continue
        waiting = _divide(begin, end, cover, more, width, left, right, waiting)


@compilable
def _room(count: int) -> int:  # pragma: no cover - machine code
    """Return the number of leaves of a tree for ``count`` numbers: a power of two."""
    size = 1
    while size < count:
        size *= 2
    return size


@compilable
def _fill(tree: Ints, leaves: int) -> None:  # pragma: no cover - machine code
    """Compute the inner nodes of a tree, each of which has the least number below it."""
    for node in range(leaves - 1, 0, -1):
        tree[node] = min(tree[2 * node], tree[2 * node + 1])


@compilable
def _components(
    first: Ints, last: Ints, places: int, width: int, cover: Ints, left: Ints, right: Ints
) -> int:  # pragma: no cover - machine code
    """Count the cores over each gap between two places, and list the components; return their number."""
    change = np.zeros(places + 1, dtype=np.int64)
    for element in range(len(first)):
        change[first[element]] += 1
        change[last[element]] -= 1
    count = found = begin = 0
    for place in range(places):
        count += change[place]
        if count:
            cover[width + place] = count
        else:
            left[found], right[found] = begin, place
            found, begin = found + 1, place + 1
    return found


@compilable
def _make_ready(
    tree: Ints,
    leaves: int,
    low: int,
    high: int,
    limit: int,
    ready: Marks,
    first: Ints,
    last: Ints,
    cover: Ints,
    more: Ints,
    width: int,
) -> int:  # pragma: no cover - machine code
    """Find the elements from ``low`` to ``high`` whose number in ``tree`` is below ``limit``, each once.

    An element that was found in both trees is a root, and its core is taken away. Returns the number of roots.
    """
    roots = 0
    while True:
        node = _below(tree, leaves, low, high, limit)
        if node < 0:
            return roots
        while node < leaves:
            node = 2 * node if tree[2 * node] < limit else 2 * node + 1
        element = node - leaves
        tree[node] = NEVER
        node //= 2
        while node:
            tree[node] = min(tree[2 * node], tree[2 * node + 1])
            node //= 2
        ready[element] += 1
        if ready[element] == 2:
            _uncover(cover, more, width, first[element], last[element])
            roots += 1


@compilable
def _below(tree: Ints, leaves: int, low: int, high: int, limit: int) -> int:  # pragma: no cover - machine code
    """Return a node over leaves from ``low`` to ``high`` with a number below ``limit``, or -1."""
    begin, end = low + leaves, high + leaves
    while begin < end:
        if begin & 1:
            if tree[begin] < limit:
                return begin
            begin += 1
        if end & 1:
            end -= 1
            if tree[end] < limit:
                return end
        begin //= 2
        end //= 2
    return -1


@compilable
def _uncover(cover: Ints, more: Ints, width: int, first: int, last: int) -> None:  # pragma: no cover - machine code
    """Subtract one from the gaps from ``first`` to ``last``; ``more`` of a node has yet to be added to those below."""
    begin, end = first + width, last + width
    while begin < end:
        if begin & 1:
            cover[begin] -= 1
            more[begin] -= 1
            begin += 1
        if end & 1:
            end -= 1
            cover[end] -= 1
            more[end] -= 1
        begin //= 2
        end //= 2
    _lift(cover, more, (first + width) // 2)
    _lift(cover, more, (last - 1 + width) // 2)


@compilable
def _lift(cover: Ints, more: Ints, node: int) -> None:  # pragma: no cover - machine code
    while node:
        cover[node] = min(cover[2 * node], cover[2 * node + 1]) + more[node]
        node //= 2


@compilable
def _divide(
    begin: int, end: int, cover: Ints, more: Ints, width: int, left: Ints, right: Ints, waiting: int
) -> int:  # pragma: no cover - machine code
    """Add the components into which the gaps without a core divide one; return the number of those that wait."""
    while begin < end:
        gap = _bare(cover, more, width, begin)
        if gap < 0 or gap > end:
            gap = end
        else:
            cover[width + gap] = NEVER
            _lift(cover, more, (width + gap) // 2)
        if gap > begin:
            left[waiting], right[waiting] = begin, gap
            waiting += 1
        begin = gap + 1
    return waiting


@compilable
def _bare(cover: Ints, more: Ints, width: int, begin: int) -> int:  # pragma: no cover - machine code
    """Return the first gap from ``begin`` on that no core covers and that was not found before, or -1."""
    node, above = width + begin, 0
    parent = node // 2
    while parent:
        above += more[parent]
        parent //= 2
    while cover[node] + above != 0:
        while node & 1:
            node //= 2
            if node == 0:
                return -1
            above -= more[node]
        node += 1
    while node < width:
        above += more[node]
        node *= 2
        if cover[node] + above != 0:
            node += 1
    return node - width
