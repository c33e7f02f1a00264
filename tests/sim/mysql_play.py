"""Plays statements over several connections, in a fixed order, on any MySQL: the same code on the simulated server and
on a real one."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import Any

import pymysql

from harness.sim import threads
from harness.sim.hosts import Host
from harness.sim.servers.mysql.server import MysqlServer
from tests.sim.world import World

PATIENCE = 0.06
"""Seconds after which a statement that has not answered is taken to wait for a lock."""
LIMIT = 20.0
Outcome = tuple[Any, ...]
Connect = Callable[[], "pymysql.connections.Connection[Any]"]
Step = tuple[int, str]
"""A connection's number and a statement."""


def connect_to(host: str, port: int = 3306, **options: Any) -> pymysql.connections.Connection[Any]:
    return pymysql.connect(
        host=host, port=port, user="harness", password="harness", database="harness", ssl_disabled=True, **options
    )


def ask(connection: pymysql.connections.Connection[Any], statement: str) -> Outcome:
    """What became of a statement: its rows, or rows affected and the id, or the number of the error."""
    try:
        with connection.cursor() as cursor:
            affected = cursor.execute(statement)
            if cursor.description is not None:
                return ("rows", cursor.fetchall())
            return ("ok", affected, cursor.lastrowid)
    except pymysql.MySQLError as error:
        number = error.args[0] if error.args else None
        return ("error", number, error.args[1] if number == 1062 else "")


class Player:
    """A connection with a thread of its own, so that one that waits holds up nobody."""

    def __init__(self, connect: Connect) -> None:
        self.connection = connect()
        self._asked: queue.Queue[str | None] = queue.Queue()
        self._answered: queue.Queue[Outcome] = queue.Queue()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        while (statement := self._asked.get()) is not None:
            self._answered.put(ask(self.connection, statement))

    def begin(self, statement: str) -> None:
        self._asked.put(statement)

    def answer(self, patience: float) -> Outcome | None:
        """The outcome, or None if it has not come in that time."""
        try:
            return self._answered.get(timeout=patience)
        except queue.Empty:
            return None

    def close(self) -> None:
        self._asked.put(None)
        self._thread.join(LIMIT)
        self.connection.close()


Told = list[tuple[int, str, bool, Outcome]]
"""Of each step: connection, statement, whether it had to wait, and what it answered in the end."""


def play(connect: Connect, setup: list[str], steps: list[Step], patience: float = PATIENCE) -> Told:
    """What became of each step. Steps for a connection that still waits are left out.

    A snapshot is kept open meanwhile: when a real server purges rows that are marked deleted is chance.
    """
    main = connect()
    for statement in setup:
        assert ask(main, statement)[0] != "error", statement
    main.commit()
    assert ask(main, "START TRANSACTION WITH CONSISTENT SNAPSHOT")[0] == "ok"
    players = [Player(connect) for _ in range(1 + max(number for number, _ in steps))]
    answers: list[tuple[int, str, bool, Outcome | None]] = []
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
            time.sleep(min(patience / 2, 0.2))  # whom the step has freed goes on
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


class Bench:
    """A simulated server on host ``db1`` and clients on host ``a``."""

    def __init__(self, seed: int = 0, **options: Any) -> None:
        self.world = World(seed)
        self.server = MysqlServer(**options)
        self.host = Host(self.world.network, "db1")
        self.host.install(self.server)

    def run(self, *mains: Callable[[], Any]) -> list[Any]:
        return self.world.run(*mains)

    def connect(self, **options: Any) -> pymysql.connections.Connection[Any]:
        return connect_to("db1", **options)


def play_simulated(setup: list[str], steps: list[Step], seed: int = 0) -> Told:
    bench = Bench(seed)
    (told,) = bench.run(lambda: play(bench.connect, setup, steps))
    threads.forget()
    return told  # type: ignore[no-any-return]
