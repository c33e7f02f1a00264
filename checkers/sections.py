"""Check that critical sections have an order in which each happens at one instant: strict serializability.

A critical section is a transaction on registers, as in the model ``multi-register``: it reads and writes some of them
at one instant between its first access and its last one. In general it is NP-complete to find such an order (C. H.
Papadimitriou, "The serializability of concurrent database updates", Journal of the ACM 26, 1979). Here the resource
numbers the accesses that it accepts, so the version of a register is known that each read returned, and that each write
replaced by the next one. Registers of versions, in which a write is a read and a write, take linear time but for
sorting:

    There is an order if and only if the following graph has no cycle. Its nodes are the sections. An edge leads from
    one section to another one if an access of the first one to a register precedes an access of the second one to it,
    and one of the two is a write; or if the first section ended before the second one began.

*Only if.* An order has the sections of each edge in the direction of the edge: versions only grow, a read comes after
the write of its version and before that of the next one, and no section may be moved past another one that did not
overlap with it. *If.* Without a cycle, the nodes can be sorted so that all edges point forward. In this order the
accesses to each register have the order that they really had, but for reads of one version, so that each sees and makes
the version that it really saw and made.

*Unknown outcomes.* An access whose answer was lost may have happened at any time after its invocation, or never. It is
left out, so it accuses nobody, and its section has no known end. But if a read returned a value that is not the newest
accepted one, and of which only one lost write can be the cause, then this write happened between the two.
"""

from __future__ import annotations

from bisect import bisect, bisect_left
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
from math import inf
from typing import Any, Final, NamedTuple

from .accesses import WRITES, Access, sections
from .base import Violation
from .holds import Holds
from .view import View

CHANGES: Final = WRITES | {"take", "mark"}


class Step(NamedTuple):
    """An access of a section that surely happened, and its earliest and latest place among all accesses; they differ
    if its answer was lost."""

    section: int
    access: Access
    earliest: float
    latest: float
    lost: bool = False


@dataclass(slots=True)
class Section:
    """One critical section: the places of its first and its last access among all accesses (``end`` is inf if an access
    may come later)."""

    begin: float = inf
    end: float = -inf


class Edge(NamedTuple):
    """Why a section comes before another one: the two accesses to one register, or None if it ended before."""

    before: int
    after: int
    accesses: tuple[Step, Step] | None


@dataclass(slots=True)
class Sections:
    """The critical sections on one key of the lock. ``steps`` are those of each register, in the order in which the
    resource accepted them."""

    sections: list[Section] = field(default_factory=list)
    steps: dict[str, list[Step]] = field(default_factory=dict)

    def cycle(self) -> list[Edge]:
        """Return a shortest cycle through the first section that lies on one; empty if all sections have an order."""
        if self._one_after_the_other():
            return []
        edges = self._edges()
        left = _in_cycles(len(self.sections), edges)
        after: defaultdict[int, list[Edge]] = defaultdict(list)
        for edge in edges.values():
            if edge.before in left and edge.after in left:
                after[edge.before].append(edge)
        starts = sorted(set(range(len(self.sections))) & left, key=lambda one: self.sections[one].begin)
        return next((found for start in starts if (found := _shortest(start, after))), [])

    def _one_after_the_other(self) -> bool:
        """Return whether no two sections overlap, as with a lock that works: then they are in order."""
        ends = [-inf] * len(self.sections)
        for section, _, _, latest, _ in _joined(self.steps.values()):
            if latest > ends[section]:  # noqa: PLR1730 - max() takes longer
                ends[section] = latest
        order = sorted((one.begin, ends[number]) for number, one in enumerate(self.sections) if one.begin < inf)
        return all(one[1] < two[0] for one, two in pairwise(order))

    def _edges(self) -> dict[tuple[int, int], Edge]:
        """Return the edges, each with its first reason. Those of sections that ended before lead through nodes of
        their own, after the sections: node ``n + i`` is reached by the ``i + 1`` sections that ended first."""
        edges: dict[tuple[int, int], Edge] = {}

        def add(before: int, after: int, reason: tuple[Step, Step] | None) -> None:
            if before != after:
                edges.setdefault((before, after), Edge(before, after, reason))

        for steps in self.steps.values():
            write: Step | None = None
            reads: list[Step] = []
            for step in steps:
                if write is not None:
                    add(write.section, step.section, (write, step))
                if step.access.f not in CHANGES:
                    reads.append(step)
                    continue
                for read in reads:
                    add(read.section, step.section, (read, step))
                write, reads = step, []
        count = len(self.sections)
        by_end = sorted((one.end, number) for number, one in enumerate(self.sections) if one.end < inf)
        for place, (_, number) in enumerate(by_end):
            add(number, count + place, None)
            if place:
                add(count + place - 1, count + place, None)
        for number, one in enumerate(self.sections):
            if place := bisect_left(by_end, (one.begin, -1)):
                add(count + place - 1, number, None)
        return edges


def critical_sections(
    columns: View, by_key: Mapping[str, list[Access]], lost: Mapping[str, list[int]], found: Holds
) -> dict[str, Sections]:
    """Return the critical sections by key of the lock, in no order. ``by_key`` and ``lost`` are the accepted accesses
    and the invocations whose answer was lost, by register. The register ``p0/c1`` belongs to the key ``p0``."""
    registers: defaultdict[str, list[str]] = defaultdict(list)
    for key in sorted({*by_key, *lost}):
        registers[key.partition("/")[0]].append(key)
    return {
        key: _Builder(columns, sections(found, key)).sections(
            {name: by_key.get(name, []) for name in names}, {name: lost.get(name, []) for name in names}
        )
        for key, names in registers.items()
    }


class _Builder:
    """Finds the critical sections on one key of the lock, of which each client has ``begun`` some.

    A section begins with a read: a client that writes without having read relies on nothing, so that such a write is a
    section by itself. Where no lock is held, each read begins a section."""

    def __init__(self, columns: View, begun: Mapping[int, list[int]]) -> None:
        self._columns, self._begun = columns, begun
        self._all: list[Section] = []
        self._open: dict[tuple[int, int], int] = {}
        self._of: dict[int, int] = {}
        """The section of each access, by its invocation."""

    def sections(self, accepted: Mapping[str, list[Access]], lost: Mapping[str, list[int]]) -> Sections:
        made = [(access.invoke, access.client, access.f == "read") for access in _joined(accepted.values())]
        made += [(index, int(self._columns.client[index]), False) for index in _joined(lost.values())]
        for index, client, reads in sorted(made):
            self._of[index] = self._section(index, client, reads=reads)
        steps = {key: self._in_order(some, lost[key]) for key, some in accepted.items()}
        happened = set()
        for section, access, earliest, latest, _ in _joined(steps.values()):
            one = self._all[section]
            one.begin, one.end = min(one.begin, earliest), max(one.end, latest)
            happened.add(access.invoke)
        for index in set(_joined(lost.values())) - happened:
            self._all[self._of[index]].end = inf
        return Sections(self._all, steps)

    def _section(self, index: int, client: int, *, reads: bool) -> int:
        slot = client, bisect(self._begun.get(client, ()), index)
        found = self._open.get(slot)
        if found is None or (reads and not slot[1]):
            found = self._new()
            if reads:
                self._open[slot] = found
        return found

    def _new(self) -> int:
        self._all.append(Section())
        return len(self._all) - 1

    def _in_order(self, accepted: list[Access], lost: list[int]) -> list[Step]:
        """Return the accesses to one register, with the lost writes that a read shows to have happened."""
        steps: list[Step] = []
        newest: Access | None = None
        left = {index for index in lost if self._columns.fs[index] in WRITES}
        for access in accepted:
            if access.f in WRITES:
                newest = access
            elif access.f == "read" and newest is not None and access.value != newest.value:
                seen = [index for index in left if self._may_have_seen(access, index)]
                if len(seen) == 1:
                    left.remove(seen[0])
                    newest = self._lost_write(seen[0], access)
                    places = steps[-1].latest + 0.25, access.arrival - 0.25
                    steps.append(Step(self._of[seen[0]], newest, *places, lost=True))
            steps.append(Step(self._of[access.invoke], access, access.arrival, access.arrival))
        return steps

    def _may_have_seen(self, read: Access, index: int) -> bool:
        value: Any = self._columns.value[index] or {}
        return int(self._columns.time[index]) <= read.done_ns and value.get("value") == read.value

    def _lost_write(self, index: int, read: Access) -> Access:
        columns, value = self._columns, self._columns.value[index]
        client = int(columns.client[index])
        return Access(columns.fs[index], read.key, client, read.arrival, index, read.done_ns, None, value["value"])


def _joined(lists: Iterable[Iterable[Any]]) -> Iterator[Any]:
    return chain.from_iterable(lists)


def _in_cycles(count: int, edges: Iterable[tuple[int, int]]) -> set[int]:
    """Return the nodes that lie on cycles, or on ways from one cycle to another."""
    after: defaultdict[int, list[int]] = defaultdict(list)
    before: defaultdict[int, list[int]] = defaultdict(list)
    nodes = set(range(count))
    for one, two in edges:
        after[one].append(two)
        before[two].append(one)
        nodes |= {one, two}
    for forward, backward in ((after, before), (before, after)):
        missing = {node: sum(one in nodes for one in backward[node]) for node in nodes}
        free = [node for node, number in missing.items() if not number]
        while free:
            node = free.pop()
            nodes.discard(node)
            for other in forward[node]:
                if other in nodes:
                    missing[other] -= 1
                    if not missing[other]:
                        free.append(other)
    return nodes


def _shortest(start: int, after: Mapping[int, Sequence[Edge]]) -> list[Edge]:
    """Return a shortest cycle through ``start``; empty if there is none."""
    reached: dict[int, Edge] = {}
    new = deque([start])
    while new:
        for edge in after.get(new.popleft(), ()):
            if edge.after in reached:
                continue
            reached[edge.after] = edge
            if edge.after == start:
                return _back(start, reached)
            new.append(edge.after)
    return []


def _back(start: int, reached: Mapping[int, Edge]) -> list[Edge]:
    cycle = [reached[start]]
    while cycle[-1].before != start:
        cycle.append(reached[cycle[-1].before])
    return cycle[::-1]


def explain(columns: View, key: str, cycle: Sequence[Edge]) -> Violation:
    """Return the violation that the sections on ``key`` have no order, for one of its cycles."""
    reasons = _reasons(cycle)
    steps = sorted({step for pair in reasons for step in pair}, key=lambda step: step.latest)
    told = "; ".join(_told(columns, *pair) for pair in reasons[:LISTED])
    more = f"; and {len(reasons) - LISTED} more" if len(reasons) > LISTED else ""
    arrivals = ", ".join(str(step.access.arrival) for step in steps if not step.lost)
    harm = f"Critical sections on {key} interleaved"
    last = steps[-1].access.done_ns
    return Violation(
        "interleaved",
        key,
        f"{harm}: {told}{more} (accesses {arrivals})",
        min(step.access.done_ns for step in steps),
        last,
        tuple(columns.call(step.access.invoke) for step in steps),
        harm=harm,
    )


LISTED: Final = 4
"""The most pairs of accesses that a sentence has."""
VERBS: Final = {"read": "read", "write": "wrote", "cas": "wrote", "take": "sold a unit of", "mark": "processed"}


def _reasons(cycle: Sequence[Edge]) -> list[tuple[Step, Step]]:
    return [edge.accesses for edge in cycle if edge.accesses is not None]


def _told(columns: View, one: Step, two: Step) -> str:
    return f"{_did(columns, one)}, before {_did(columns, two)}"


def _did(columns: View, step: Step) -> str:
    access = step.access
    what = f"{columns.name(access.client)} {VERBS[access.f]} {access.key}"
    if step.lost:
        return f"{what} (its answer was lost, and a read at {columns.at(access.done_ns)} shows it)"
    return f"{what} at {columns.at(access.done_ns)}"
