"""The simulated MySQL server as the specification of a recorded MariaDB.

A statement that waits gets its reply when another session releases the lock, or when the search lets its wait end: not
before its time-out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, Final

from harness.fidelity.simulated import SteppedConnection
from harness.protocols.messages import Reply, Request
from harness.protocols.mysql import LOGIN, QUERY, MysqlParser, read_answer
from harness.sim.servers.mysql import protocol
from harness.sim.servers.mysql.errors import UNSUPPORTED
from harness.sim.servers.mysql.storage import SqlTable

from .clock import ServerClock
from .conversation import Conversation, Life, answered
from .execution import FOREVER
from .mysql_limit import limit
from .mysql_server import End, TraceServer, TraceSession, UntimedHost, pack, unpack
from .mysql_steps import SteppedTransaction, overlapping
from .service import Service
from .specification import Moment, SessionSpecification

_PROCESS: Final = re.compile(
    rb"\s*(select\b(?:(?!\bfrom\b).)*\b(version|now|sysdate|\w*_timestamp|rand|uuid)\b|show\b|set\b.*\bsession_track)",
    re.IGNORECASE | re.DOTALL,
)
"""Statements about the process or the time, of which only errors are compared, if the simulated server has them."""
_LOCKING_READ: Final = re.compile(rb"\s*select\b.*\b(for\s+update|share)\b", re.IGNORECASE | re.DOTALL)
_TABLES: Final = re.compile(
    rb"\s*(insert|replace|update|delete|create|drop|alter|truncate|lock)|" + _LOCKING_READ.pattern,
    re.IGNORECASE | re.DOTALL,
)
_TIME: Final = re.compile(rb"\b(now|sysdate|\w*_timestamp|cur\w+|utc_\w+)\b", re.IGNORECASE)
_INSERT: Final = re.compile(rb"\s*insert\b", re.IGNORECASE)
_LACKS: Final = re.compile(rf"ERROR ({UNSUPPORTED}|1047|1064|1193|1305) ")
"""Errors of the simulated server for what it lacks."""
_GRANTED: Final = ("rows [('1')]", "rows [('1')] (autocommit)")
"""Replies to a statement whose wait has not timed out."""
EARLY_NS: Final = 5_000_000
"""Time by which a real time-out may be early: it is counted by a clock with ticks of 4 ms."""
LOCK_WAIT_TIMEOUT_S: Final = 50.0
WAIT_TIMEOUT_S: Final = 28800.0
MOST_INEXACT_NS: Final = 100_000_000
"""Bound of the inexactness of a written time: a longer interval is that of a statement that waited."""


class MysqlSpecification(SessionSpecification):
    """How a search drives the simulated MySQL server. The time-outs are the server's, in seconds."""

    HOST = UntimedHost

    def __init__(
        self, found: Sequence[Life], clock: ServerClock, *, lock_wait_timeout: float, wait_timeout: float
    ) -> None:
        super().__init__()
        self._clock = clock
        self._server = TraceServer(lock_wait_timeout=math.ceil(lock_wait_timeout), wait_timeout=math.ceil(wait_timeout))
        talks = [talk for life in found for talk in life.conversations]
        self._replies = {id(request): reply for talk in talks for request, reply in answered(talk)}
        self._last = {talk.number: request for talk in talks for request, _ in answered(talk)}
        """The last request of each connection that has a reply."""
        self._inexact_ns = 0
        """Longest interval of a statement that wrote the time: it may have written an earlier or a later one."""
        self._several = self._lacks = False
        on_tables = [request for talk in talks for request in talk.requests if _TABLES.match(request.words[-1])]
        self._tables = bool(on_tables)
        self._meeting = overlapping(talks, on_tables)

    @property
    def undecided(self) -> str:
        if self._tables:
            return "statements on tables may meet in the middle"
        if self._several or self._server.several:
            return "several sessions continued together, in an order that is open"
        return "the simulated server lacks a statement" if self._lacks else ""

    # Driving the server.

    def start(self, life: Life, chosen: int) -> None:  # noqa: ARG002
        self._start_host(self._server, life)

    def execute(self, talk: Conversation, request: Request, chosen: int, moment: Moment) -> None:  # noqa: ARG002
        host = self._running()
        host.wall = chosen >> 1
        if request.words[0] == LOGIN:
            _, _, number, salt = request.words
            self._server.next_number = int(number)
            connection = self._talks[talk.number] = SteppedConnection(host, talk.peer.rpartition(":")[0])
            connection.session.salt = salt
            connection.take()
        connection = self._talks[talk.number]
        session: TraceSession = connection.session
        reply = self._replies.get(id(request))
        session.last_ns = request.time_ns
        session.may_time_out = reply is None or reply.data.decode() not in _GRANTED
        session.may_be_idle = talk.ended_ns is not None and request is self._last.get(talk.number)
        session.replied_ns = request.replied_ns or FOREVER
        session.begin_statement(stops=bool(chosen & 1))
        connection.ask(request.data)

    def passing(self, before_ns: int) -> Sequence[int]:
        """Return what may happen to sessions, as the number of a session and an :class:`End` in one integer; first to
        those whose reply comes first."""
        return [number * len(End) + end for number, end in self._ends(before_ns)]

    def _ends(self, before_ns: int) -> Iterator[tuple[int, End]]:
        sessions = [session for session in self._server.sessions if isinstance(session, TraceSession)]
        for session in sorted(sessions, key=lambda one: one.replied_ns):
            yield from ((session.number, end) for end in session.ends(before_ns, EARLY_NS))

    def let_pass(self, chosen: int) -> None:
        number, end = divmod(chosen, len(End))
        session = self._server.session(number)
        assert isinstance(session, TraceSession)
        session.let_end(End(end))

    def close(self, talk: Conversation) -> None:
        connection = self._talks.pop(talk.number, None)
        if connection is not None:
            session: TraceSession = connection.session
            connection.hang_up()
            if session.number in self._server.gone:
                session.let_end(End.GONE)

    def sent(self) -> list[tuple[int, bytes]]:
        self._several |= self._server.several
        found = []
        for number, connection in self._talks.items():
            packets = [payload for _, payload in protocol.split(connection.take())[0]] if connection.sent else []
            while packets:
                text, size = read_answer(packets)
                found.append((number, text.encode()))
                del packets[:size]
        return found

    def choices(self, request: Request, reply: Reply | None, moment: Moment) -> Sequence[int]:
        """Return twice the reading of the clock, and 1 more if the statement stops before its row locks."""
        del reply
        readings = self._readings(request, *self._clock.interval(*moment))
        return [2 * one for one in readings] + ([2 * readings[0] + 1] if id(request) in self._meeting else [])

    def prompt(self, request: Request) -> bool:
        """Return False for a SELECT that may wait for a row. The sessions in a queue get the row in the order of their
        replies, so the search tries that order first. If it tries the order of arrival, and the real queue had another
        one, the first reply that differs comes seconds later."""
        return not _LOCKING_READ.match(request.words[-1])

    def _readings(self, request: Request, first: int, last: int) -> list[int]:
        """Return the earliest reading. A statement that compares with the time may also be executed with the latest
        one, or with as much an earlier one as the time that it compares with is inexact."""
        text = request.words[-1]
        if request.words[0] != QUERY or not _TIME.search(text):
            return [max(1, first)]
        if _INSERT.match(text):
            self._inexact_ns = max(self._inexact_ns, min(last - first, MOST_INEXACT_NS))
            return [max(1, first)]
        return list(dict.fromkeys([max(1, first), last, first - self._inexact_ns]))

    # Comparing.

    def same(self, request: Request, real: bytes, simulated: bytes) -> bool:
        one, other = real.decode(), simulated.decode()
        if request.words[0] == LOGIN:
            return one[:2] == other[:2]
        if _LACKS.match(other):
            self._lacks |= not _PROCESS.match(request.words[-1])
            return True
        return bool(_PROCESS.match(request.words[-1])) and one.startswith("ERROR") == other.startswith("ERROR")

    def shown_request(self, request: Request) -> str:
        words = request.words[:2] if request.words[0] == LOGIN else request.words[-1:]
        return b" ".join(words).decode(errors="replace")

    def shown_reply(self, data: bytes) -> str:
        return data.decode()

    def digest(self) -> Hashable:
        server = self._server
        owners = {session.trx.number: session.number for session in server.sessions if session.trx is not None}
        views = [(session.number, session.trx.view) for session in server.sessions if session.trx and session.trx.view]
        stopped = [
            (session.number, session.trx.progress)
            for session in server.sessions
            if isinstance(session.trx, SteppedTransaction) and session.trx.stopped
        ]
        tables = [_content(table, owners) for table in server.tables.values()]
        return (
            server.named.content(),
            tuple(tables),
            tuple(views),
            tuple(stopped),
            tuple(server.gone),
            tuple(server.kills.items()),
        )

    # Copies.

    def checkpoint(self) -> Any:
        """Return None while a statement waits, which cannot be copied. Compiled statements are compiled again."""
        if any(isinstance(session, TraceSession) and session.waits for session in self._server.sessions):
            return None
        plans = {name: table.plans for name, table in self._server.tables.items()}
        for table in self._server.tables.values():
            table.plans = {}
        try:
            return pack((self._server, self._host, self._talks))
        finally:
            for name, compiled in plans.items():
                self._server.tables[name].plans = compiled

    def restore(self, state: Any) -> None:
        self._server, self._host, self._talks = unpack(*state)


def _content(table: SqlTable, owners: Mapping[int, int]) -> Hashable:
    """Return the rows and locks of a table, with the sessions of open transactions."""
    rows = [
        (key, *((owners.get(version.trx), version.row) for version in record.versions))
        for key, record in table.clustered.entries.items()
    ]
    locks = [
        (index.name, key, *((owners.get(lock.trx.number), lock.mode, lock.kind, lock.wait is None) for lock in queue))
        for index in table.indexes
        for key, queue in index.locks.items()
    ]
    return table.name, table.next_auto, frozenset(rows), frozenset(locks)


SERVICE: Final = Service(
    MysqlParser,
    lambda found, clocks, options: MysqlSpecification(
        found,
        clocks[0],
        lock_wait_timeout=float(options.get("lock_wait_timeout", LOCK_WAIT_TIMEOUT_S)),
        wait_timeout=float(options.get("wait_timeout", WAIT_TIMEOUT_S)),
    ),
    limit,
)
