"""Runs steps on the simulated server.

Where the real server leaves open which of several sessions continues first, or which of several that began to wait
together looks for a deadlock first, every order is a possible execution of the simulated one; :class:`OrderSearch`
finds one that gives the real answers.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, Protocol

from harness.fidelity.comparison import Step
from harness.fidelity.simulated import SteppedConnection, SteppedHost, Timer
from harness.protocols.postgres_answers import CLOSED, AnswerReader
from harness.sim.kernel import ScheduledCall
from harness.sim.servers.postgres.server import PostgresServer
from harness.sim.servers.postgres.session import PgSession

from .results import DEADLOCK_TIMEOUT, REQUESTED, RESTARTED, SHORT, STILL_WAITS, StepResult
from .wire import cancel_request, extended, query, startup

MOST_ORDERS: Final = 2000
"""Executions to try before the answers of a real server count as impossible."""
_PASSED_NS: Final = 1_000_000_000
"""Time that passes after each step: longer than :data:`SHORT` and ``DEADLOCK_TIMEOUT``."""
_WALL_NS: Final = 1_700_000_000_000_000_000
_PID: Final = re.compile(r"\{pid(\d+)\}")
Choose = Callable[[int], int]
"""Returns which of so many events comes next."""


def first(count: int) -> int:  # noqa: ARG001
    """Choose the event that the simulator has first in runs."""
    return 0


class ReadSession(Protocol):
    """A session of a player, whose answers are read."""

    @property
    def reader(self) -> AnswerReader: ...


def step_data(sessions: Mapping[int, ReadSession], kind: str, content: object) -> bytes:
    """Return what a step of this kind sends: a simple query, or messages of extended queries."""
    if kind == "sql":
        return query(_with_pids(str(content), sessions))
    assert isinstance(content, tuple)
    return extended(content)


def _with_pids(text: str, sessions: Mapping[int, ReadSession]) -> str:
    """Put the process ids of sessions in the place of ``{pid0}``, ``{pid1}`` and so on; 0 if one is not open."""
    return _PID.sub(lambda found: str(sessions[int(found[1])].reader.pid if int(found[1]) in sessions else 0), text)


class _ChoosingServer(PostgresServer):
    def __init__(self, choose: Choose) -> None:
        super().__init__(deadlock_timeout=DEADLOCK_TIMEOUT)
        self._choose = choose
        self.checks_due: Callable[[], list[ScheduledCall]] = list
        """Returns the looks for a deadlock that are due now, of sessions that still wait."""

    def next_runnable(self) -> PgSession:
        """Choose the session that continues. Before it does, others may look for a deadlock: the victim of one holds
        its locks until it has rolled back."""
        while (due := self.checks_due()) and (chosen := self._choose(len(due) + 1)):
            due[chosen - 1].fire()
        self._runnable.rotate(-self._choose(len(self._runnable)))
        return super().next_runnable()


class _ChoosingHost(SteppedHost):
    def __init__(self, choose: Choose) -> None:
        self._choose = choose
        server = _ChoosingServer(choose)
        super().__init__(server, _WALL_NS)
        server.checks_due = partial(self._checks_due, server)

    def _checks_due(self, server: PostgresServer) -> list[ScheduledCall]:
        due = sorted(timer for timer in self._timers if timer[0] == self.now and timer[2].fn is not None)
        looks = [timer[2] for timer in due if timer[2].args[0] == server.locks.check_deadlock]
        return [one for one in looks if one.args[1].request is not None]

    def next_timer(self, timers: list[Timer]) -> Timer:
        due = sorted(timer for timer in timers if timer[0] == timers[0][0] and timer[2].fn is not None)
        if len(due) < 2:
            return super().next_timer(timers)
        chosen = due[self._choose(len(due))]
        timers.remove(chosen)
        heapq.heapify(timers)
        return chosen


class _Session:
    def __init__(self, host: SteppedHost) -> None:
        self.connection = SteppedConnection(host, "c1")
        self.reader = AnswerReader()
        self.connection.ask(startup())
        self.answer()

    def answer(self) -> str:
        """Return what the server has answered, "" for nothing."""
        self.reader.add(self.connection.take())
        found = []
        while (answer := self.reader.take()) is not None:
            found.append(answer)
        if self.connection.closed:
            found.append(self.reader.rest())
        return " / ".join(found)


class SimulatedPlayer:
    """Runs the steps of one sequence on a new simulated server."""

    def __init__(self, setup: Sequence[str], choose: Choose = first) -> None:
        self.waiting: set[int] = set()
        """Sessions whose statements wait."""
        self._setup = setup
        self._host = _ChoosingHost(choose)
        self._sessions: dict[int, _Session] = {}
        self._make_tables()

    def _make_tables(self) -> None:
        session = _Session(self._host)
        for statement in self._setup:
            session.connection.ask(query(statement))
            answer = session.answer()
            assert not answer.startswith("ERROR"), answer
        session.connection.hang_up()

    def run(self, step: Step) -> StepResult:
        kind, number, *arguments = step
        if kind == "close":
            answer = self._close(number)
        elif kind == "restart":
            answer = self._restart(wiped=number == "without data")
        elif kind == "cancel":
            answer = self._cancel(number)
        elif number in self.waiting:
            answer = STILL_WAITS
        elif kind == "idle":
            answer = self._idle(number, *arguments)
        else:
            answer = self._ask(number, step_data(self._sessions, kind, *arguments))
        self._host.run_timers(_PASSED_NS)
        return StepResult(answer or self._late(number), self._ended(number))

    def _session(self, number: int) -> _Session:
        if number not in self._sessions:
            self._sessions[number] = _Session(self._host)
        return self._sessions[number]

    def _ask(self, number: int, data: bytes) -> str:
        session = self._session(number)
        session.connection.ask(data)
        answer = session.answer()
        if session.connection.closed:
            del self._sessions[number]
        elif not answer:
            self.waiting.add(number)
        return answer

    def _late(self, number: int) -> str:
        """Return the answer that the session of the step got while time passed, "" if it waits."""
        answer = self._sessions[number].answer()
        if answer:
            self.waiting.discard(number)
        if self._sessions[number].connection.closed:
            del self._sessions[number]
        return answer

    def _idle(self, number: int, setting: str) -> str:
        answer = self._ask(number, query(f"SET {setting} = '{SHORT}'"))
        self._host.run_timers(_PASSED_NS)
        if self._sessions[number].connection.closed:
            return f"{answer} / {self._sessions.pop(number).answer()}"
        return f"{answer} / {self._ask(number, query(f'RESET {setting}'))}"

    def _close(self, number: int) -> str:
        self.waiting.discard(number)
        if number in self._sessions:
            self._sessions.pop(number).connection.hang_up()
        return CLOSED

    def _cancel(self, number: int) -> str:
        if number in self._sessions:
            reader = self._sessions[number].reader
            SteppedConnection(self._host, "c1").ask(cancel_request(reader.pid, reader.secret))
        return REQUESTED

    def _restart(self, *, wiped: bool) -> str:
        self._host.restart(with_data=not wiped)
        if wiped:
            self._make_tables()
        return RESTARTED

    def _ended(self, own: int) -> dict[int, str]:
        found = {}
        for number, session in sorted(self._sessions.items()):
            answer = session.answer() if number != own or number in self.waiting else ""
            if answer:
                found[number] = answer
                self.waiting.discard(number)
            if session.connection.closed:
                del self._sessions[number]
        return found


class OrderSearch:
    """The executions of a sequence on the simulated server that give the answers of the real one so far.

    They differ in the order in which sessions continue whose waits one event has ended, in that of timers which are due
    at the same time, and in whether these come before such sessions continue (depth first search).
    """

    def __init__(self, setup: Sequence[str], steps: Sequence[Step]) -> None:
        self._setup, self._steps = setup, steps
        self._real: list[str] = []
        self._execute([])

    def _execute(self, choices: list[int]) -> None:
        """Execute all steps with these choices, then always the first session."""
        made: list[tuple[int, int, int]] = []
        results: list[StepResult] = []

        def choose(count: int) -> int:
            at = len(made)
            chosen = choices[at] if at < len(choices) else 0
            made.append((len(results), chosen, count))
            return chosen

        player = SimulatedPlayer(self._setup, choose)
        for step in self._steps:
            results.append(player.run(step))
        self.results, self._made = results, made

    def match(self, real: str) -> str:
        """Return the answer of the simulated server to the next step: ``real`` if an execution gives it."""
        at = len(self._real)
        self._real.append(real)
        usual, kept = self.results[at].text(), (self.results, self._made)
        for _ in range(MOST_ORDERS):
            wrong = next((at for at, text in enumerate(self._real) if self.results[at].text() != text), None)
            if wrong is None:
                return real
            following = self._following(wrong)
            if following is None:
                break
            self._execute(following)
        self.results, self._made = kept
        return usual

    def _following(self, wrong: int) -> list[int] | None:
        """Return the next choices that differ from the present ones before the end of step ``wrong``, None if there
        are none."""
        made = [(chosen, count) for step, chosen, count in self._made if step <= wrong]
        while made:
            chosen, count = made.pop()
            if chosen + 1 < count:
                return [*(one for one, _ in made), chosen + 1]
        return None
