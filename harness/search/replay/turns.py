"""Pause the rivals of each grant, so that a real run grants a lock in the order of the simulated run.

If several clients wait for a lock, milliseconds decide which one acquires it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from harness.faults.pause import ClientPause
from harness.history import SECOND, Call, History
from harness.plan import FaultSpec, Plan

from .strikes import before, trigger

MARGIN_NS: Final = 150_000_000
"""Time (ns) before and after a grant for which its rivals are paused; real scheduling shifts nothing by more."""
EARLIER_NS: Final = 50_000_000
"""Pauses begin at least this long (ns) before the release that precedes the grant."""
AT_MOST_NS: Final = 500_000_000
"""A waiter acquires within this time (ns) of a release; an earlier release is not the cause."""
LENGTHS: Final = (0.8, 0.2)
"""Shortest pauses (s) to try. Real clusters cannot always confirm a pause shorter than the first."""
MOST: Final = 8
"""Most pauses to add to a plan."""


def pause_rivals(
    plan: Plan, history: History, until_ns: int | None, least: float = LENGTHS[0]
) -> tuple[Plan, tuple[str, ...]]:
    """Return the plan with pauses of the rivals of each grant up to ``until_ns``, and notes about them.

    ``history`` is the plan's own simulated history. Each pause takes at least ``least`` seconds. Without races the plan
    is returned unchanged.
    """
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
                f"{rival} is paused for {pause.for_:g} s, so that {grant.done.node} is granted {grant.done.key}"
            )
    return msgspec.structs.replace(plan, faults=(*plan.faults, *pauses)), tuple(notes)


def _rivals(history: History, acquires: list[Call], grant: Call) -> Iterator[tuple[str, int]]:
    """Yield the other clients that wanted the key around the grant, and when (ns) their pauses should begin."""
    assert grant.done is not None
    at, key, winner = grant.done.time, grant.done.key, grant.done.node
    for call in acquires:
        requested, answered = call.invoke.time, call.done.time if call.done is not None else at + MARGIN_NS
        if call.invoke.key != key or call.invoke.node in (winner, None) or requested > at + MARGIN_NS or answered < at:
            continue
        if requested < at - MARGIN_NS:
            released = [op.time for op in history if op.f == "release" and op.type == "invoke" and op.key == key]
            freed = max((time for time in released if at - AT_MOST_NS <= time <= at), default=at)
            yield str(call.invoke.node), max(requested + 1, min(at - MARGIN_NS, freed - EARLIER_NS))
        else:
            earlier = before(history, call.invoke.index, call.invoke.node)
            if earlier is not None:
                yield str(call.invoke.node), earlier.time


def _pause(history: History, client: str, since: int, until: int) -> FaultSpec | None:
    """Return a pause of this client between two moments, triggered by the last entry before; its own entry if two are
    simultaneous."""
    entries = [op for op in history if op.node is not None and op.process >= 0 and op.time <= since]
    if not entries:
        return None
    begun = max(entries, key=lambda op: (op.time, op.node == client, op.index))
    delay = round((since - begun.time) / SECOND, 3)
    for_ = round((until - since) / SECOND, 3)
    params = {"target": client}
    return FaultSpec(ClientPause.name, delay=delay, for_=for_, params=params, **trigger(history, begun))


def _down(history: History) -> dict[str, list[tuple[int, int]]]:
    """Return, by host, the intervals (ns) in which a fault was active on it."""
    found: dict[str, list[tuple[int, int]]] = {}
    healed = {op.value["id"]: op.time for op in history.nemesis("heal")}
    for op in history.nemesis("inject"):
        for host in op.value["hosts"]:
            found.setdefault(host, []).append((op.time, healed.get(op.value["id"], max(history.time))))
    return found
