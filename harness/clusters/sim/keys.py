"""Report each change of the locks' keys on simulated servers.

A server's keys are read after each event that may have changed them: a message, a timer, a clock change, a kill, a
start. Reading has no side effect: it deletes no key, draws no random number and schedules nothing, so a run is the same
with and without it. A key that expires between two readings is reported with its expiry time, before any later change.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Final

from harness.history.lock_keys import KeyObservation, KeyState, OnKeyChange
from harness.sim.hosts import SimHost

from .kinds import Look

SAME_NS: Final = 1_000_000
"""Two readings of a key's expiry that differ by at most this count as the same."""


class KeyWatch:
    """Watches the locks' keys and calls ``on_change`` for each change, in simulated time (ns).

    A change is attributed to the sender of the message that caused it, if that is one of ``clients``. ``lapses`` is as
    in :class:`harness.clusters.sim.kinds.SimServers`.
    """

    def __init__(self, keys: Sequence[str], on_change: OnKeyChange, *, clients: frozenset[str], lapses: bool) -> None:
        self._keys = keys
        self._on_change = on_change
        self._clients = clients
        self._lapses = lapses
        self._last: dict[str, dict[str, KeyState]] = {}
        """Last reported state, by server and key."""
        self._ends: list[tuple[int, int, KeyState]] = []
        """Heap of (expiry, number, state) of reported keys; numbers prevent comparisons of states."""
        self._sequence = 0

    def add(self, host: SimHost, look: Look) -> None:
        """Watch a server. Its initial state is: it answers and has no keys."""
        name, kernel = host.name, host.kernel
        last = self._last[name] = {key: KeyState(0, name, key) for key in self._keys}

        def changed(peer: str | None) -> None:
            now = kernel.now
            if self._ends and self._ends[0][0] <= now:
                self.lapse(now)
            if not host.alive:
                self._silent(now, last)
                return
            for key, before in last.items():
                sight = look(key)
                if sight is None and before.owner is None and before.answers:
                    continue  # the usual case if there are many keys
                if _is_news(before, now, sight):
                    self._say(self._state(now, before, sight, peer))

        host.on_change = changed

    def _silent(self, now: int, last: dict[str, KeyState]) -> None:
        for before in last.values():
            if before.answers:
                self._say(KeyState(now, before.host, before.key, answers=False))

    def lapse(self, now: int) -> None:
        """Report the keys that have expired by ``now``."""
        while self._ends and self._ends[0][0] <= now:
            at, _, over = heappop(self._ends)
            if self._last[over.host][over.key] is over:
                self._say(KeyState(at, over.host, over.key))

    def _state(self, now: int, before: KeyState, sight: KeyObservation | None, peer: str | None) -> KeyState:
        by = peer if peer in self._clients else None
        if sight is None:
            return KeyState(now, before.host, before.key, by=by)
        return KeyState(now, before.host, before.key, sight.owner, sight.left, sight.client or by)

    def _say(self, state: KeyState) -> None:
        self._last[state.host][state.key] = state
        self._on_change(state)
        if self._lapses and state.left is not None:
            self._sequence += 1
            heappush(self._ends, (state.time + state.left, self._sequence, state))


def _is_news(before: KeyState, now: int, sight: KeyObservation | None) -> bool:
    if not before.answers:
        return True
    if sight is None:
        return before.owner is not None
    if sight.owner != before.owner:
        return True
    if sight.left is None or before.left is None:
        return sight.left is not before.left
    return abs(now + sight.left - max(now, before.time + before.left)) > SAME_NS
