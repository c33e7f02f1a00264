"""The leader's record of sessions: when each expires and which server its client is connected to.

Follows SessionTrackerImpl and ExpiryQueue. Times are in ms of the leader's monotonic clock. A session expires at the
first whole tick after its time-out, so up to a tick late. A new leader restarts the time-out of every session.
"""

from __future__ import annotations

from .jute import Code


class TrackedSession:
    __slots__ = ("closing", "expires", "owner", "timeout")

    def __init__(self, timeout: int) -> None:
        self.timeout = timeout
        self.expires = 0
        self.owner: int | None = None
        """Number of the server that the client is connected to, None if not known."""
        self.closing = False


class SessionTracker:
    """All open sessions. ``tick`` is in ms, ``timeouts`` are the time-outs of the existing sessions in ms, by id."""

    def __init__(self, tick: int, now: int, timeouts: dict[int, int]) -> None:
        self._tick = tick
        self._all: dict[int, TrackedSession] = {}
        for number, timeout in timeouts.items():
            self.add(number, timeout, now)

    def add(self, number: int, timeout: int, now: int) -> None:
        if number not in self._all:
            self._all[number] = TrackedSession(timeout)
        self.touch(number, timeout, now)

    def touch(self, number: int, timeout: int, now: int) -> bool:
        """Restart the session's time-out, because its client was heard from; False if the session has ended.

        A client that reconnects with a shorter time-out than before makes its session expire earlier.
        """
        session = self._all.get(number)
        if session is None or session.closing:
            return False
        session.expires = ((now + timeout) // self._tick + 1) * self._tick
        session.timeout = timeout
        return True

    def expires_at(self, number: int) -> int | None:
        """Return when the session expires unless its client is heard from, in ms; None if it does not exist."""
        session = self._all.get(number)
        return None if session is None else session.expires

    def set_owner(self, number: int, owner: int) -> None:
        if number in self._all:
            self._all[number].owner = owner

    def check_write(self, number: int, owner: int) -> int:
        """Return the error code for a write in this session through the server ``owner``: OK if it is allowed."""
        session = self._all.get(number)
        if session is None or session.closing:
            return Code.SESSION_EXPIRED
        if session.owner is None:
            session.owner = owner
        return Code.OK if session.owner == owner else Code.SESSION_MOVED

    def close(self, number: int) -> None:
        """Mark the session as closing: no further writes are allowed in it."""
        if number in self._all:
            self._all[number].closing = True

    def remove(self, number: int) -> None:
        self._all.pop(number, None)

    def expired(self, now: int) -> list[int]:
        """Return the sessions that have expired by ``now``."""
        return [number for number, session in self._all.items() if not session.closing and session.expires <= now]
