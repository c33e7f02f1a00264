"""The simulated PostgreSQL as the specification of a recorded one.

A statement that waits for a lock gets its reply when another session releases the lock, or when the search lets its
wait end: not before its ``lock_timeout`` or ``deadlock_timeout``.
"""

from __future__ import annotations

import io
import pickle
import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from harness.clusters.kinds.postgres import run_time_parameters
from harness.fidelity.simulated import SteppedConnection
from harness.protocols.messages import Reply, Request
from harness.protocols.postgres import ENCRYPTION, STARTUP, PostgresParser, answer, identity, reply_size
from harness.sim.servers.postgres.errors import DEADLOCK, LOCK_NOT_AVAILABLE, UNSUPPORTED
from harness.sim.servers.postgres.plans import Plan
from harness.sim.servers.postgres.server import PostgresServer
from harness.sim.servers.postgres.session import PgSession
from harness.sim.servers.postgres.statements import compile_statement
from harness.sim.servers.postgres.storage import Table
from harness.sim.servers.waits import WaitOutcome

from .clock import ServerClock
from .conversation import Conversation, Life, answered
from .postgres_limit import limit
from .service import Service
from .specification import Moment, SessionSpecification

_PROCESS: Final = re.compile(
    rb"version|_timestamp|now\s*\(|pg_(tables|catalog|stat|locks|backend)|count\s*\(|show ", re.IGNORECASE
)
"""Statements about the process or all tables, of which only errors are compared, if the simulated server has them."""
_TABLES: Final = re.compile(
    rb"\s*(insert|update|delete|create|drop|alter|truncate|lock|with|select\b.*\bfor\b)", re.IGNORECASE | re.DOTALL
)
_MET: Final = ("ERROR 23505 ", "ERROR 42710 ", "ERROR 42P07 ")
_CREATE: Final = re.compile(rb"\s*create\s+table\s+if\s+not\s+exists", re.IGNORECASE)
"""Of two sessions that create a table at once, one gets an error that the table exists, or its type does."""
EARLY_NS: Final = 2_000_000
"""Time by which a real time-out, which counts whole ms, may be early."""
_UNKNOWN_PID: Final = 1 << 30
"""From here on are the process ids of sessions whose client got no answer."""
TIMED_OUT: Final = 0
DEADLOCKED: Final = 1


class _Server(PostgresServer):
    """Counts the events that let several sessions continue, which a real server does in any order."""

    def __init__(self, parameters: Mapping[str, str]) -> None:
        super().__init__()
        self.settings |= parameters
        self.several = False

    def next_runnable(self) -> PgSession:
        self.several |= len(self._runnable) > 1
        return super().next_runnable()


class _Pickler(pickle.Pickler):
    """Copies a server. Compiled statements are functions, which are compiled again."""

    def __init__(self, packed: io.BytesIO, server: PostgresServer) -> None:
        super().__init__(packed)
        self._tables = server.tables
        self._texts = {id(plan): key for key, plan in server.plans.items()}

    def reducer_override(self, value: Any) -> Any:
        key = self._texts.get(id(value))
        return NotImplemented if key is None else (_compile_again, (*key, self._tables))


def _compile_again(text: str, declared: tuple[int, ...], tables: dict[str, Table]) -> Plan:
    return compile_statement(text, declared, tables) if tables else _without_tables(text, declared)


@lru_cache(256)
def _without_tables(text: str, declared: tuple[int, ...]) -> Plan:
    return compile_statement(text, declared, {})


class PostgresSpecification(SessionSpecification):
    """How a search drives the simulated PostgreSQL, with the server's run-time ``parameters``."""

    def __init__(self, found: Sequence[Life], clock: ServerClock, parameters: Mapping[str, str]) -> None:
        super().__init__()
        self._clock = clock
        self._server = _Server(parameters)
        self._last: dict[int, Request] = {}
        """The last request of each connection."""
        self._replies = {
            id(request): reply for life in found for talk in life.conversations for request, reply in answered(talk)
        }
        self._several = False
        self._left = self._lacks = self._overslept = False
        self._waited: set[int] = set()
        """Requests that waited for a lock in some execution."""
        self._tables = any(
            _TABLES.match(text) for life in found for talk in life.conversations for one in talk.requests
            for text in one.words[1:]
        )  # fmt: skip

    @property
    def undecided(self) -> str:
        """Why an execution may exist though none was found."""
        if self._tables:
            return "statements on tables may meet in the middle"
        if self._several or self._server.several:
            return "several sessions continued together, in an order that is open"
        if self._lacks:
            return "the simulated server lacks a statement"
        if self._overslept:
            return "a process of the server may not have run between the release of the lock and its lock_timeout"
        return "a client disconnected while its statement waited" if self._left else ""

    # Driving the server.

    def start(self, life: Life, chosen: int) -> None:  # noqa: ARG002
        self._last.clear()
        self._start_host(self._server, life)

    def execute(self, talk: Conversation, request: Request, chosen: int, moment: Moment) -> None:  # noqa: ARG002
        host = self._running()
        host.wall = chosen
        connection = self._talks.get(talk.number)
        if connection is None:
            pid, secret = next(filter(any, map(identity, [reply.data for reply in talk.replies[:3]])), (0, 0))
            self._server.next_number = pid or _UNKNOWN_PID + talk.number
            connection = self._talks[talk.number] = SteppedConnection(host, talk.peer)
            connection.session.secret = secret
        self._last[talk.number] = request
        connection.ask(request.data)
        if connection.session.waits:
            self._waited.add(id(request))

    def passing(self, before_ns: int) -> Sequence[int]:
        """Return the waits that may end, as twice the number of their connection, and 1 more for a deadlock. A wait
        whose recorded reply says another end does not."""
        return list(self._ending(before_ns))

    def _ending(self, before_ns: int) -> Iterator[int]:
        for number, connection in self._talks.items():
            session: PgSession = connection.session
            if not session.waits:
                continue
            request = self._last[number]
            reply = self._replies.get(id(request))
            waited = before_ns - request.time_ns + EARLY_NS
            for kind, state, least in (
                (TIMED_OUT, LOCK_NOT_AVAILABLE, session.duration_ns("lock_timeout")),
                (DEADLOCKED, DEADLOCK, session.duration_ns("deadlock_timeout")),
            ):
                if least and waited >= least and (reply is None or f" {state} " in answer(reply.data)):
                    yield 2 * number + kind

    def let_pass(self, chosen: int) -> None:
        number, kind = divmod(chosen, 2)
        session: PgSession = self._talks[number].session
        if kind == TIMED_OUT:
            session.end_wait(WaitOutcome.TIMEOUT)
        else:
            self._server.run_event(self._server.locks.check_deadlock, session.holder)

    def close(self, talk: Conversation) -> None:
        connection = self._talks.pop(talk.number, None)
        if connection is not None:
            self._left |= connection.session.waits
            connection.hang_up()

    def sent(self) -> list[tuple[int, bytes]]:
        self._several |= self._server.several
        found = []
        for number, connection in self._talks.items():
            if connection.sent:
                size = reply_size(self._last[number], connection.sent)
                if size:
                    data = connection.take()
                    found.append((number, data[:size]))
        return found

    def choices(self, request: Request, reply: Reply | None, moment: Moment) -> Sequence[int]:
        del request, reply
        return [max(1, self._clock.interval(*moment)[1])]

    # Comparing.

    def same(self, request: Request, real: bytes, simulated: bytes) -> bool:
        if request.words[0] in (ENCRYPTION, STARTUP):
            return real[:1] == simulated[:1]
        one, other = answer(real), answer(simulated)
        if any(map(_CREATE.match, request.words[1:])) and one.startswith(_MET):
            return True
        if any(map(_PROCESS.search, request.words[1:])):
            lacks = "ERROR " in other
            self._lacks |= lacks and one.endswith("; T")
            return lacks or "ERROR " not in one
        if f"ERROR {UNSUPPORTED} " in other:
            self._lacks = True
            return True
        self._overslept |= f" {LOCK_NOT_AVAILABLE} " in one and id(request) in self._waited
        return one == other

    def shown_request(self, request: Request) -> str:
        return b"; ".join(request.words).decode(errors="replace")

    def shown_reply(self, data: bytes) -> str:
        return answer(data)

    def digest(self) -> Hashable:
        server = self._server
        names: dict[Any, int] = {session.holder: session.number for session in server.sessions}
        owners = {id(session.trx): session.number for session in server.sessions if session.trx is not None}
        locks = [
            (tag, tuple((names.get(one), *one.held[tag].items()) for one in holders), tuple(map(names.get, queue)))
            for tag, holders, queue in server.locks.contents()
            if queue or tag[0] != "transaction"
        ]
        rows = [
            (
                table.name,
                number,
                owners.get(id(row.locker)),
                *((one.values, owners.get(id(one.writer))) for one in row.versions),
            )
            for table in server.tables.values()
            for number, row in table.rows.items()
        ]
        return tuple(locks), tuple(rows), tuple(server.tables)

    # Copies.

    def checkpoint(self) -> Any:
        """Return None while a statement waits, or one is prepared that was compiled before the last definition of a
        table: they cannot be copied."""
        if any(session.waits for session in self._server.sessions):
            return None
        packed = io.BytesIO()
        try:
            _Pickler(packed, self._server).dump((self._server.tables, self._server, self._host, self._talks))
        except (AttributeError, pickle.PicklingError):
            return None
        return packed.getvalue(), dict(self._last)

    def restore(self, state: Any) -> None:
        pickled, last = state
        _, self._server, self._host, self._talks = pickle.loads(pickled)
        self._last = dict(last)


SERVICE: Final = Service(
    PostgresParser,
    lambda found, clocks, options: PostgresSpecification(found, clocks[0], run_time_parameters(options)),
    limit,
)
