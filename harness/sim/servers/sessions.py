"""Sessions of a simulated database server, and the order in which their statements go on.

A statement that waits is a generator that its session resumes. An event may end several waits; their statements go on
one after the other when the event is over, in the order in which the waits ended.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from harness.sim.service import Conn, ServiceHost

from .waits import Wait, WaitOutcome


class DatabaseSession(Protocol):
    """What a server asks of a session."""

    number: int

    def received(self, data: bytes) -> None: ...

    def closed(self) -> None: ...

    def resume(self) -> None:
        """Continue the statement, whose wait has ended."""

    def drop(self) -> None:
        """Release all that the session holds."""


class EventServer(Protocol):
    """What a waiting session asks of its server."""

    def run_event(self, fn: Callable[..., None], *args: Any) -> None: ...


class WaitingSession:
    """Base class of sessions: the wait of the present statement."""

    server: EventServer

    def __init__(self) -> None:
        self._wait: Wait | None = None

    @property
    def waits(self) -> bool:
        """Whether a statement of the session waits."""
        return self._wait is not None

    def end_wait(self, outcome: WaitOutcome) -> None:
        """End the wait of the session's statement."""
        if self._wait is not None:
            self.server.run_event(self._wait.end, outcome)


S = TypeVar("S", bound=DatabaseSession)


class SessionServer(Generic[S]):
    """The part of a :class:`~harness.sim.service.Service` that has the sessions. Their numbers begin with ``first``.

    ``on_command`` is called with (client host, first keyword) after each statement, before its answer is sent. It may
    kill this server.
    """

    host: ServiceHost

    def __init__(self, first: int) -> None:
        self.on_command: Callable[[str, str], None] | None = None
        self._first = first
        self.next_number = first
        """Number of the session that is opened next."""
        self._sessions: dict[int, S] = {}
        self._runnable: deque[S] = deque()
        self._running = False

    def add_session(self, conn: Conn, new: Callable[[int], S]) -> S:
        """Return the session of a connection, which ``new`` makes with its number."""
        session: S = new(self.next_number)
        conn.session = self._sessions[self.next_number] = session
        self.next_number += 1
        return session

    def forget_sessions(self) -> list[S]:
        """Forget all sessions and whose statements are to go on, as at a kill; return the sessions."""
        sessions = list(self._sessions.values())
        self._sessions.clear()
        self._runnable.clear()
        self._running = False
        self.next_number = self._first
        return sessions

    def received(self, conn: Conn, data: bytes) -> None:
        session: S = conn.session
        if self.is_open(session):
            self.run_event(session.received, data)

    def closed(self, conn: Conn) -> None:
        session: S = conn.session
        if self.is_open(session):
            self.run_event(session.closed)

    @property
    def sessions(self) -> list[S]:
        """The open sessions."""
        return list(self._sessions.values())

    def is_open(self, session: S) -> bool:
        """Return whether a session is still one of the server's."""
        return self._sessions.get(session.number) is session

    def session(self, number: int) -> S | None:
        """Return the session with a number, None if there is none."""
        return self._sessions.get(number)

    def remove_session(self, session: S) -> None:
        """End a session and release all that it holds; its connection is not closed."""
        if self._sessions.pop(session.number, None) is not None:
            session.drop()

    def run_event(self, fn: Callable[..., None], *args: Any) -> None:
        """Call ``fn``, then resume all statements whose waits it has ended. Nested calls only call ``fn``."""
        if self._running:
            fn(*args)
            return
        self._running = True
        try:
            fn(*args)
            while self._runnable:
                session = self.next_runnable()
                if self.is_open(session):
                    session.resume()
        finally:
            self._running = False
        self.event_over()

    def event_over(self) -> None:
        """Called when an event and all that it resumed are over."""

    def next_runnable(self) -> S:
        """Take the session that goes on next: the one whose wait ended first."""
        return self._runnable.popleft()

    def schedule(self, session: S, *, first: bool = False) -> None:
        """Have the statement of a session resumed at the end of the present event, ``first`` or after the others."""
        if first:
            self._runnable.appendleft(session)
        else:
            self._runnable.append(session)
