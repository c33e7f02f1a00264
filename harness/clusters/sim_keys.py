"""What simulated servers have under the locks' keys, told whenever it changes.

Each server is looked at after each thing that may have changed what it has: a message, a timer, its clock, a kill, a
start. A look changes nothing: no key is deleted by the way, nothing is drawn or scheduled, so that a run goes the same
way with and without it. A key whose time runs out between two looks is told with the time at which it did, before
anything later is told.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Final

from ..history.lock_keys import KeyState, Sight, Tell
from ..sim.hosts import Host
from .sim_kinds import Look

SAME_NS: Final = 1_000_000
"""By how much two looks may differ on when a key ends and agree."""


class KeyWatch:
    """``clients`` are the hosts whose messages count as somebody's; ``lapses`` is as in
    :class:`harness.clusters.sim_kinds.Servers`. Times told are those of the simulation."""

    def __init__(self, keys: Sequence[str], tell: Tell, *, clients: frozenset[str], lapses: bool) -> None:
        self._keys = keys
        self._tell = tell
        self._clients = clients
        self._lapses = lapses
        self._last: dict[str, dict[str, KeyState]] = {}
        """What was told last, by server and key."""
        self._ends: list[tuple[int, int, KeyState]] = []
        """When keys end, by what was told of them: a heap, with numbers to keep it from comparing states."""
        self._told = 0

    def add(self, host: Host, look: Look) -> None:
        """Watch a server. Before anything is told of it, it answers and has nothing."""
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
                    continue  # so it is nearly always where there are many keys
                if _is_news(before, now, sight):
                    self._say(self._state(now, before, sight, peer))

        host.on_change = changed

    def _silent(self, now: int, last: dict[str, KeyState]) -> None:
        for before in last.values():
            if before.answers:
                self._say(KeyState(now, before.host, before.key, answers=False))

    def lapse(self, now: int) -> None:
        """Tell of the keys whose time is over by now."""
        while self._ends and self._ends[0][0] <= now:
            at, _, over = heappop(self._ends)
            if self._last[over.host][over.key] is over:
                self._say(KeyState(at, over.host, over.key))

    def _state(self, now: int, before: KeyState, sight: Sight | None, peer: str | None) -> KeyState:
        by = peer if peer in self._clients else None
        if sight is None:
            return KeyState(now, before.host, before.key, by=by)
        return KeyState(now, before.host, before.key, sight.owner, sight.left, sight.client or by)

    def _say(self, state: KeyState) -> None:
        self._last[state.host][state.key] = state
        self._tell(state)
        if self._lapses and state.left is not None:
            self._told += 1
            heappush(self._ends, (state.time + state.left, self._told, state))


def _is_news(before: KeyState, now: int, sight: Sight | None) -> bool:
    if not before.answers:
        return True
    if sight is None:
        return before.owner is not None
    if sight.owner != before.owner:
        return True
    if sight.left is None or before.left is None:
        return sight.left is not before.left
    return abs(now + sight.left - max(now, before.time + before.left)) > SAME_NS
