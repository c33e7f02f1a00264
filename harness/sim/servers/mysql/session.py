"""One client's session on the simulated MySQL server: login, variables, transaction, one statement at a time.

A statement runs as a generator that yields its waits; the session resumes it when the wait has ended. As on the real
server, a session that waits for a row lock notices that its client has disconnected only after the wait, when the
answer cannot be sent.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence

from harness.sim.servers.sessions import WaitingSession
from harness.sim.servers.waits import Wait, WaitOutcome
from harness.sim.service import Conn, Timer

from . import protocol, variables
from .errors import DEADLOCK, KILLED, UNKNOWN_COMMAND, SqlError
from .interface import ServerInterface
from .named_locks import NS_PER_S, lock_name
from .select import ResultSet
from .sql import first_word
from .transactions import Level, Transaction
from .values import Value, to_number
from .write import WriteResult

Answer = WriteResult | ResultSet
Statement = Generator[Wait, None, Answer]


class SqlSession(WaitingSession):
    """The session of one client's connection; ``number`` is its connection id."""

    server: ServerInterface

    def __init__(self, server: ServerInterface, conn: Conn, number: int) -> None:
        super().__init__()
        self.server = server
        self.conn = conn
        self.number = number
        self.row_count = 0
        self.database: str | None = None
        self.user_variables: dict[str, Value] = {}
        self.variables = dict(server.variables)
        self.trx: Transaction | None = None
        self.explicit = False
        """True if the session is inside BEGIN ... COMMIT."""
        self.explicit_insert_id: int | None = None
        """Value of LAST_INSERT_ID(expression) in this statement."""
        self.next_level: Level | None = None
        """Isolation level of the next transaction only, from SET TRANSACTION without SESSION."""
        self.client_gone = False
        self.closing = False
        """True if the session was killed, so that it ends with the present statement."""
        self._last_insert_id = 0
        self._found_rows = False
        self.salt = b""
        """Random bytes of the greeting, with which the client proves its password."""
        self._logged_in = False
        self._data = b""
        self._packets: list[tuple[int, bytes]] = []
        self._running: Statement | None = None
        self._command = ""
        self._sequence = 1
        self._idle_timer: Timer | None = None
        self._wait_timer: Timer | None = None

    # For SQL functions (SessionContext).

    @property
    def last_insert_id(self) -> int:
        return self._last_insert_id

    @last_insert_id.setter
    def last_insert_id(self, value: int) -> None:
        self._last_insert_id = self.explicit_insert_id = value

    def wall_ns(self) -> int:
        return self.server.host.wall_ns()

    def variable(self, name: str, scope: str) -> Value:
        if scope == "user":
            return self.user_variables.get(name)
        name = variables.known(name)
        return (self.server.variables if scope == "global" or variables.is_global(name) else self.variables)[name]

    def named(self, function: str, args: Sequence[Value]) -> Value:
        locks = self.server.named
        if function == "RELEASE_ALL_LOCKS":
            return locks.release_all(self)
        name = lock_name(function, args[0])
        if not name:
            return None
        if function == "RELEASE_LOCK":
            return locks.release(self, name)
        owner = locks.owner(name)
        return int(owner is None) if function == "IS_FREE_LOCK" else owner

    # Packets.

    def send_greeting(self) -> None:
        rng = self.server.host.rng
        self.salt = bytes(rng.randrange(33, 127) for _ in range(20))
        self.conn.send(protocol.frame(protocol.greeting(self.number, self.salt, self.status), 0))

    def received(self, data: bytes) -> None:
        packets, self._data = protocol.split(self._data + data)
        self._packets += packets
        self._serve()

    def _serve(self) -> None:
        while self._packets and self._running is None and not self.client_gone:
            sequence, payload = self._packets.pop(0)
            self._sequence = sequence + 1
            if self._idle_timer is not None:
                self._idle_timer.cancel()
                self._idle_timer = None
            if not self._logged_in:
                self._login(payload)
            else:
                self._handle(payload)

    def _login(self, payload: bytes) -> None:
        answer = protocol.login(payload)
        if answer.user != protocol.ACCOUNT or not protocol.proves(answer.answer, self.salt):
            used = "YES" if answer.answer else "NO"
            self._refuse(SqlError(1045, answer.user, self.conn.peer, used))
        elif answer.database not in ("", protocol.ACCOUNT):
            self._refuse(SqlError(1049, answer.database))
        else:
            self._logged_in = True
            self._found_rows = answer.found_rows
            self.database = answer.database or None
            self._answer(WriteResult())

    def _refuse(self, failure: SqlError) -> None:
        self._send([protocol.error(failure)])
        self.server.remove_session(self)
        self.conn.close()

    def _handle(self, payload: bytes) -> None:
        command, rest = payload[0], payload[1:]
        if command == protocol.COM_QUERY:
            self._command = first_word(rest)
            self._running = self.server.execute(self, rest.decode("utf8", errors="replace"))
            self.resume()
        elif command == protocol.COM_PING:
            self._answer(WriteResult())
        elif command == protocol.COM_INIT_DB:
            name = rest.decode(errors="replace")
            self._answer(WriteResult() if name == protocol.ACCOUNT else SqlError(1049, name))
        elif command == protocol.COM_QUIT:
            self.server.remove_session(self)
            self.conn.close()
        elif command == protocol.COM_RESET_CONNECTION:
            self.reset()
            self._answer(WriteResult())
        else:
            self._answer(SqlError(UNKNOWN_COMMAND))

    # Statements.

    def resume(self) -> None:
        """Run the statement until its next wait or its end."""
        running = self._running
        if running is None:
            return
        if self._wait_timer is not None:
            self._wait_timer.cancel()
        self._wait = self._wait_timer = None
        answer: Answer | SqlError
        try:
            wait = next(running)
        except StopIteration as done:
            answer = done.value
        except SqlError as failure:
            answer = failure
        else:
            self._await(wait)
            return
        self._running = None
        self._finish(answer)

    def _await(self, wait: Wait) -> None:
        self._wait = wait
        wait.on_end = lambda: self.server.schedule(self)
        if wait.ended is not None:
            self.server.schedule(self)
        elif wait.limit_ns is not None:
            self._wait_timer = self.server.host.call_later(
                wait.limit_ns, self.server.run_event, wait.end, WaitOutcome.TIMEOUT
            )

    def _finish(self, answer: Answer | SqlError) -> None:
        if isinstance(answer, ResultSet):
            self.row_count = -1
        else:
            self.row_count = answer.affected if isinstance(answer, WriteResult) else -1
        if self.server.on_command is not None:
            self.server.on_command(self.conn.peer, self._command)
            if not self.server.is_open(self):  # the callback has killed this server
                return
        if not self.closing or (isinstance(answer, SqlError) and answer.number == KILLED):
            self._answer(answer)
        if self.closing or self.client_gone:
            self.server.remove_session(self)
            self.conn.close()
        else:
            self._serve()

    @property
    def in_transaction(self) -> bool:
        return self.explicit or (not self.variables["autocommit"] and self.trx is not None)

    @property
    def status(self) -> int:
        return (protocol.AUTOCOMMIT if self.variables["autocommit"] else 0) | (
            protocol.IN_TRANSACTION if self.in_transaction else 0
        )

    def _answer(self, answer: Answer | SqlError) -> None:
        if isinstance(answer, SqlError):
            if answer.lacks:
                self.server.host.lacks(self.conn.peer, answer.lacks)
            self._send([protocol.error(answer)])
        elif isinstance(answer, ResultSet):
            self._send(protocol.result(answer.fields, answer.rows, self.status))
        else:
            affected = answer.found if self._found_rows and answer.found > answer.affected else answer.affected
            self._send([protocol.ok(affected, answer.insert_id, self.status)])
        timeout_s = to_number(self.variables["wait_timeout"])
        if not self._packets:
            self._idle_timer = self.server.host.call_later(
                round(timeout_s * NS_PER_S), self.server.run_event, self._expire
            )

    def _send(self, payloads: list[bytes]) -> None:
        self.conn.send(protocol.frames(payloads, self._sequence))

    # Transactions.

    @property
    def outlives_statement(self) -> bool:
        """True if a transaction outlives the statement."""
        return self.explicit or not self.variables["autocommit"]

    def level(self) -> Level:
        name = str(self.variables["tx_isolation"]).replace("-", " ")
        return self.next_level or name  # type: ignore[return-value]

    def transaction(self) -> Transaction:
        """Return the present transaction; begin one if there is none."""
        if self.trx is None:
            timeout_s = to_number(self.variables["innodb_lock_wait_timeout"])
            self.trx = self.server.transactions.begin(self.level(), round(timeout_s * NS_PER_S))
            self.next_level = None
        return self.trx

    def commit(self) -> Generator[Wait, None, None]:
        self.explicit = False
        self.next_level = None
        trx = self.trx
        if trx is not None:
            yield from self.server.commit(trx)
            self.trx = None

    def rollback(self) -> None:
        self.explicit = False
        self.next_level = None
        if self.trx is not None:
            trx, self.trx = self.trx, None
            self.server.end_transaction(trx, commit=False)

    def failed(self, failure: SqlError, mark: tuple[int, int]) -> None:
        """Undo a failed statement back to ``mark``, or the whole transaction after a deadlock or in autocommit."""
        trx = self.trx
        if trx is None:
            return
        if failure.number == DEADLOCK or not self.outlives_statement:
            self.rollback()
        else:
            self.server.transactions.rollback_to(trx, *mark)

    # End of the session.

    def kill(self, *, query_only: bool) -> None:
        """Interrupt the statement, and end the session unless ``query_only``."""
        if not query_only:
            self.closing = True
        if self._wait is not None:
            self._wait.end(WaitOutcome.KILLED)
        elif self._running is None and not query_only:
            self._expire()

    def _expire(self) -> None:
        """Close the connection if it is idle."""
        if self._running is None:
            self.server.remove_session(self)
            self.conn.close()

    def reset(self) -> None:
        """Restore the state of a new connection (COM_RESET_CONNECTION)."""
        self.rollback()
        self.server.named.release_all(self)
        self.variables = dict(self.server.variables)
        self._last_insert_id = 0

    def closed(self) -> None:
        """End the session because the client has disconnected: at once if it is idle, otherwise after its statement.
        A wait for a named lock or in SLEEP is interrupted after a second."""
        self.client_gone = True
        if self._running is None:
            self.server.remove_session(self)
        elif self._wait is not None and self._wait.checks_client:
            self._wait_timer = self.server.host.call_later(
                NS_PER_S, self.server.run_event, self._wait.end, WaitOutcome.KILLED
            )

    def drop(self) -> None:
        """Release everything that the session holds and stop its timers."""
        for timer in (self._idle_timer, self._wait_timer):
            if timer is not None:
                timer.cancel()
        if self._running is not None:
            self._running.close()
            self._running = None
        self.rollback()
        self.server.named.release_all(self)
