"""Damage to a valid history: one change at random, of a kind that a wrong lock could cause."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from msgspec.structs import replace

from harness.history import History, Op
from tests.checkers.brute_force import SECOND, OneCall, paired

NEAR = 12
"""Entries that are swapped are at most so many places apart."""
FAR_S = 4.0
"""An entry moves by at most this time."""


@dataclass(frozen=True)
class Damaged:
    history: History
    what: str


def damage(history: History, seed: int) -> Damaged:
    """Return the history after one change; the same seed makes the same change."""
    rng = Random(seed)
    name = list(KINDS)[seed % len(KINDS)]
    ops = list(history)
    return Damaged(in_time(KINDS[name](ops, paired(ops), rng)), f"{name}, seed {seed}")


def in_time(ops: list[Op]) -> History:
    """Return the history of these entries, sorted by time and numbered anew; start and stop stay at the ends."""
    first, *middle, last = ops
    times = [min(max(op.time, first.time), last.time) for op in middle]
    order = sorted(range(len(middle)), key=times.__getitem__)
    sorted_ops = [first, *(replace(middle[at], time=times[at]) for at in order), last]
    return History(replace(op, index=index) for index, op in enumerate(sorted_ops))


def drop(ops: list[Op], calls: list[OneCall], rng: Random) -> list[Op]:
    """Drop one call, or (once in three) only its answer, together with all that its client did later."""
    call = rng.choice(calls)
    if call.done is None or rng.random() < 2 / 3:
        return without(ops, call)
    later = {op.index for op in ops if op.process == call.begun.process and op.index >= call.done.index}
    return [op for op in ops if op.index not in later]


def without(ops: list[Op], call: OneCall) -> list[Op]:
    gone = {call.begun.index, *(() if call.done is None else (call.done.index,))}
    return [op for op in ops if op.index not in gone]


def swap(ops: list[Op], calls: list[OneCall], rng: Random) -> list[Op]:
    """Exchange the times of two entries that are near each other, the answers to two calls of a kind, or the places of
    two accesses in the order of the resource."""
    if rng.random() < 0.3:
        return swap_arrivals(ops, rng)
    if rng.random() < 0.3:
        at = rng.randrange(1, len(ops) - 1 - NEAR)
        one, two = ops[at], ops[at + rng.randint(1, NEAR)]
        changed = {one.index: replace(one, time=two.time), two.index: replace(two, time=one.time)}
        return [changed.get(op.index, op) for op in ops]
    one_call = rng.choice([call for call in calls if call.done is not None])
    others = [call.done for call in calls if call.begun.f == one_call.begun.f and call.done is not None]
    first, second = one_call.done, rng.choice(others)
    assert first is not None
    changed = {
        first.index: replace(first, type=second.type, value=second.value, error=second.error),
        second.index: replace(second, type=first.type, value=first.value, error=first.error),
    }
    return [changed.get(op.index, op) for op in ops]


def swap_arrivals(ops: list[Op], rng: Random) -> list[Op]:
    accepted = [op for op in ops if isinstance(op.value, dict) and "arrival" in op.value]
    if len(accepted) <= NEAR:
        return ops
    at = rng.randrange(len(accepted) - NEAR)
    one, two = accepted[at], accepted[at + rng.randint(1, NEAR)]
    changed = {
        one.index: replace(one, value={**one.value, "arrival": two.value["arrival"]}),
        two.index: replace(two, value={**two.value, "arrival": one.value["arrival"]}),
    }
    return [changed.get(op.index, op) for op in ops]


def duplicate(ops: list[Op], calls: list[OneCall], rng: Random) -> list[Op]:
    """Repeat one call a little later, as the same client or as another, under a new process number."""
    call = rng.choice([call for call in calls if call.done is not None])
    assert call.done is not None
    process = 1000 + max(op.process for op in ops)
    node = rng.choice(sorted({one.client for one in calls}))
    by = round(rng.uniform(0, 0.3) * SECOND)
    copies = [replace(op, process=process, node=node, time=op.time + by) for op in (call.begun, call.done)]
    return [*ops[:-1], *copies, ops[-1]]


def retime(ops: list[Op], calls: list[OneCall], rng: Random) -> list[Op]:
    """Move one call under a new process number, move one entry as far as its process allows, or delay an entry and all
    that its process did later."""
    call = rng.choice(calls)
    by = round(10 ** rng.uniform(-3, 0) * FAR_S * SECOND)
    way = rng.choice(("call", "entry", "rest"))
    if way == "call":
        by *= rng.choice((-1, 1))
        moved = {op.index for op in (call.begun, call.done) if op is not None}
        process = 1000 + max(op.process for op in ops)
        return [replace(op, time=op.time + by, process=process) if op.index in moved else op for op in ops]
    entry = call.done or call.begun
    if way == "rest":
        later = {op.index for op in ops if op.process == entry.process and op.index >= entry.index}
        return [replace(op, time=op.time + by) if op.index in later else op for op in ops]
    own = [op.time for op in ops if op.process == entry.process and op.index != entry.index]
    least = max((time for time in own if time < entry.time), default=ops[0].time)
    most = min((time for time in own if time > entry.time), default=ops[-1].time)
    return [replace(op, time=rng.randint(least, most)) if op.index == entry.index else op for op in ops]


def relabel(ops: list[Op], calls: list[OneCall], rng: Random) -> list[Op]:
    """Change the outcome, the token, the key or the client of one call, or what it read."""
    call = rng.choice([call for call in calls if call.done is not None])
    done = call.done
    assert done is not None
    change = rng.choice(("outcome", "token", "key", "client", "value"))
    value = dict(done.value) if isinstance(done.value, dict) else done.value
    both: dict[str, Any] = {}
    if change == "outcome":
        done = replace(done, type=rng.choice([one for one in ("ok", "fail", "info") if one != done.type]))
        if done.type == "ok" and call.begun.f == "acquire":
            done = replace(done, value=rng.choice(granted(calls)), error=None)
    elif change == "token" and isinstance(value, dict) and isinstance(value.get("fence"), int):
        done = replace(done, value={**value, "fence": value["fence"] + rng.choice((-50, -2, -1, 1, 50))})
    elif change == "value" and isinstance(value, dict) and "arrival" in value:
        done = replace(done, value={**value, "arrival": value["arrival"] + rng.choice((-3, -2, -1, 1, 2, 3))})
    elif change == "key":
        both = {"key": f"{call.begun.key}-other"}
    else:
        clients = sorted({one.client for one in calls} - {call.client})
        both = {"node": rng.choice(clients), "process": 1000 + max(op.process for op in ops)}
    changed = {call.begun.index: replace(call.begun, **both), done.index: replace(done, **both)}
    return [changed.get(op.index, op) for op in ops]


def granted(calls: list[OneCall]) -> list[Any]:
    return [call.answer for call in calls if call.begun.f == "acquire" and call.outcome == "ok"]


KINDS: dict[str, Callable[[list[Op], list[OneCall], Random], list[Op]]] = {
    "drop": drop,
    "swap": swap,
    "duplicate": duplicate,
    "retime": retime,
    "relabel": relabel,
}
