"""The definitions in their simplest form, for comparison with the fast checkers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations, pairwise

from harness.history import History, Op

SECOND = 1_000_000_000


@dataclass
class Held:
    client: str
    key: str
    start: int
    end: int
    fence: object
    invoke: int
    shared: bool = False


def naive_holds(history: History) -> list[Held]:
    """Return the holds by the rules of ``docs/histories.md``, one client and one entry at a time. Each host has one
    client."""
    settings = next(op.value for op in history if op.f == "start")
    last = max(op.time for op in history)
    found: list[Held] = []
    for client in {op.node for op in history if op.process >= 0}:
        for key in {op.key for op in history if op.node == client and op.process >= 0}:
            mine = [op for op in history if (op.node == client and op.key == key) or op.f == "crash"]
            found += _holds_of(mine, str(client), str(key), settings["discipline"] == "checking", last)
    return found


def _holds_of(ops: list[Op], client: str, key: str, checking: bool, last: int) -> Iterable[Held]:
    now: Held | None = None
    depth = invoke = 0
    belief = promise = float("inf")
    for op in ops:
        if now is not None and belief <= op.time:
            yield _ended(now, int(belief))
            now = None
        kind = (op.f, op.type)
        if kind == ("acquire", "invoke"):
            invoke = op.time
        elif kind == ("acquire", "ok"):
            depth += 1
            if now is None:
                depth = 1
                now = Held(client, key, op.time, last, op.value.get("fence"), invoke, bool(op.value.get("shared")))
                leased = op.value.get("valid_for")
                promise = float("inf") if leased is None else leased * SECOND
                belief = op.time + promise if checking else float("inf")
            elif op.value.get("valid_for") is not None and promise != float("inf"):
                promise = op.value["valid_for"] * SECOND
                belief = max(belief, op.time + promise) if checking else belief
        elif now is None:
            continue
        elif kind == ("release", "invoke"):
            depth -= 1
            if depth == 0:
                yield _ended(now, op.time)
                now = None
        elif op.f in ("check", "extend") and op.type == "ok":
            if not op.value["valid" if op.f == "check" else "extended"]:
                yield _ended(now, op.time)
                now = None
            elif checking:
                belief = op.time + promise
        elif op.f == "crash" and op.value["host"] == client:
            yield _ended(now, op.time)
            now = None
    if now is not None:
        yield _ended(now, int(min(belief, last)))


def _ended(held: Held, time: int) -> Held:
    held.end = max(held.start, time)
    return held


def naive_overlap(held: list[Held]) -> bool:
    """Return whether two clients, not both sharing, held a key at the same instant. The instants tried lie between
    two times, or strictly inside a hold."""
    times = sorted({time for hold in held for time in (hold.start, hold.end)})
    between = [(a + b) / 2 for a, b in pairwise(times)]
    for one, two in combinations(held, 2):
        if one.key != two.key or one.client == two.client or (one.shared and two.shared):
            continue
        if any(one.start < t < one.end and two.start < t < two.end for t in between):
            return True
        if any(a.start == a.end and b.start < a.start < b.end for a, b in ((one, two), (two, one))):
            return True
    return False


def naive_token_trouble(held: list[Held]) -> bool:
    """Return whether two grants of a key that are not both shared have equal tokens, or whether an integer token is
    lower than that of a grant that completed before its request."""
    for one, two in combinations(held, 2):
        if one.key != two.key or one.fence is None or two.fence is None:
            continue
        if one.fence == two.fence and not (one.shared and two.shared):
            return True
        for a, b in ((one, two), (two, one)):
            if isinstance(a.fence, int) and isinstance(b.fence, int) and a.start < b.invoke and b.fence < a.fence:
                return True
    return False
