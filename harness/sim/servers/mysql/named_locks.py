"""Named locks of GET_LOCK and RELEASE_LOCK. They belong to a session, not to a transaction, and are not replicated.

Source: https://mariadb.com/kb/en/get_lock/, and MariaDB 10.11 itself where that page is wrong: names are compared as
bytes, so case, accents and trailing spaces count. A session may hold several locks, each more than once; they are
released when the session ends.
"""

from __future__ import annotations

from collections.abc import Generator
from datetime import datetime
from decimal import Decimal
from typing import Final, Protocol

from harness.sim.servers.waits import Wait, WaitOutcome

from .errors import DEADLOCK, ILLEGAL_TYPE, NAME_TOO_LONG, SqlError
from .values import Value

NS_PER_S: Final = 1_000_000_000
_MAX_WAIT_S: Final = 365 * 24 * 3600
_MAX_NAME_BYTES: Final = 192
_SHOWN_NAME_BYTES: Final = 97
"""MariaDB shows that much of a name that is too long."""
_TYPES: Final = {int: "int", Decimal: "decimal", float: "double", datetime: "datetime"}


class NamedLockOwner(Protocol):
    """A session, as the owner of named locks."""

    @property
    def number(self) -> int: ...


def lock_name(function: str, value: Value) -> str | None:
    """Return the name that a function of named locks was called with. Raises SqlError if it is not a string."""
    if value is None or isinstance(value, str):
        return value
    kind = next(name for kind, name in _TYPES.items() if isinstance(value, kind))
    raise SqlError(ILLEGAL_TYPE, kind, function.lower())


def _check_length(name: str) -> None:
    data = name.encode()
    if len(data) > _MAX_NAME_BYTES:
        raise SqlError(NAME_TOO_LONG, data[:_SHOWN_NAME_BYTES].decode(errors="ignore") + "...")


class NamedLocks:
    """All named locks of a server."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[NamedLockOwner, int]] = {}
        self._queues: dict[str, list[tuple[NamedLockOwner, Wait]]] = {}
        self._times_victim: dict[int, int] = {}
        """Session → how often it was the victim of a deadlock."""

    def get(self, holder: NamedLockOwner, name: str, timeout_s: float) -> Generator[Wait, None, int | None]:
        """Acquire a lock, waiting at most ``timeout_s`` seconds.

        Returns 1 if it was acquired, 0 on a time-out, None for invalid arguments or if the session was killed. Raises
        SqlError if the wait is the victim of a deadlock, or if the name is too long. A time-out between -1 and 0 is a
        wait that ends at once.
        """
        if timeout_s <= -1 or not name:
            return None
        _check_length(name)
        owner, count = self._held.get(name, (holder, 0))
        if owner is holder:
            self._held[name] = (holder, count + 1)
            return 1
        if timeout_s == 0:
            return 0
        self._resolve_deadlock(holder, owner)
        queue = self._queues.setdefault(name, [])
        wait = Wait(round(min(max(timeout_s, 0.0), _MAX_WAIT_S) * NS_PER_S))
        wait.checks_client = True
        place = (holder, wait)
        wait.abandon = lambda: queue.remove(place)
        queue.append(place)
        yield wait
        if wait.ended is WaitOutcome.DEADLOCK:
            raise SqlError(DEADLOCK)
        if wait.ended is WaitOutcome.KILLED:
            return None
        return int(wait.ended is WaitOutcome.GRANTED)

    def _resolve_deadlock(self, holder: NamedLockOwner, owner: NamedLockOwner) -> None:
        """If a wait of ``holder`` for ``owner`` would close a cycle, end a wait in it, or raise SqlError for this one.

        As in MariaDB, the victim is a session that was one least often; of several, the first along the cycle, which
        begins with the session that begins to wait.
        """
        ring = self._cycle(holder, owner)
        if not ring:
            return
        victim = min(ring, key=lambda one: self._times_victim.get(one.number, 0))
        self._times_victim[victim.number] = self._times_victim.get(victim.number, 0) + 1
        found = self._awaited(victim)
        if found is None:
            raise SqlError(DEADLOCK)
        found[1].end(WaitOutcome.DEADLOCK)

    def _cycle(self, holder: NamedLockOwner, owner: NamedLockOwner) -> list[NamedLockOwner]:
        """Return the sessions of which each waits for the next and the last for ``holder``, [] if there is none."""
        ring = [holder]
        while owner not in ring:
            ring.append(owner)
            found = self._awaited(owner)
            if found is None:
                return []
            owner = self._held[found[0]][0]
        return ring if owner is holder else []

    def _awaited(self, owner: NamedLockOwner) -> tuple[str, Wait] | None:
        """Return the lock that a session waits for, and the wait; None if it does not wait."""
        for name, queue in self._queues.items():
            for who, wait in queue:
                if who is owner:
                    return name, wait
        return None

    def release(self, holder: NamedLockOwner, name: str) -> int | None:
        """Release a lock once. Returns 1 if it was released, 0 if another session holds it, None if it is free."""
        _check_length(name)
        if name not in self._held:
            return None
        owner, count = self._held[name]
        if owner is not holder:
            return 0
        if count > 1:
            self._held[name] = (holder, count - 1)
        else:
            self._free(name)
        return 1

    def release_all(self, holder: NamedLockOwner) -> int:
        """Release all locks of a session and return their number, counting each acquisition."""
        mine = [(name, count) for name, (owner, count) in self._held.items() if owner is holder]
        for name, _ in mine:
            self._free(name)
        return sum(count for _, count in mine)

    def owner(self, name: str) -> int | None:
        """Return the number of the session that holds a lock, None if it is free."""
        _check_length(name)
        found = self._held.get(name)
        return None if found is None else found[0].number

    def content(self) -> tuple[tuple[str, int, int, tuple[int, ...]], ...]:
        """Return each lock that is held: name, number of its session, how often it was acquired, numbers of the
        sessions that wait for it."""
        return tuple(
            (name, owner.number, count, tuple(waiter.number for waiter, _ in self._queues.get(name, ())))
            for name, (owner, count) in self._held.items()
        )

    def _free(self, name: str) -> None:
        del self._held[name]
        queue = self._queues.get(name)
        if queue:
            holder, wait = queue.pop(0)
            self._held[name] = (holder, 1)
            wait.end(WaitOutcome.GRANTED)
        if not queue:
            self._queues.pop(name, None)
