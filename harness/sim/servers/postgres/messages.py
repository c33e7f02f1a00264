"""The messages of one session: start of the connection, simple and extended queries, and their answers.

Source: https://www.postgresql.org/docs/15/protocol-flow.html. Abstracted: COPY, cursors of SQL; a portal runs once, and
rows beyond the number that Execute asks for are dropped.
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Sequence
from typing import Any, NamedTuple

from harness.sim.servers.waits import Wait

from . import protocol, settings, sql, statements
from .errors import PROTOCOL, PgError
from .interface import SessionInterface
from .plans import Outcome
from .protocol import Field
from .statements import Prepared
from .values import decode, encode

Work = Generator[Wait, None, None]


class Portal(NamedTuple):
    """A statement with its parameters; ``formats`` are those of its columns, 1 for binary."""

    prepared: Prepared
    parameters: list[Any]
    formats: list[int]


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
            if self._skips and kind not in "SX":
                continue
            return self._handle(kind, body)
        return None

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
            self._sync()
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
            self._sync()

    def _fail(self, failure: PgError) -> None:
        session = self._session
        session.fail()
        if failure.fatal:
            session.terminate(failure)
        else:
            self.send(protocol.error(failure))

    def _sync(self) -> None:
        session = self._session
        self._skips = False
        if not session.block:
            session.end_transaction(commit=True)
        self._portals.clear()
        self._ready()

    def _ready(self) -> None:
        session = self._session
        status = "E" if session.failed else "T" if session.block else "I"
        self.send(protocol.ready(status))
        self.flush()
        session.become_idle()

    # Queries.

    def _simple(self, text: str) -> Work:
        found = sql.statements(text)
        if not found:
            self.send(protocol.EMPTY_QUERY)
        for statement in found:
            prepared = self._prepare(statement, ())
            formats = [0] * len(prepared.fields or ())
            yield from self._execute(Portal(prepared, [], formats), 0, describes=True)

    def _prepare(self, statement: str, declared: tuple[int, ...]) -> Prepared:
        session = self._session
        if session.failed and sql.first_word(statement) not in statements.ENDS:
            raise PgError("25P02", "current transaction is aborted, commands ignored until end of transaction block")
        return statements.prepare(session, statement, declared)

    def _execute(self, portal: Portal, limit: int, *, describes: bool = False) -> Work:
        session, prepared = self._session, portal.prepared
        session.start_statement()
        outcome = yield from statements.run(session, prepared, portal.parameters)
        session.raise_if_interrupted()
        if not session.server.executed(session, prepared.word):
            return
        if describes and prepared.fields is not None:
            self.send(protocol.row_description(prepared.fields, portal.formats))
        self._answer(outcome, prepared.fields or [], portal.formats, limit)

    def _answer(self, outcome: Outcome, fields: Sequence[Field], formats: list[int], limit: int) -> None:
        rows = outcome.rows or []
        for row in rows[: limit or None]:
            cells = [
                encode(value, field.oid, binary=form == 1)
                for value, field, form in zip(row, fields, formats, strict=True)
            ]
            self.send(protocol.data_row(cells))
        self.send(protocol.PORTAL_SUSPENDED if limit and len(rows) >= limit else protocol.complete(outcome.tag))

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
            portal = self._portals.get(name)
            if portal is None:
                raise PgError("34000", f'portal "{name}" does not exist')
            if portal.prepared.word:
                yield from self._execute(portal, struct.unpack(">i", rest)[0])
            else:
                self.send(protocol.EMPTY_QUERY)
        else:
            raise PgError(PROTOCOL, f"invalid frontend message type {ord(kind)}", fatal=True)

    def _parse(self, body: bytes) -> None:
        (name, text), rest = protocol.texts(body, 2)
        declared, _ = protocol.numbers(rest, "I")
        found = sql.statements(text)
        if len(found) > 1:
            raise PgError("42601", "cannot insert multiple commands into a prepared statement")
        if name and name in self.statements:
            raise PgError("42P05", f'prepared statement "{name}" already exists')
        self.statements[name] = self._prepare(found[0] if found else "", declared)
        self.send(protocol.PARSE_COMPLETE)

    def _statement(self, name: str) -> Prepared:
        if name not in self.statements:
            raise PgError("26000", f'prepared statement "{name}" does not exist')
        return self.statements[name]

    def _bind(self, body: bytes) -> None:
        (portal, name), rest = protocol.texts(body, 2)
        prepared = self._statement(name)
        formats, rest = protocol.numbers(rest, "h")
        values, rest = protocol.bound_values(rest)
        results, _ = protocol.numbers(rest, "h")
        if len(values) != len(prepared.parameters):
            counts = f"{len(values)} parameters, but prepared statement {name!r} requires {len(prepared.parameters)}"
            raise PgError(PROTOCOL, f"bind message supplies {counts}")
        types = zip(values, prepared.parameters, _spread(formats, len(values)), strict=True)
        parameters = [decode(data, oid, binary=form == 1) for data, oid, form in types]
        self._portals[portal] = Portal(prepared, parameters, _spread(results, len(prepared.fields or ())))
        self.send(protocol.BIND_COMPLETE)

    def _describe(self, body: bytes) -> None:
        name = body[1:-1].decode()
        if body[:1] == b"S":
            prepared = self._statement(name)
            self.send(protocol.parameter_description(prepared.parameters))
            formats = [0] * len(prepared.fields or ())
        elif name in self._portals:
            prepared, _, formats = self._portals[name]
        else:
            raise PgError("34000", f'portal "{name}" does not exist')
        fields = prepared.fields
        self.send(protocol.NO_DATA if fields is None else protocol.row_description(fields, formats))


def _spread(formats: tuple[int, ...], count: int) -> list[int]:
    """Return the format of each value: none given means text, one is for all."""
    return list(formats) if len(formats) == count else [formats[0] if formats else 0] * count
