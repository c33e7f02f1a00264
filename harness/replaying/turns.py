"""Who gets a lock when several wait for it is a matter of milliseconds: where a real run let another one have it, the
next try lets the others stand still until the right one has got it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from ..history import SECOND, Call, History
from ..plan import FaultSpec, Plan
from .strikes import before, trigger

MARGIN_NS: Final = 150_000_000
"""So long before and after a grant others stand still: real scheduling moves nothing by more."""
EARLIER_NS: Final = 50_000_000
"""So long before a release they do, at least."""
AT_MOST_NS: Final = 500_000_000
"""Who waits has got it so soon after a release; what came earlier is not why it was free."""
LENGTHS: Final = (0.8, 0.2)
"""Seconds that a pause takes at least: one that is over sooner than the first is not always seen on real clusters."""
MOST: Final = 8
"""Pauses that are added to a plan."""


def in_turn(
    plan: Plan, history: History, until_ns: int | None, least: float = LENGTHS[0]
) -> tuple[Plan, tuple[str, ...]]:
    """The plan, with pauses of clients, such that each grant of its own simulated ``history`` up to ``until_ns`` has
    nobody to race with; and what is said of that. Each pause takes ``least`` seconds or more. The same plan if nobody
    raced."""
    acquires = history.calls("acquire")
    last = until_ns if until_ns is not None else max(history.time, default=0)
    pauses: list[FaultSpec] = []
    notes: list[str] = []
    busy = _down(history)
    for grant in sorted(acquires, key=lambda call: -1 if call.done is None else call.done.time):
        if grant.done is None or grant.outcome != "ok" or grant.done.time > last:
            continue
        for rival, since in _rivals(history, acquires, grant):
            until = max(grant.done.time + MARGIN_NS, since + round(least * SECOND))
            pause = _pause(history, rival, since, until)
            if pause is None or len(pauses) == MOST or any(a <= until and since <= b for a, b in busy.get(rival, [])):
                continue
            busy.setdefault(rival, []).append((since, until))
            pauses.append(pause)
            notes.append(
                f"{rival} stands still for {pause.for_:g} s, so that {grant.done.node} is granted {grant.done.key}"
            )
    return msgspec.structs.replace(plan, faults=(*plan.faults, *pauses)), tuple(notes)


def _rivals(history: History, acquires: list[Call], grant: Call) -> Iterator[tuple[str, int]]:
    """Other clients that wanted the key at about the time of the grant, and since when they are to stand still."""
    assert grant.done is not None
    at, key, winner = grant.done.time, grant.done.key, grant.done.node
    for call in acquires:
        asked, answered = call.invoke.time, call.done.time if call.done is not None else at + MARGIN_NS
        if call.invoke.key != key or call.invoke.node in (winner, None) or asked > at + MARGIN_NS or answered < at:
            continue
        if asked < at - MARGIN_NS:
            released = [op.time for op in history if op.f == "release" and op.type == "invoke" and op.key == key]
            freed = max((time for time in released if at - AT_MOST_NS <= time <= at), default=at)
            yield str(call.invoke.node), max(asked + 1, min(at - MARGIN_NS, freed - EARLIER_NS))
        else:
            earlier = before(history, call.invoke.index, call.invoke.node)
            if earlier is not None:
                yield str(call.invoke.node), earlier.time


def _pause(history: History, client: str, since: int, until: int) -> FaultSpec | None:
    """A pause of this client between two moments, by a trigger; of two entries of one moment its own counts."""
    entries = [op for op in history if op.node is not None and op.process >= 0 and op.time <= since]
    if not entries:
        return None
    begun = max(entries, key=lambda op: (op.time, op.node == client, op.index))
    delay = round((since - begun.time) / SECOND, 3)
    for_ = round((until - since) / SECOND, 3)
    params = {"target": client}
    return FaultSpec("client-pause", delay=delay, for_=for_, params=params, **trigger(history, begun))


def _down(history: History) -> dict[str, list[tuple[int, int]]]:
    """By host, from when to when a fault was at work on it."""
    found: dict[str, list[tuple[int, int]]] = {}
    healed = {op.value["id"]: op.time for op in history.nemesis("heal")}
    for op in history.nemesis("inject"):
        for host in op.value["hosts"]:
            found.setdefault(host, []).append((op.time, healed.get(op.value["id"], max(history.time))))
    return found
