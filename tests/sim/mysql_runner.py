"""Runs SQL statements over several connections in a fixed order, on the simulated MySQL server or on a real one."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import Any

import pymysql

from harness.sim.hosts import SimHost
from harness.sim.servers.mysql.server import MysqlServer
from tests.sim.world import TwoHostWorld

PATIENCE_S = 0.06
"""A statement without an answer after this long is considered to wait for a lock."""
LIMIT_S = 20.0
StatementOutcome = tuple[Any, ...]
Connect = Callable[[], "pymysql.connections.Connection[Any]"]
Step = tuple[int, str]
"""(number of the connection, statement)."""


def connect_to(host: str, port: int = 3306, **options: Any) -> pymysql.connections.Connection[Any]:
    return pymysql.connect(
        host=host, port=port, user="harness", password="harness", database="harness", ssl_disabled=True, **options
    )


def execute(connection: pymysql.connections.Connection[Any], statement: str) -> StatementOutcome:
    """Execute a statement and return its outcome: the rows, or affected rows and insert id, or the error's number."""
    try:
        with connection.cursor() as cursor:
            affected = cursor.execute(statement)
            if cursor.description is not None:
                return ("rows", cursor.fetchall())
            return ("ok", affected, cursor.lastrowid)
    except pymysql.MySQLError as error:
        number = error.args[0] if error.args else None
        return ("error", number, error.args[1] if number == 1062 else "")


class StatementThread:
    """A connection with a thread of its own, so that a waiting statement does not block the others."""

    def __init__(self, connect: Connect) -> None:
        self.connection = connect()
        self._statements: queue.Queue[str | None] = queue.Queue()
        self._outcomes: queue.Queue[StatementOutcome] = queue.Queue()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        while (statement := self._statements.get()) is not None:
            self._outcomes.put(execute(self.connection, statement))

    def begin(self, statement: str) -> None:
        self._statements.put(statement)

    def answer(self, patience: float) -> StatementOutcome | None:
        """Return the outcome, or None if there is none after ``patience`` seconds."""
        try:
            return self._outcomes.get(timeout=patience)
        except queue.Empty:
            return None

    def close(self) -> None:
        self._statements.put(None)
        self._thread.join(LIMIT_S)
        self.connection.close()


StepResults = list[tuple[int, str, bool, StatementOutcome]]
"""(number of the connection, statement, whether it had to wait, outcome) of each step."""


def run_steps(connect: Connect, setup: list[str], steps: list[Step], patience: float = PATIENCE_S) -> StepResults:
    """Run all steps and return their results. Steps of a connection that still waits are skipped.

    A snapshot is kept open meanwhile, because a real server purges deleted rows at unpredictable times.
    """
    main = connect()
    for statement in setup:
        assert execute(main, statement)[0] != "error", statement
    main.commit()
    assert execute(main, "START TRANSACTION WITH CONSISTENT SNAPSHOT")[0] == "ok"
    players = [StatementThread(connect) for _ in range(1 + max(number for number, _ in steps))]
    answers: list[tuple[int, str, bool, StatementOutcome | None]] = []
    waiting: dict[int, int] = {}
    ends = [(number, "ROLLBACK") for number in range(len(players))]
    for number, statement in [*steps, *ends, *ends, *ends]:
        if number in waiting:
            continue
        players[number].begin(statement)
        outcome = players[number].answer(patience)
        if outcome is None:
            waiting[number] = len(answers)
        answers.append((number, statement, outcome is None, outcome))
        if waiting:
            time.sleep(min(patience / 2, 0.2))  # statements that the step has unblocked continue
        for other, at in list(waiting.items()):
            late = players[other].answer(0.001)
            if late is not None:
                del waiting[other]
                answers[at] = (*answers[at][:3], late)
    assert not waiting, waiting
    for player in players:
        player.close()
    main.close()
    return [(number, statement, waited, outcome or ()) for number, statement, waited, outcome in answers]


class MysqlBench:
    """A simulated server on host ``db1``, and clients on hosts of their own."""

    def __init__(self, seed: int = 0, **options: Any) -> None:
        self.world = TwoHostWorld(seed)
        self.server = MysqlServer(**options)
        self.host = SimHost(self.world.network, "db1")
        self.host.install(self.server)

    def run(self, *mains: Callable[[], Any]) -> list[Any]:
        return self.world.run(*mains)

    def connect(self, **options: Any) -> pymysql.connections.Connection[Any]:
        return connect_to("db1", **options)


def run_steps_simulated(setup: list[str], steps: list[Step], seed: int = 0) -> StepResults:
    bench = MysqlBench(seed)
    (results,) = bench.run(lambda: run_steps(bench.connect, setup, steps))
    return results  # type: ignore[no-any-return]
