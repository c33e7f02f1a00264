"""Runs steps on the simulated server, and on a real one with the same bytes.

A real server takes unpredictable time. A statement waits if the server says so, not if its answer is late. After each
statement that waits, more time passes than ``deadlock_timeout``, so that the session that closes a cycle is the one
that finds it.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Final, NamedTuple

from pg8000.native import Connection

from harness.clusters.kinds import ACCOUNT
from harness.fidelity.comparison import Step
from harness.fidelity.simulated import SteppedConnection, SteppedHost
from harness.sim.servers.postgres.server import PostgresServer

from .wire import CLOSED, AnswerReader, query, startup

DEADLOCK_MS: Final = 30
PASSED_S: Final = 0.1
"""Time that passes after a statement that waits."""
STUCK_S: Final = 1.0
"""A statement that the simulated server has answered waits on the real one, if it says so for this long."""
LIMIT_S: Final = 60.0
_SOON_S: Final = 0.002
_WALL_NS: Final = 1_700_000_000_000_000_000
_WAITS: Final = "SELECT wait_event_type FROM pg_stat_activity WHERE pid = :pid"
_CLIENTS: Final = "FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"


class StepResult(NamedTuple):
    """``answer`` is "" if the statement waits; ``ended`` are the answers to statements that have waited until this
    step, by session."""

    answer: str
    ended: dict[int, str]

    def text(self) -> str:
        late = [f"session {number}: {answer}" for number, answer in sorted(self.ended.items())]
        return " | ".join([self.answer or "waits", *late])


class _SimulatedSession:
    def __init__(self, host: SteppedHost) -> None:
        self.connection = SteppedConnection(host, "c1")
        self.reader = AnswerReader()
        self.connection.ask(startup())
        self.answer()

    def answer(self) -> str | None:
        self.reader.add(self.connection.take())
        return self.reader.take() or (self.reader.rest() if self.connection.closed else None)


def simulate(setup: Sequence[str], steps: Sequence[Step]) -> list[StepResult]:
    """Run all steps on a new simulated server."""
    host = SteppedHost(PostgresServer(deadlock_timeout=f"{DEADLOCK_MS}ms"), _WALL_NS)
    sessions: dict[int, _SimulatedSession] = {}
    waiting: set[int] = set()
    first = _SimulatedSession(host)
    for statement in setup:
        first.connection.ask(query(statement))
        first.answer()
    found = []
    for kind, number, *text in steps:
        answer = "still waits"
        if number not in waiting and kind == "close":
            answer = CLOSED
            if number in sessions:
                sessions.pop(number).connection.hang_up()
        elif number not in waiting:
            if number not in sessions:
                sessions[number] = _SimulatedSession(host)
            sessions[number].connection.ask(query(text[0]))
            answer = sessions[number].answer() or ""
            if not answer:
                waiting.add(number)
                host.run_timers(round(PASSED_S * 1e9))
                answer = sessions[number].answer() or ""
                waiting -= {number} if answer else set()
        ended = {other: late for other in sorted(waiting) if (late := sessions[other].answer())}
        ended.pop(number, None)
        waiting -= set(ended)
        found.append(StepResult(answer, ended))
    return found


class _RealSession:
    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address, LIMIT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.reader = AnswerReader()
        self.socket.sendall(startup())
        while self.answer(LIMIT_S) is None:
            pass

    def answer(self, patience_s: float) -> str | None:
        """Return an answer, None if there is none within this time."""
        found = self.reader.take()
        if found is None and select.select([self.socket], [], [], patience_s)[0]:
            data = self.socket.recv(1 << 16)
            if not data:
                return self.reader.rest()
            self.reader.add(data)
            found = self.reader.take()
        return found


class RealPlayer:
    """Runs the steps of one sequence on a real server."""

    def __init__(self, address: tuple[str, int], setup: Sequence[str]) -> None:
        self._address = address
        self._sessions: dict[int, _RealSession] = {}
        self._waiting: set[int] = set()
        host, port = address
        self._monitor = Connection(ACCOUNT, host=host, port=port, database=ACCOUNT, ssl_context=False)
        self._end_clients()
        for statement in setup:
            self._monitor.run(statement)

    def run(self, step: Step, simulated: StepResult) -> StepResult:
        """Run a step; ``simulated`` is its result on the simulated server."""
        kind, number, *text = step
        answer = "still waits"
        if number not in self._waiting:
            answer = self._close(number) if kind == "close" else self._execute(number, text[0], bool(simulated.answer))
        ended = {}
        for other in sorted(self._waiting - {number}):
            late = self._late(other, expected=other in simulated.ended)
            if late is not None:
                ended[other] = late
        self._waiting -= set(ended)
        return StepResult(answer, ended)

    def _close(self, number: int) -> str:
        session = self._sessions.pop(number, None)
        if session is not None:
            session.socket.close()
            pid = session.reader.pid
            _await_true(lambda: not self._monitor.run(_WAITS, pid=pid))
        return CLOSED

    def _execute(self, number: int, text: str, answered: bool) -> str:
        if number not in self._sessions:
            self._sessions[number] = _RealSession(self._address)
        session = self._sessions[number]
        session.socket.sendall(query(text))
        answer = self._await(session, STUCK_S if answered else PASSED_S)
        if answer is None:
            self._waiting.add(number)
        return answer or ""

    def _await(self, session: _RealSession, patience_s: float) -> str | None:
        """Return the answer, None if the server says for ``patience_s`` that the session waits for a lock."""
        since: float | None = None
        while (answer := session.answer(_SOON_S)) is None:
            if not self._waits(session):
                since = None
            elif since is None:
                since = time.monotonic()
            elif time.monotonic() - since > patience_s:
                return session.answer(0.0)
        return answer

    def _waits(self, session: _RealSession) -> bool:
        return bool(self._monitor.run(_WAITS, pid=session.reader.pid) == [["Lock"]])

    def _late(self, number: int, *, expected: bool) -> str | None:
        session = self._sessions[number]
        return self._await(session, STUCK_S) if expected or not self._waits(session) else session.answer(0.0)

    def _end_clients(self) -> None:
        self._monitor.run(f"SELECT pg_terminate_backend(pid) {_CLIENTS}")
        _await_true(lambda: not self._monitor.run(f"SELECT 1 {_CLIENTS}"))

    def close(self) -> None:
        """End all sessions."""
        with closing(self._monitor):
            self._end_clients()
            for session in self._sessions.values():
                session.socket.close()


def _await_true(test: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not test():
        if time.monotonic() > deadline:
            raise TimeoutError(f"the server did not end a session within {LIMIT_S:.0f} s")
        time.sleep(0.001)
