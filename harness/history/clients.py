"""Map processes to logical clients: a client continues under a new process number after an unknown outcome."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from typing import Literal

Event = tuple[int, Literal["begin", "retire", "crash"], int, str | None]
"""Position in the history, kind of event, process, and its host. ``begin``: the first entry of the process; ``retire``:
a call of the process had an unknown outcome; ``crash``: the host died (no process)."""


def take_over(events: Iterable[Event]) -> tuple[dict[int, int], list[str]]:
    """Return the client of each process, and the names of the clients: those of their hosts, or ``process 7`` without
    one.

    A process that begins on a host takes over the client that was retired there first, if any. A process never takes
    over a client that a crash of the host ended. ``events`` are in order.
    """
    owner: dict[int, int] = {}
    names: list[str] = []
    waiting: dict[str, deque[int]] = defaultdict(deque)
    for _, what, process, node in events:
        host = node or f"process {process}"
        if what == "crash":
            waiting[host].clear()
        elif what == "retire":
            waiting[host].append(owner[process])
        elif waiting[host]:
            owner[process] = waiting[host].popleft()
        else:
            owner[process] = len(names)
            names.append(host)
    return owner, names


def distinct_names(names: Iterable[tuple[str, str]]) -> list[str]:
    """Return distinct names of clients: a repeated name gets its process, as in ``n1`` and ``n1 (process 5)``."""
    found: dict[str, None] = {}
    for name, process in names:
        own = name
        while own in found:
            own += f" (process {process})"
        found[own] = None
    return list(found)
