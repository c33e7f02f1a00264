"""The messages of one session: start of the connection, simple and extended queries, and their answers.

Source: https://www.postgresql.org/docs/15/protocol-flow.html and src/backend/tcop/postgres.c. Abstracted: COPY, cursors
of SQL. The first Execute of a portal runs its statement to the end, also if it asks for some rows only.
"""

from __future__ import annotations

import struct
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from harness.sim.servers.waits import Wait

from . import protocol, settings, sql, statements
from .errors import ABORTED, IN_FAILED_TRANSACTION, PROTOCOL, STARTING_UP, SYNTAX, PgError
from .interface import SessionInterface
from .plans import Outcome
from .statements import Prepared
from .values import decode, encode

Work = Generator[Wait, None, None]


@dataclass(slots=True)
class Portal:
    """A statement with its parameters; ``formats`` are those of its columns, 1 for binary.

    ``outcome`` is its result, None before it runs, and ``fetched`` the number of rows that the client has got. It has
    ``failed`` if its transaction block has, and cannot run any more, not even to end the block.
    """

    prepared: Prepared
    parameters: list[Any]
    formats: list[int]
    outcome: Outcome | None = None
    fetched: int = 0
    failed: bool = False


class MessageHandler:
    """Handles a session's messages and collects the answers."""

    def __init__(self, session: SessionInterface) -> None:
        self.statements: dict[str, Prepared] = {}
        self._session = session
        self._portals: dict[str, Portal] = {}
        self._started = False
        self._data = b""
        self._messages: list[tuple[str, bytes]] = []
        self._output: list[bytes] = []
        self._kind = ""
        """The message that was handled last."""
        self._skips = False
        """True after an error in an extended query, until Sync."""

    def send(self, data: bytes) -> None:
        """Add a message to the answer."""
        self._output.append(data)

    def flush(self) -> None:
        data, self._output = b"".join(self._output), []
        if data:
            self._session.conn.send(data)

    def add(self, data: bytes) -> None:
        """Add data of the client."""
        self._data += data
        while not self._started and self._data:
            first, self._data = protocol.split_startup(self._data)
            if first is None:
                return
            self._start(first)
        if self._started:
            messages, self._data = protocol.split(self._data)
            self._messages += messages

    def _start(self, first: bytes) -> None:
        session = self._session
        (code,) = struct.unpack_from(">i", first)
        if code in (protocol.SSL, protocol.GSS):
            session.conn.send(b"N")
            return
        if code == protocol.CANCEL:
            session.server.cancel(*struct.unpack_from(">ii", first, 4))
        elif not session.server.has_data:
            self.send(protocol.error(PgError(STARTING_UP, "the database system is starting up", fatal=True)))
        elif code != protocol.PROTOCOL:
            self.send(protocol.error(PgError(PROTOCOL, "unsupported frontend protocol", fatal=True)))
        else:
            self._log_in(first[4:])
            return
        self.flush()
        session.server.remove_session(session)
        session.conn.close()

    def _log_in(self, body: bytes) -> None:
        session = self._session
        self._started = True
        words = [word.decode() for word in body.rstrip(b"\0").split(b"\0")]
        for name, value in zip(words[::2], words[1::2], strict=False):
            if name.lower() in settings.DEFAULTS:
                session.set_config(name, value, local=False)
        self._output = [protocol.AUTHENTICATED]
        for name, shown in settings.REPORTED.items():
            self.send(protocol.parameter_status(shown, session.setting(name)))
        self.send(protocol.message(b"K", struct.pack(">ii", session.number, session.secret)))
        self._ready()

    def next(self) -> Work | None:
        """Return the work for the next message, None if there is none."""
        while self._messages:
            kind, body = self._messages.pop(0)
            self._kind = kind
            if self._skips and kind not in "SX":
                continue
            return self._handle(kind, body)
        return None

    def client_is_gone(self) -> None:
        """Forget the messages after the next answer, which cannot be sent: those of an extended query up to its Sync
        are handled, and Sync commits."""
        kinds = [kind for kind, _ in self._messages]
        keep = 0 if self._kind == "Q" or "S" not in kinds else kinds.index("S") + 1
        del self._messages[keep:]

    def _handle(self, kind: str, body: bytes) -> Work:
        session = self._session
        if kind == "X":
            session.server.remove_session(session)
            session.conn.close()
            return
        if kind == "H":
            self.flush()
            return
        if kind == "S":
            yield from self._sync()
            return
        try:
            if kind == "Q":
                yield from self._simple(protocol.texts(body, 1)[0][0])
            else:
                yield from self._extended(kind, body)
        except PgError as failure:
            self._fail(failure)
            self._skips = kind != "Q"
        if kind == "Q" and session.server.is_open(session):
            yield from self._sync()

    def _fail(self, failure: PgError) -> None:
        session = self._session
        session.fail()
        if failure.lacks:
            session.server.host.lacks(session.conn.peer, failure.lacks)
        if failure.fatal:
            session.terminate(failure)
        else:
            self.send(protocol.error(failure))

    def _sync(self) -> Work:
        session = self._session
        self._skips = False
        if not session.block:
            yield from session.commit()
        if session.server.is_open(session):
            self._ready()

    def _ready(self) -> None:
        session = self._session
        session.report_role()
        status = "E" if session.failed else "T" if session.block else "I"
        self.send(protocol.ready(status))
        self.flush()
        session.become_idle()

    # Queries.

    def _simple(self, text: str) -> Work:
        self.statements.pop("", None)
        found = sql.statements(text)
        if found:
            self._portals.pop("", None)
        else:
            self.send(protocol.EMPTY_QUERY)
        for at, statement in enumerate(found, 1):
            prepared = self._prepare(statement, ())
            formats = [0] * len(prepared.fields or ())
            yield from self._execute(Portal(prepared, [], formats), 0, describes=True, commits=at == len(found))

    def forget_portals(self) -> None:
        """Forget all portals, because their transaction has ended."""
        self._portals.clear()

    def fail_portals(self) -> None:
        """Mark all portals as failed, because their transaction block has failed: they stay until it ends."""
        for portal in self._portals.values():
            portal.failed = True

    def _take_snapshot(self, prepared: Prepared) -> None:
        """Take the snapshot of the transaction block if it has none: PostgreSQL analyzes and binds a query in one."""
        if prepared.plan is not None and self._session.block:
            trx = self._session.transaction()
            trx.queried = True
            self._session.server.transactions.snapshot(trx)

    def _refuse_in_failed(self, word: str) -> None:
        """Raise PgError if the transaction has failed and a statement is not one that ends it."""
        if self._session.failed and word not in statements.ENDS:
            raise PgError(IN_FAILED_TRANSACTION, ABORTED)

    def _prepare(self, statement: str, declared: tuple[int, ...]) -> Prepared:
        if statement:
            self._refuse_in_failed(sql.first_word(statement))
        return statements.prepare(self._session, statement, declared)

    def _execute(self, portal: Portal, limit: int, *, describes: bool = False, commits: bool = False) -> Work:
        """Execute a portal. ``commits`` is True for the last statement of a simple query, which commits before it is
        reported as complete."""
        session, prepared = self._session, portal.prepared
        if portal.outcome is None:
            session.start_statement()
            portal.outcome = yield from statements.run(session, prepared, portal.parameters)
            session.raise_if_interrupted()
            if not session.server.executed(session, prepared.word):
                return
            if commits and not session.block:
                yield from session.commit()
                if not session.server.is_open(session):
                    return
        if describes and prepared.fields is not None:
            self.send(protocol.row_description(prepared.fields, portal.formats))
        self._answer(portal, portal.outcome, limit)

    def _answer(self, portal: Portal, outcome: Outcome, limit: int) -> None:
        if outcome.rows is None:
            self.send(protocol.complete(outcome.tag))
            return
        rows = outcome.rows[portal.fetched :][: limit or None]
        portal.fetched += len(rows)
        fields = portal.prepared.fields or []
        for row in rows:
            cells = [
                encode(value, field.oid, binary=form == 1)
                for value, field, form in zip(row, fields, portal.formats, strict=True)
            ]
            self.send(protocol.data_row(cells))
        command, _, count = outcome.tag.rpartition(" ")
        tag = f"{command} {len(rows)}" if count.isdigit() else outcome.tag
        self.send(protocol.PORTAL_SUSPENDED if limit and len(rows) >= limit else protocol.complete(tag))

    # Extended queries.

    def _extended(self, kind: str, body: bytes) -> Work:
        if kind == "P":
            self._parse(body)
        elif kind == "B":
            self._bind(body)
        elif kind == "D":
            self._describe(body)
        elif kind == "C":
            names = self.statements if body[:1] == b"S" else self._portals
            names.pop(body[1:-1].decode(), None)
            self.send(protocol.CLOSE_COMPLETE)
        elif kind == "E":
            (name,), rest = protocol.texts(body, 1)
            yield from self._run_portal(name, *struct.unpack(">i", rest))
        else:
            raise PgError(PROTOCOL, f"invalid frontend message type {ord(kind)}", fatal=True)

    def _run_portal(self, name: str, limit: int) -> Work:
        portal = self._portal(name)
        if not portal.prepared.word:
            self.send(protocol.EMPTY_QUERY)
            return
        self._refuse_in_failed("" if portal.failed else portal.prepared.word)
        if portal.outcome is not None and portal.outcome.rows is None:
            raise PgError("55000", f'portal "{name}" cannot be run')
        yield from self._execute(portal, limit)

    def _parse(self, body: bytes) -> None:
        (name, text), rest = protocol.texts(body, 2)
        declared, _ = protocol.numbers(rest, "I")
        if not name:
            self.statements.pop("", None)
        found = sql.statements(text)
        if len(found) > 1:
            raise PgError(SYNTAX, "cannot insert multiple commands into a prepared statement")
        prepared = self._prepare(found[0] if found else "", declared)
        self._take_snapshot(prepared)
        if name in self.statements:
            raise PgError("42P05", f'prepared statement "{name}" already exists')
        self.statements[name] = prepared
        self.send(protocol.PARSE_COMPLETE)

    def _statement(self, name: str) -> Prepared:
        if name not in self.statements:
            kind = f'prepared statement "{name}"' if name else "unnamed prepared statement"
            raise PgError("26000", f"{kind} does not exist")
        return self.statements[name]

    def _portal(self, name: str) -> Portal:
        if name not in self._portals:
            raise PgError("34000", f'portal "{name}" does not exist')
        return self._portals[name]

    def _bind(self, body: bytes) -> None:
        (portal, name), rest = protocol.texts(body, 2)
        prepared = self._statement(name)
        formats, rest = protocol.numbers(rest, "h")
        values, rest = protocol.bound_values(rest)
        results, _ = protocol.numbers(rest, "h")
        if len(values) != len(prepared.parameters):
            counts = f'{len(values)} parameters, but prepared statement "{name}" requires {len(prepared.parameters)}'
            raise PgError(PROTOCOL, f"bind message supplies {counts}")
        self._refuse_in_failed(prepared.word)
        if portal and portal in self._portals:
            raise PgError("42P03", f'cursor "{portal}" already exists')
        self._take_snapshot(prepared)
        types = zip(values, prepared.parameters, _spread(formats, len(values)), strict=True)
        parameters = [decode(data, oid, binary=form == 1) for data, oid, form in types]
        self._portals[portal] = Portal(prepared, parameters, _spread(results, len(prepared.fields or ())))
        self.send(protocol.BIND_COMPLETE)

    def _describe(self, body: bytes) -> None:
        name = body[1:-1].decode()
        portal = None if body[:1] == b"S" else self._portal(name)
        prepared = self._statement(name) if portal is None else portal.prepared
        fields = prepared.fields
        if fields is not None:
            self._refuse_in_failed(prepared.word)
        if portal is None:
            self.send(protocol.parameter_description(prepared.parameters))
        formats = [0] * len(fields or ()) if portal is None else portal.formats
        self.send(protocol.NO_DATA if fields is None else protocol.row_description(fields, formats))


def _spread(formats: tuple[int, ...], count: int) -> list[int]:
    """Return the format of each value: none given means text, one is for all."""
    return list(formats) if len(formats) == count else [formats[0] if formats else 0] * count
