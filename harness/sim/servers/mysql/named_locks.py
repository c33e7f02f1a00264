"""Named locks of GET_LOCK and RELEASE_LOCK. They belong to a session, not to a transaction, and are not replicated.

Source: https://mariadb.com/kb/en/get_lock/. A session may hold several locks, each more than once; they are released
when the session ends.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final, Protocol

from .errors import DEADLOCK, SqlError
from .locks import Wait, WaitOutcome
from .values import collate

NS_PER_S: Final = 1_000_000_000
_MAX_WAIT_S: Final = 365 * 24 * 3600


class NamedLockOwner(Protocol):
    """A session, as the owner of named locks."""

    @property
    def number(self) -> int: ...


class NamedLocks:
    """All named locks of a server."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[NamedLockOwner, int]] = {}
        self._queues: dict[str, list[tuple[NamedLockOwner, Wait]]] = {}

    def get(self, holder: NamedLockOwner, name: str, timeout_s: float) -> Generator[Wait, None, int | None]:
        """Acquire a lock, waiting at most ``timeout_s`` seconds.

        Returns 1 if it was acquired, 0 on a time-out, None for invalid arguments or if the session was killed. Raises
        SqlError if the wait would be a deadlock.
        """
        key = collate(name)
        if timeout_s < 0 or not key:
            return None
        owner, count = self._held.get(key, (holder, 0))
        if owner is holder:
            self._held[key] = (holder, count + 1)
            return 1
        if not timeout_s:
            return 0
        if self._would_deadlock(holder, owner):
            raise SqlError(DEADLOCK)
        queue = self._queues.setdefault(key, [])
        wait = Wait(round(min(timeout_s, _MAX_WAIT_S) * NS_PER_S))
        wait.checks_client = True
        place = (holder, wait)
        wait.abandon = lambda: queue.remove(place)
        queue.append(place)
        yield wait
        if wait.ended is WaitOutcome.KILLED:
            return None
        return int(wait.ended is WaitOutcome.GRANTED)

    def _would_deadlock(self, holder: NamedLockOwner, owner: NamedLockOwner) -> bool:
        """Return whether ``owner`` waits, directly or through others, for a lock of ``holder``."""
        seen: set[int] = set()
        while owner is not holder and owner.number not in seen:
            seen.add(owner.number)
            key = next((key for key, queue in self._queues.items() if any(who is owner for who, _ in queue)), None)
            if key is None:
                return False
            owner = self._held[key][0]
        return owner is holder

    def release(self, holder: NamedLockOwner, name: str) -> int | None:
        """Release a lock once. Returns 1 if it was released, 0 if another session holds it, None if it is free."""
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

    def release_all(self, holder: NamedLockOwner) -> int:
        """Release all locks of a session and return their number, counting each acquisition."""
        mine = [(key, count) for key, (owner, count) in self._held.items() if owner is holder]
        for key, _ in mine:
            self._free(key)
        return sum(count for _, count in mine)

    def owner(self, name: str) -> int | None:
        """Return the number of the session that holds a lock, None if it is free."""
        found = self._held.get(collate(name))
        return None if found is None else found[0].number

    def _free(self, key: str) -> None:
        del self._held[key]
        queue = self._queues.get(key)
        if queue:
            holder, wait = queue.pop(0)
            self._held[key] = (holder, 1)
            wait.end(WaitOutcome.GRANTED)
        if not queue:
            self._queues.pop(key, None)
