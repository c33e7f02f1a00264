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
from harness.sim.servers.mysql import MysqlServer
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
        self.waits = False
        self._asked: queue.Queue[str | None] = queue.Queue()
        self._answered: queue.Queue[Outcome] = queue.Queue()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        while (statement := self._asked.get()) is not None:
            self._answered.put(ask(self.connection, statement))

    def begin(self, statement: str) -> None:
        self._asked.put(statement)
        self.waits = True

    def answer(self, patience: float) -> Outcome | None:
        """The outcome, or None if it has not come in that time."""
        try:
            found = self._answered.get(timeout=patience)
        except queue.Empty:
            return None
        self.waits = False
        return found

    def close(self) -> None:
        self._asked.put(None)
        self._thread.join(LIMIT)
        self.connection.close()


def play(connect: Connect, setup: list[str], steps: list[Step]) -> list[tuple[int, str, Outcome]]:
    """What each step answered, in the order of the answers; ("waits",) marks a step that had to wait first. Steps for a
    connection that still waits are left out.

    A snapshot is kept open meanwhile: when a real server purges rows that are marked deleted is chance.
    """
    main = connect()
    for statement in setup:
        assert ask(main, statement)[0] != "error", statement
    main.commit()
    assert ask(main, "START TRANSACTION WITH CONSISTENT SNAPSHOT")[0] == "ok"
    players = [Player(connect) for _ in range(1 + max(number for number, _ in steps))]
    told: list[tuple[int, str, Outcome]] = []
    ends = [(number, "ROLLBACK") for number in range(len(players))]
    asked = {number: "" for number in range(len(players))}
    for number, statement in [*steps, *ends, *ends, *ends]:
        player = players[number]
        if player.waits:
            continue
        asked[number] = statement
        player.begin(statement)
        outcome = player.answer(PATIENCE)
        told.append((number, statement, outcome or ("waits",)))
        if statement in ("COMMIT", "ROLLBACK") or any(other.waits for other in players if other is not player):
            time.sleep(PATIENCE / 3)  # others go on, and what was deleted is purged
            told += _woken(players, asked)
    for player in players:
        player.close()
    main.close()
    return told


def _woken(players: list[Player], asked: dict[int, str]) -> list[tuple[int, str, Outcome]]:
    """Those that have waited and do so no longer."""
    found = []
    for number, player in enumerate(players):
        if player.waits:
            outcome = player.answer(0.001)
            if outcome is not None:
                found.append((number, asked[number], outcome))
    return found


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


def play_simulated(setup: list[str], steps: list[Step], seed: int = 0) -> list[tuple[int, str, Outcome]]:
    bench = Bench(seed)
    (told,) = bench.run(lambda: play(bench.connect, setup, steps))
    threads.forget()
    return told  # type: ignore[no-any-return]
