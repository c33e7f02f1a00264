"""The simulated MySQL server, whose sessions end when a search lets them.

A real server needs a moment to see that a client has gone or that a session was killed, and counts time-outs by its own
clock. Until then the session keeps its locks.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator, Sequence
from enum import IntEnum
from functools import partial
from types import FunctionType
from typing import Any

from harness.fidelity.simulated import SteppedHost
from harness.sim.kernel import ScheduledCall
from harness.sim.servers.mysql.named_locks import NS_PER_S
from harness.sim.servers.mysql.server import MysqlServer
from harness.sim.servers.mysql.session import SqlSession
from harness.sim.servers.mysql.values import to_number
from harness.sim.servers.waits import Wait, WaitOutcome
from harness.sim.service import Conn, ServiceHost

from .mysql_steps import SteppedTransaction, SteppedTransactions


class End(IntEnum):
    """What a search lets happen to a session."""

    TIMED_OUT = 0
    """Its wait ends."""
    INTERRUPTED = 1
    """Its wait ends since the server sees that the client has gone."""
    GONE = 2
    """It ends since the server sees that the client has gone."""
    IDLE = 3
    """It ends since its client has been silent for too long."""
    KILLED = 4
    QUERY_KILLED = 5
    STOPPED = 6
    """Its statement, which had stopped, goes on."""


class _Pickler(pickle.Pickler):
    """Copies by reference what expressions in the definitions of tables were compiled to."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.functions: list[FunctionType] = []

    def persistent_id(self, value: Any) -> int | None:
        if not isinstance(value, FunctionType) or "<locals>" not in value.__qualname__:
            return None
        self.functions.append(value)
        return len(self.functions) - 1


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, functions: Sequence[FunctionType]) -> None:
        super().__init__(file)
        self._functions = functions

    def persistent_load(self, number: Any) -> FunctionType:
        found: FunctionType = self._functions[number]
        return found


def pack(state: Any) -> tuple[bytes, Sequence[FunctionType]]:
    """Return a copy of the state of a server without compiled statements, in which none waits."""
    packed = io.BytesIO()
    pickler = _Pickler(packed)
    pickler.dump(state)
    return packed.getvalue(), pickler.functions


def unpack(packed: bytes, functions: Sequence[FunctionType]) -> Any:
    return _Unpickler(io.BytesIO(packed), functions).load()


class UntimedHost(SteppedHost):
    """A host on which no timer fires."""

    def call_later(self, delay_ns: int, fn: Any, *args: Any) -> ScheduledCall:  # noqa: ARG002
        return ScheduledCall(fn, args)


class TraceSession(SqlSession):
    """A session of a recorded connection."""

    def __init__(self, server: TraceServer, conn: Conn, number: int) -> None:
        super().__init__(server, conn, number)
        self._trace = server
        self.last_ns = 0
        """Time of the last request."""
        self.replied_ns = 0
        """Time of the reply to the last request."""
        self.may_time_out = True
        """Whether the recorded reply to the last request allows that its wait has timed out."""
        self.may_be_idle = False
        """Whether the real server ended the connection, and has no other request to reply to."""

    def kill(self, *, query_only: bool) -> None:
        self._trace.kills[self.number] = End.QUERY_KILLED if query_only else End.KILLED

    def ends(self, before_ns: int, early_ns: int) -> Iterator[End]:
        """Yield what may end before a time, with time-outs that may be early."""
        waited_ns = before_ns - self.last_ns + early_ns
        wait = self._wait
        if wait is not None and wait.limit_ns is not None and self.may_time_out and waited_ns >= wait.limit_ns:
            yield End.TIMED_OUT
        if wait is not None and wait.checks_client and self.client_gone:
            yield End.INTERRUPTED
        timeout_ns = to_number(self.variables["wait_timeout"]) * NS_PER_S
        if wait is None and self.may_be_idle and waited_ns >= timeout_ns:
            yield End.IDLE
        if self.number in self._trace.gone:
            yield End.GONE
        if self.number in self._trace.kills:
            yield self._trace.kills[self.number]
        if self.stopped is not None:
            yield End.STOPPED

    @property
    def stopped(self) -> Wait | None:
        """Where the statement has stopped, None if it has not."""
        return self.trx.stopped if isinstance(self.trx, SteppedTransaction) else None

    def begin_statement(self, *, stops: bool) -> None:
        """Note whether the next statement stops before its row locks."""
        self._trace.stepped.stops = stops
        if isinstance(self.trx, SteppedTransaction):
            self.trx.begin_statement(stops=stops)

    def let_end(self, end: End) -> None:
        if end is End.IDLE:
            self.server.run_event(self._expire)
        elif end in (End.KILLED, End.QUERY_KILLED):
            del self._trace.kills[self.number]
            self.server.run_event(partial(super().kill, query_only=end is End.QUERY_KILLED))
        elif end is End.STOPPED:
            self.end_wait(WaitOutcome.GRANTED)
        elif end is End.GONE:
            self.server.run_event(self._trace.end_gone, self)
        else:
            self.end_wait(WaitOutcome.TIMEOUT if end is End.TIMED_OUT else WaitOutcome.KILLED)


class TraceServer(MysqlServer):
    """A server with sessions of recorded connections."""

    def __init__(self, *, lock_wait_timeout: float, wait_timeout: float) -> None:
        super().__init__(lock_wait_timeout=lock_wait_timeout, wait_timeout=wait_timeout)
        self.gone: dict[int, TraceSession] = {}
        """Sessions without a client, whose statement is over."""
        self.kills: dict[int, End] = {}
        """Sessions that are to be killed."""
        self.several = False
        """Whether an event has let several sessions continue, which a real server does in any order."""
        self.transactions = self.stepped = SteppedTransactions()

    def start(self, host: ServiceHost, *, wiped: bool) -> None:
        super().start(host, wiped=wiped)
        if wiped:
            self.transactions = self.stepped = SteppedTransactions()

    def opened(self, conn: Conn) -> None:
        self.add_session(conn, partial(TraceSession, self, conn)).send_greeting()

    def stop(self) -> None:
        super().stop()
        self.gone.clear()
        self.kills.clear()

    def next_runnable(self) -> SqlSession:
        self.several |= len(self._runnable) > 1
        return super().next_runnable()

    def remove_session(self, session: SqlSession) -> None:
        if session.client_gone and isinstance(session, TraceSession):
            self.gone[session.number] = session
        else:
            super().remove_session(session)

    def end_gone(self, session: TraceSession) -> None:
        """End a session whose client has gone."""
        self.gone.pop(session.number, None)
        super().remove_session(session)
