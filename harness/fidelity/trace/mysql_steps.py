"""Transactions of the simulated MySQL server whose statements can meet others in the middle.

A simulated statement runs until it waits. On a real server another one may run between any two of its row locks, such
as between a number of AUTO_INCREMENT and the row. Here a statement that overlapped with another one is executed as a
whole or, if the search chooses so, stops before each of its locks once, until the search lets it go on.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any

from harness.protocols.messages import Request
from harness.sim.servers.mysql import locks
from harness.sim.servers.mysql.errors import INTERRUPTED, SqlError
from harness.sim.servers.mysql.locks import LockKind, Mode
from harness.sim.servers.mysql.storage import Key, TableIndex
from harness.sim.servers.mysql.transactions import Level, Transaction, Transactions
from harness.sim.servers.waits import Wait, WaitOutcome

from .conversation import Conversation


class SteppedTransaction(Transaction):
    """A transaction; ``stops`` says whether its statement stops before locks."""

    def __init__(self, number: int, level: Level, lock_wait_ns: int, *, stops: bool) -> None:
        super().__init__(number, level, lock_wait_ns)
        self.stops = stops
        self.stopped: Wait | None = None
        self._passed: set[tuple[str, str, Key, LockKind]] = set()

    def begin_statement(self, *, stops: bool) -> None:
        self.stops = stops
        self._passed.clear()

    @property
    def progress(self) -> tuple[bool, int]:
        """What the transaction has stopped for."""
        return self.stopped is not None, len(self._passed)

    def acquire(
        self, index: TableIndex, key: Key, mode: Mode, kind: LockKind, *, implicit: bool = False
    ) -> Generator[Wait, None, Any]:
        place = (index.table.name, index.name, key, kind)
        waited = False
        if self.stops and place not in self._passed and not locks.is_held(self, index, key, mode, kind):
            self._passed.add(place)
            waited = True
            yield from self._stop()
        return (yield from super().acquire(index, key, mode, kind, implicit=implicit)) or waited

    def _stop(self) -> Generator[Wait, None, None]:
        self.stopped = wait = Wait(None)
        yield wait
        self.stopped = None
        if wait.ended is not WaitOutcome.GRANTED:
            raise SqlError(INTERRUPTED)


class SteppedTransactions(Transactions):
    """All open transactions of a server. ``stops`` holds for the statement that is executed next."""

    stops = False

    def begin(self, level: Level, lock_wait_ns: int) -> Transaction:
        trx = SteppedTransaction(self._next, level, lock_wait_ns, stops=self.stops)
        self._next += 1
        self.active[trx.number] = trx
        return trx


def overlapping(talks: Iterable[Conversation], chosen: Iterable[Request]) -> set[int]:
    """Return the ids of the requests that were open at the same time as one of another connection."""
    wanted = {id(request) for request in chosen}
    spans = sorted(
        (request.time_ns, request.replied_ns, talk.number, id(request))
        for talk in talks
        for request in talk.requests
        if id(request) in wanted and request.replied_ns is not None
    )
    found: set[int] = set()
    opened: list[tuple[int, int, int]] = []
    for began, ended, number, request in spans:
        opened = [one for one in opened if one[0] >= began]
        others = [one for one in opened if one[1] != number]
        found |= {one[2] for one in others} | ({request} if others else set())
        opened.append((ended, number, request))
    return found
