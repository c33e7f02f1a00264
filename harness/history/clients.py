"""Which logical client a process belongs to: it goes on under a new process number after an unknown outcome."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from typing import Literal

Event = tuple[int, Literal["begin", "retire", "crash"], int, str | None]
"""Position in the history, what happened, the process, its host: the first entry of a process; its call came to an
unknown outcome; the host died (no process)."""


def take_over(events: Iterable[Event]) -> tuple[dict[int, int], list[str]]:
    """The client of each process, and the names of the clients: those of their hosts, ``process 7`` without one.

    A process that begins on a host takes over from the one that has been retired there for longest, if any. What a
    crash of the host left behind is never taken over. ``events`` are in order.
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


def unlike(names: Iterable[tuple[str, str]]) -> list[str]:
    """The names of clients, of which the second with a name is told by its process: ``n1`` and ``n1 (process 5)``."""
    found: dict[str, None] = {}
    for name, process in names:
        own = name
        while own in found:
            own += f" (process {process})"
        found[own] = None
    return list(found)
