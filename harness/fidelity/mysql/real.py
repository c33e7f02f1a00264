"""Runs steps on a real MariaDB.

A real server takes unpredictable time. A statement waits if the server says so, not if its answer is late. The results
on the simulated server say which answers are to be awaited.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

import pymysql

from harness.clusters.docker.services.mysql_manager import ACCOUNT as MANAGER
from harness.clusters.kinds import ACCOUNT
from harness.fidelity.comparison import Step
from harness.fidelity.processes import ServerProcess, await_true

from .connections import STILL_WAITS, Connections, Outcome, StatementThread, connect_to
from .simulated import StepResult

SOON_S: Final = 0.004
"""Most answers come within this time."""
STUCK_S: Final = 1.0
"""A statement that the simulated server has answered waits on the real one, if it says so for this long."""
_WAITS: Final = """SELECT
(SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'INNODB_ROW_LOCK_CURRENT_WAITS')
+ (SELECT COUNT(*) FROM information_schema.PROCESSLIST
   WHERE STATE IN ('User lock', 'User sleep', 'Waiting for table metadata lock'))"""


class Monitor:
    """The manager's connection to the real server, which reports the state of the clients' connections."""

    def __init__(self, address: tuple[str, int]) -> None:
        host, port = address
        self._connection = pymysql.connect(
            host=host, port=port, user=MANAGER, password=MANAGER, autocommit=True, ssl_disabled=True
        )

    def rows(self, statement: str) -> Any:
        with self._connection.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchall()

    def waits(self) -> int:
        """Return the number of statements that wait."""
        return int(self.rows(_WAITS)[0][0])

    def await_end(self, number: int) -> None:
        """Wait until a connection has ended and released what it held."""
        await_true(
            lambda: not self.rows(f"SELECT 1 FROM information_schema.PROCESSLIST WHERE ID = {number}"),
            f"the end of connection {number}",
        )

    def end_clients(self) -> None:
        """End all connections of clients."""
        clients = f"SELECT ID FROM information_schema.PROCESSLIST WHERE USER = '{ACCOUNT}'"
        for (number,) in self.rows(clients):
            with suppress(pymysql.MySQLError):  # it may have ended by itself
                self.rows(f"KILL {number}")
        await_true(lambda: not self.rows(clients), "the end of all connections")

    def settle(self) -> None:
        """Wait until the transactions of killed clients are rolled back and deleted rows are removed."""
        await_true(lambda: not self.rows("SELECT 1 FROM information_schema.INNODB_TRX"), "the end of all transactions")
        self.rows("SET GLOBAL innodb_max_purge_lag_wait = 0")

    def close(self) -> None:
        self._connection.close()


class RealPlayer:
    """Runs the steps of one sequence."""

    def __init__(self, process: ServerProcess, setup: Sequence[str]) -> None:
        self._process = process
        self._monitor = Monitor(process.place.address)
        self._connections = Connections(partial(connect_to, *process.place.address), setup)

    def run(self, step: Step, simulated: StepResult) -> StepResult:
        """Run a step; ``simulated`` is its result on the simulated server."""
        kind, *arguments = step
        outcome: Outcome | None = None
        answered = simulated.outcome is not None
        if kind == "settings":
            self._connections.settings[arguments[0]] = arguments[1]
        elif kind == "sql":
            outcome = self._execute(*arguments[:2], answered=answered)
        elif kind == "close":
            closed = self._connections.close(arguments[0])
            if closed is not None:
                self._monitor.await_end(closed.number)
        elif arguments[0] == "pause":
            outcome = self._pause(*arguments[1:], answered=answered)
        else:
            self._restart(wiped=arguments[1] == "without data")
        return StepResult(outcome, self._ended(simulated))

    def _execute(self, number: int, text: str, *, answered: bool) -> Outcome | None:
        if number in self._connections.waiting:
            return STILL_WAITS
        thread = self._connections.get(number)
        filled = self._connections.fill_in(text)
        thread.begin(filled)
        outcome = self._connections.note(number, self._await(number, thread, answered=answered))
        if filled.startswith("KILL") and "QUERY" not in filled:
            self._monitor.await_end(int(filled.split()[-1]))
        return outcome

    def _await(self, number: int, thread: StatementThread, *, answered: bool) -> Outcome | None:
        """Return the answer, None if the statement waits; ``answered``: it does not wait on the simulated server."""
        outcome = thread.answer(SOON_S)
        stuck_since: float | None = None
        while outcome is None:
            if self._monitor.waits() <= self._connections.number_waiting(besides=number):
                stuck_since = None
            elif not answered:
                return thread.answer(0.0)
            elif stuck_since is None:
                stuck_since = time.monotonic()
            elif time.monotonic() - stuck_since > STUCK_S:
                return thread.answer(0.0)
            outcome = thread.answer(SOON_S)
        return outcome

    def _pause(self, seconds: float, number: int, text: str, *, answered: bool) -> Outcome | None:
        if number in self._connections.waiting:
            return STILL_WAITS
        thread = self._connections.get(number)
        self._process.pause()
        thread.begin(text)
        time.sleep(seconds)
        self._process.resume()
        return self._connections.note(number, self._await(number, thread, answered=answered))

    def _restart(self, *, wiped: bool) -> None:
        # Otherwise the state after the kill depends on what the server's timer had flushed by then.
        self._monitor.rows("FLUSH ENGINE LOGS")
        self._process.restart(with_data=not wiped)
        self._monitor = Monitor(self._process.place.address)
        self._connections.close_idle()
        self._monitor.settle()
        if wiped:
            self._connections.make_tables()
        else:
            self._connections.keep_snapshot()

    def _ended(self, simulated: StepResult) -> dict[int, Outcome]:
        """Return the outcomes of the statements that wait no longer."""
        found: dict[int, Outcome] = {}
        for number in sorted(self._connections.waiting):
            thread = self._connections.get(number)
            expected = number in simulated.ended
            outcome = self._await(number, thread, answered=True) if expected else thread.answer(0.0001)
            if outcome is not None:
                self._connections.note(number, outcome)
                found[number] = outcome
        return found

    def close(self) -> None:
        """Close all connections."""
        self._monitor.end_clients()
        self._connections.close_all()
        self._monitor.close()
