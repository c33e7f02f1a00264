"""The leader's view of sessions: when each is over, and which server has its client (SessionTrackerImpl, ExpiryQueue).

Times are the leader's monotonic clock, ms, in steps of one tick: a session is over at the first whole tick after its
time-out has passed, so up to a tick late. A new leader starts with a fresh time-out for every session.
"""

from __future__ import annotations

from .jute import Code


class Session:
    __slots__ = ("closing", "expires", "owner", "timeout")

    def __init__(self, timeout: int) -> None:
        self.timeout = timeout
        self.expires = 0
        self.owner: int | None = None
        """The server that has the client, as far as known."""
        self.closing = False


class Sessions:
    def __init__(self, tick: int, now: int, timeouts: dict[int, int]) -> None:
        self._tick = tick
        self._all: dict[int, Session] = {}
        for number, timeout in timeouts.items():
            self.add(number, timeout, now)

    def add(self, number: int, timeout: int, now: int) -> None:
        if number not in self._all:
            self._all[number] = Session(timeout)
        self.touch(number, timeout, now)

    def touch(self, number: int, timeout: int, now: int) -> bool:
        """The client was heard of; False if it has no session any more."""
        session = self._all.get(number)
        if session is None or session.closing:
            return False
        expires = ((now + timeout) // self._tick + 1) * self._tick
        session.expires = max(session.expires, expires)
        session.timeout = timeout
        return True

    def ends(self, number: int) -> int | None:
        """When the session is over unless its client is heard of, ms; None if there is none."""
        session = self._all.get(number)
        return None if session is None else session.expires

    def own(self, number: int, owner: int) -> None:
        if number in self._all:
            self._all[number].owner = owner

    def check(self, number: int, owner: int) -> int:
        """Whether a write of this session may come from this server: a code."""
        session = self._all.get(number)
        if session is None or session.closing:
            return Code.SESSION_EXPIRED
        if session.owner is None:
            session.owner = owner
        return Code.OK if session.owner == owner else Code.SESSION_MOVED

    def close(self, number: int) -> None:
        """It is being closed: nothing more may be written in it."""
        if number in self._all:
            self._all[number].closing = True

    def remove(self, number: int) -> None:
        self._all.pop(number, None)

    def expired(self, now: int) -> list[int]:
        """Sessions whose time is over, now marked as closing."""
        over = [number for number, session in self._all.items() if not session.closing and session.expires <= now]
        for number in over:
            self.close(number)
        return over
