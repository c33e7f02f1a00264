"""Find releases that took effect only when their client acquired again, by the record of the servers' keys.

Judged is each release that returned ok, of an exclusive hold whose acquire wrote the key on a server. It was *deferred*
if the key still belonged to its client when it returned, and the client's next acquire of the key then changed that.
Other clients can get such a key only while its last holder requests it, or after the end of its lease. A release that
changed the stored owner was not deferred: some locks do not delete a free key, but store that it is free.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from itertools import islice
from typing import Final

import numpy as np

from harness.history import History
from harness.history.lock_keys import KeyState, keys_of

from .excuses import Excuses
from .holds import Holds
from .view import ACQUIRE, INVOKE, NONE, OK, View

SERVER_MS: Final = 1_000_000
"""A key whose lease ends within this time (ns) counts as over: servers count in ms."""


@dataclass(frozen=True, slots=True)
class Deferred:
    """The rows of holds whose release was ``deferred``, and when (ns) each took effect, of ``judged`` releases."""

    rows: tuple[int, ...] = ()
    effects: tuple[int, ...] = ()
    judged: int = 0


def deferred_releases(history: History, found: Holds, excuses: Excuses) -> Deferred:
    """Return the deferred releases; none are judged if the keys were not recorded."""
    states, columns = keys_of(history), found.view
    if states is None:
        return Deferred()
    servers = _by_server(states)
    done = columns.done[found.release]
    clean = (found.release != NONE) & (done != NONE) & ~found.shared
    clean &= columns.type[done] == OK
    rows, effects, judged = [], [], 0
    for row in np.flatnonzero(clean).tolist():
        key, client = columns.keys[found.key[row]], int(found.client[row])
        begun, end = int(columns.time[found.acquire[row]]), int(columns.time[done[row]])
        node = str(columns.node[int(found.grant[row])])
        written = [log for (_, name), log in servers.items() if name == key and log.written(node, begun, end)]
        if not written or excuses.any(client, begun, end):
            continue
        judged += 1
        released = int(columns.time[found.release[row]])
        changed = [at for log in written if (at := log.changed(node, begun, released, end)) is not None]
        if len(changed) < len(written):
            continue
        following = _next_acquire(columns, client, int(found.key[row]), int(found.release[row]))
        if following is not None and following[0] <= min(changed) and max(changed) <= following[1]:
            rows.append(row)
            effects.append(max(changed))
    return Deferred(tuple(rows), tuple(effects), judged)


class _Log:
    """The states of one key on one server, in order."""

    def __init__(self, states: list[KeyState]) -> None:
        self.states = states
        self.times = [state.time for state in states]

    def written(self, node: str, begin: int, end: int) -> bool:
        """Return whether a client's message gave the key an owner in [begin, end] (ns)."""
        inside = self.states[bisect_left(self.times, begin) : bisect_right(self.times, end)]
        return any(state.owner is not None and state.by == node for state in inside)

    def changed(self, node: str, begin: int, released: int, end: int) -> int | None:
        """Return when (ns) the client ended its ownership, if it had written the key since ``begin``, owned it still at
        ``end``, and the stored owner was the same at ``released``."""
        at = bisect_right(self.times, end) - 1
        state, before = self.states[at], self.states[bisect_right(self.times, released) - 1]
        over = state.left is not None and state.time + state.left <= end + SERVER_MS
        if state.owner is None or state.by != node or state.time < begin or over or state.owner != before.owner:
            return None
        after = islice(self.states, at + 1, None)
        later = next((one for one in after if not one.answers or one.owner != state.owner), None)
        return later.time if later is not None and later.answers and later.by == node else None


def _by_server(states: tuple[KeyState, ...]) -> dict[tuple[str, str], _Log]:
    logs: dict[tuple[str, str], list[KeyState]] = {}
    for state in sorted(states, key=lambda state: state.time):
        logs.setdefault((state.host, state.key), []).append(state)
    return {slot: _Log(mine) for slot, mine in logs.items()}


def _next_acquire(columns: View, client: int, key: int, after: int) -> tuple[int, int] | None:
    """Return begin and end (ns) of the first acquire of a key that a client invoked after the entry ``after``."""
    rows = columns.rows(ACQUIRE, INVOKE)
    rows = rows[np.searchsorted(rows, after) :]
    mine = rows[(columns.client[rows] == client) & (columns.key[rows] == key)]
    if not len(mine):
        return None
    done = int(columns.done[mine[0]])
    return int(columns.time[mine[0]]), columns.end if done == NONE else int(columns.time[done])
