"""Random small histories of one key. The same seed gives the same history."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from typing import Any

from harness.checkers.models import Inconsistent, Model, Operation
from harness.history import SECOND
from harness.history.calls import Calls
from tests.checkers.linear.build import Entry, calls

Draw = Callable[[random.Random], tuple[str, Any, Any]]
"""Gives a function, its argument, and what it returned if it is known to have."""


def lock_call(random_: random.Random) -> tuple[str, Any, Any]:
    """Draw an acquire or a release."""
    return random_.choice(("acquire", "release")), None, None


def register_call(random_: random.Random) -> tuple[str, Any, Any]:
    """Draw a read, a write or a cas of three values."""
    f = random_.choice(("read", "write", "cas"))
    if f == "read":
        return f, None, random_.choice((None, 1, 2))
    value = random_.randint(1, 2) if f == "write" else (random_.randint(1, 2), random_.randint(1, 2))
    return f, value, value


def grant_call(random_: random.Random) -> tuple[str, Any, Any]:
    """Draw an acquire with or without a token and a lease, or a release."""
    if random_.random() < 0.5:
        return "release", None, None
    return "acquire", None, {"fence": random_.choice((None, 1, 2, 3)), "valid_for": random_.choice((None, 0.5, 1.5))}


def draw_history(
    seed: int,
    draw: Draw,
    *,
    clients: int = 3,
    count: int = 5,
    unknown: float = 0.2,
    refused: float = 0.0,
    refusals: Collection[str] = (),
) -> Calls:
    """Draw ``count`` calls of ``clients`` clients, interleaved at random. After an unknown outcome the client
    continues under a new process number. ``refused`` is the share of known calls of the functions ``refusals`` that
    failed."""
    random_ = random.Random(seed)
    process = list(range(clients))
    owner = {number: number for number in process}
    doing: dict[int, tuple[str, Any, Any]] = {}
    entries: list[Entry] = []
    left, fresh = count, clients
    while left or doing:
        client = random_.randrange(clients)
        if client in doing:
            f, argument, result = doing.pop(client)
            how = "info" if random_.random() < unknown else "ok"
            if how == "ok" and f in refusals and random_.random() < refused:
                how = "fail"
            entries.append((process[client], how, f, result if how == "ok" else argument))
            if how == "info":
                process[client] = fresh
                owner[fresh] = client
                fresh += 1
        elif left:
            doing[client] = draw(random_)
            entries.append((process[client], "invoke", *doing[client][:2]))
            left -= 1
    return calls(entries, clients=owner, refusals=refusals)


Doing = tuple[str, Any, Any]
"""A function, its argument, and what it returned if that is known."""
Event = tuple[float, int, Doing, bool]
"""When a call took effect, its client, what it did, and whether its outcome is known."""


def draw_likely_history(seed: int, model: Model, doings: Sequence[Doing], *, count: int = 12) -> Calls:
    """Draw ``count`` calls in an order that ``model`` allows, some of unknown outcome, and then often change one or two
    of them: right and wrong histories in which most of the calls fit."""
    random_ = random.Random(seed)
    clients, unknown = random_.choice((2, 3)), random_.choice((0.15, 0.3, 0.5))
    events = _possible_events(random_, model, doings, clients, count, unknown)
    for _ in range(random_.choice((0, 1, 1, 2))):
        place = random_.randrange(len(events))
        at, client, doing, known = events[place]
        change = random_.randrange(3)
        if change == 0:
            events[place] = at, client, random_.choice(doings), known
        elif change == 1:
            events[place] = at, random_.randrange(clients), doing, known
        else:
            events[place] = at, client, doing, not known
    return _with_windows(random_, events, clients)


def _possible_events(
    random_: random.Random, model: Model, doings: Sequence[Doing], clients: int, count: int, unknown: float
) -> list[Event]:
    state: Any = model.initial
    events: list[Event] = []
    while len(events) < count:
        at, client, doing = len(events), random_.randrange(clients), random_.choice(doings)
        known = random_.random() >= unknown
        if not known and random_.random() < 0.4:  # it did not happen
            events.append((at, client, doing, known))
            continue
        f, argument, result = doing
        now = 2 * at * SECOND  # two entries for each call, each a second
        operation = Operation(f, argument, _as_read(result) if known else None, known, str(client), now, now)
        after = model.step(state, operation)
        if not isinstance(after, Inconsistent):
            state = after
            events.append((at, client, doing, known))
    return events


def _as_read(result: Any) -> Any:
    """Return what a call returned as a reader of histories gives it to a model."""
    good = result.get("extended", result.get("valid")) if isinstance(result, dict) else None
    return result if good is None else {**result, "good": good}


def _with_windows(random_: random.Random, events: Sequence[Event], clients: int) -> Calls:
    wide = random_.choice((0.7, 1.5, 4.0))
    entries: list[tuple[float, Entry]] = []
    for client in range(clients):
        mine = [event for event in events if event[1] == client]
        process, before = client, -1.0
        for place, (at, _, (f, argument, result), known) in enumerate(mine):
            latest = min(at + wide, *(event[0] for event in mine[place + 1 : place + 2]), len(events) + wide)
            begin = random_.uniform(max(before, at - wide), at)
            before = random_.uniform(at if known else begin, latest)
            entries.append((begin, (process, "invoke", f, argument)))
            if known:
                entries.append((before, (process, "ok", f, result)))
            else:
                process += clients
    entries.sort(key=lambda entry: entry[0])
    return calls([entry for _, entry in entries], clients={number: number % clients for number in range(200)})


def seeds(count: int, start: int = 0) -> Sequence[int]:
    return range(start, start + count)
