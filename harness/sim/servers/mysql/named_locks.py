"""GET_LOCK and its siblings: named locks that belong to a session, not to a transaction, and are not replicated.

Source: https://mariadb.com/kb/en/get_lock/. A session may hold several, each more than once; they end with the session.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final, Protocol

from harness.sim.servers.mysql.errors import DEADLOCK, SqlError
from harness.sim.servers.mysql.locks import Outcome, Wait
from harness.sim.servers.mysql.values import collate

NS_PER_S: Final = 1_000_000_000
_MOST_WAIT_S: Final = 365 * 24 * 3600


class Holder(Protocol):
    """A session, as far as its locks go."""

    @property
    def number(self) -> int: ...


class NamedLocks:
    """All named locks of a server."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[Holder, int]] = {}
        self._queues: dict[str, list[tuple[Holder, Wait]]] = {}

    def get(self, holder: Holder, name: str, timeout_s: float) -> Generator[Wait, None, int | None]:
        """1 if the lock is had, 0 if the time ran out; raises SqlError if that would be a deadlock."""
        key = collate(name)
        if timeout_s < 0 or not key:
            return None
        owner, count = self._held.get(key, (holder, 0))
        if owner is holder:
            self._held[key] = (holder, count + 1)
            return 1
        if not timeout_s:
            return 0
        if self._would_ring(holder, owner):
            raise SqlError(DEADLOCK)
        queue = self._queues.setdefault(key, [])
        wait = Wait(round(min(timeout_s, _MOST_WAIT_S) * NS_PER_S))
        wait.watches = True
        place = (holder, wait)
        wait.abandon = lambda: queue.remove(place)
        queue.append(place)
        yield wait
        if wait.ended is Outcome.KILLED:
            return None
        return int(wait.ended is Outcome.GRANTED)

    def _would_ring(self, holder: Holder, owner: Holder) -> bool:
        """Does the owner wait, by way of others, for the one who is about to wait for it?"""
        seen: set[int] = set()
        while owner is not holder and owner.number not in seen:
            seen.add(owner.number)
            key = next((key for key, queue in self._queues.items() if any(who is owner for who, _ in queue)), None)
            if key is None:
                return False
            owner = self._held[key][0]
        return owner is holder

    def release(self, holder: Holder, name: str) -> int | None:
        """1: released (once), 0: somebody else has it, None: nobody has."""
        key = collate(name)
        if key not in self._held:
            return None
        owner, count = self._held[key]
        if owner is not holder:
            return 0
        if count > 1:
            self._held[key] = (holder, count - 1)
        else:
            self._free(key)
        return 1

    def release_all(self, holder: Holder) -> int:
        """How many there were, counting those held more than once so often."""
        mine = [(key, count) for key, (owner, count) in self._held.items() if owner is holder]
        for key, _ in mine:
            self._free(key)
        return sum(count for _, count in mine)

    def owner(self, name: str) -> int | None:
        """The number of the session that has it."""
        found = self._held.get(collate(name))
        return None if found is None else found[0].number

    def _free(self, key: str) -> None:
        del self._held[key]
        queue = self._queues.get(key)
        if queue:
            holder, wait = queue.pop(0)
            self._held[key] = (holder, 1)
            wait.end(Outcome.GRANTED)
        if not queue:
            self._queues.pop(key, None)
