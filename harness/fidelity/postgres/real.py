"""Runs steps on a real server.

A real server takes unpredictable time. A statement waits if the server says so and has looked for a deadlock, not if
its answer is late.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from harness.fidelity.comparison import Step
from harness.fidelity.processes import PATIENCE_S, ServerProcess, await_true
from harness.protocols.postgres_answers import CLOSED, AnswerReader

from .log import Monitor
from .results import REQUESTED, RESTARTED, SHORT, STILL_WAITS, StepResult
from .simulated import step_data
from .wire import cancel_request, query, startup

STUCK_S: Final = 3.0
"""A statement that the simulated server has answered waits on the real one, if it says so for this long."""
_SOON_S: Final = 0.002


class _Session:
    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address, PATIENCE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.reader = AnswerReader()
        self.closed = False
        self.answers: list[str] = []
        self.socket.sendall(startup())
        while not self.answers:
            select.select([self.socket], [], [])
            self.receive()
        self.answers.clear()

    def receive(self) -> None:
        """Read what has arrived."""
        try:
            data = self.socket.recv(1 << 16)
        except ConnectionError:
            data = b""
        self.reader.add(data)
        while (answer := self.reader.take()) is not None:
            self.answers.append(answer)
        if not data:
            self.closed = True
            self.socket.close()
            self.answers.append(self.reader.rest())

    def take(self) -> str:
        """Return the answers since the last call."""
        found, self.answers = self.answers, []
        return " / ".join(found)


class RealPlayer:
    """Runs the steps of one sequence."""

    def __init__(self, process: ServerProcess, setup: Sequence[str]) -> None:
        self._process, self._setup = process, setup
        self._sessions: dict[int, _Session] = {}
        self._waiting: set[int] = set()
        self._ghosts: set[int] = set()
        """Processes whose clients have disconnected."""
        self._monitor = Monitor(process.place.address, process.log_path)
        self._monitor.end_clients()
        self._make_tables()

    def _make_tables(self) -> None:
        for statement in self._setup:
            self._monitor.execute(statement)

    def run(self, step: Step, simulated: StepResult) -> StepResult:
        """Run a step; ``simulated`` is its result on the simulated server."""
        kind, number, *arguments = step
        if kind == "close":
            answer = self._close(number)
        elif kind == "restart":
            answer = self._restart(wiped=number == "without data")
        elif kind == "cancel":
            answer = self._cancel(number)
        elif number in self._waiting:
            answer = STILL_WAITS
        elif kind == "idle":
            answer = self._idle(number, *arguments, ends=simulated.answer.endswith(CLOSED))
        else:
            answer = ""
            self._send(number, step_data(self._sessions, kind, *arguments))
        expected = set(simulated.ended) | ({number} if simulated.answer and not answer else set())
        closing = {other for other in simulated.ended if simulated.closes(other)}
        self._settle(expected, closing)
        return StepResult(answer or self._take(number), self._ended())

    def _send(self, number: int, data: bytes) -> None:
        if number not in self._sessions:
            self._sessions[number] = _Session(self._process.place.address)
        session = self._sessions[number]
        self._waiting.add(number)
        self._monitor.forget(session.reader.pid)
        with suppress(ConnectionError):  # the server has closed it
            session.socket.sendall(data)

    def _take(self, number: int) -> str:
        """Return what a session got, "" if it waits."""
        if number not in self._sessions:
            return ""
        session = self._sessions[number]
        answer = session.take()
        if answer:
            self._waiting.discard(number)
        if session.closed:
            del self._sessions[number]
            self._ghosts.add(session.reader.pid)
        return answer

    def _ended(self) -> dict[int, str]:
        found = {number: self._take(number) for number in sorted(self._sessions)}
        return {number: answer for number, answer in found.items() if answer}

    # Waits.

    def _settle(self, expected: Iterable[int], closing: Iterable[int] = ()) -> None:
        """Wait until each session has answered, or waits and has looked for a deadlock, and closed ones have ended.

        The ``expected`` ones answer, and the ``closing`` ones end; if they wait, the others get time to disagree.
        """
        deadline = time.monotonic() + PATIENCE_S
        stuck_since: float | None = None
        while not self._is_settled():
            if time.monotonic() > deadline:
                raise TimeoutError(f"no answers within {PATIENCE_S:.0f} s: {self._process.log_end()}")
            self._receive(_SOON_S)
        while not self._is_as_expected(expected, closing):
            stuck_since = stuck_since or time.monotonic()
            if time.monotonic() - stuck_since > STUCK_S:
                return
            self._receive(_SOON_S)
            if not self._is_settled():
                stuck_since = None

    def _is_as_expected(self, expected: Iterable[int], closing: Iterable[int]) -> bool:
        ready = all(number not in self._sessions or self._sessions[number].answers for number in expected)
        return ready and all(number not in self._sessions or self._sessions[number].closed for number in closing)

    def _is_settled(self) -> bool:
        self._receive(0.0)
        asked = [self._sessions[number] for number in self._waiting if not self._sessions[number].answers]
        closed = {session.reader.pid for session in self._sessions.values() if session.closed}
        if not asked and not self._ghosts and not closed:
            return True
        states = self._monitor.states()
        self._ghosts &= states.keys()
        settled = all(states.get(session.reader.pid) for session in asked) and not closed & states.keys()
        return settled and all(states[pid] for pid in self._ghosts) and not self._receive(0.0)

    def _receive(self, patience_s: float) -> bool:
        """Read what arrives within ``patience_s``; return whether anything did."""
        sessions = {session.socket: session for session in self._sessions.values() if not session.closed}
        readable = select.select([*sessions], [], [], patience_s)[0]
        for one in readable:
            sessions[one].receive()
        return bool(readable)

    # Other steps.

    def _close(self, number: int) -> str:
        if number in self._sessions:
            session = self._sessions.pop(number)
            self._waiting.discard(number)
            session.socket.close()
            self._ghosts.add(session.reader.pid)
        return CLOSED

    def _cancel(self, number: int) -> str:
        if number in self._sessions:
            reader = self._sessions[number].reader
            with socket.create_connection(self._process.place.address, PATIENCE_S) as connection:
                connection.sendall(cancel_request(reader.pid, reader.secret))
                connection.recv(1)  # the server closes it after the signal
        return REQUESTED

    def _idle(self, number: int, setting: str, *, ends: bool) -> str:
        self._send(number, query(f"SET {setting} = '{SHORT}'"))
        self._settle({number})
        if ends:
            self._settle((), {number})
            return self._take(number)
        answer = self._take(number)
        self._send(number, query(f"RESET {setting}"))
        self._settle({number})
        return f"{answer} / {self._take(number)}"

    def _restart(self, *, wiped: bool) -> str:
        children = _children(self._process.pid)
        self._process.pause()  # otherwise it reports the end of a child to the others, and they its end to clients
        for pid in children:  # each is in a process group of its own
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.kill()
        await_true(lambda: not any(map(_runs, children)), "the end of the server's processes")
        self._process.restart(with_data=not wiped)
        self._ghosts.clear()
        for number in list(self._sessions):
            while not self._sessions[number].closed:
                self._receive(_SOON_S)
        self._monitor = Monitor(self._process.place.address, self._process.log_path)
        if wiped:
            self._make_tables()
        return RESTARTED

    def close(self) -> None:
        """End all sessions."""
        self._monitor.end_clients()
        self._monitor.close()
        for session in self._sessions.values():
            session.socket.close()


def _children(pid: int | None) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
