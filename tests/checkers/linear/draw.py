"""Random small histories of one key. The same seed gives the same history."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

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


def draw_history(seed: int, draw: Draw, *, clients: int = 3, count: int = 5, unknown: float = 0.2) -> Calls:
    """Draw ``count`` calls of ``clients`` clients, interleaved at random. After an unknown outcome the client
    continues under a new process number."""
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
            entries.append((process[client], how, f, result if how == "ok" else argument))
            if how == "info":
                process[client] = fresh
                owner[fresh] = client
                fresh += 1
        elif left:
            doing[client] = draw(random_)
            entries.append((process[client], "invoke", *doing[client][:2]))
            left -= 1
    return calls(entries, clients=owner)


def seeds(count: int, start: int = 0) -> Sequence[int]:
    return range(start, start + count)
