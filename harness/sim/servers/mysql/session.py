"""A connection to the simulated MySQL: its variables, its transaction, and one statement at a time.

A statement runs as a generator that yields what it waits for; the session goes on with it when that has ended. Like the
real server, a session that waits for a row notices that its client has gone only when the wait is over and the answer
cannot be sent.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence

from harness.sim.servers.mysql import protocol, variables
from harness.sim.servers.mysql.errors import DEADLOCK, KILLED, SqlError
from harness.sim.servers.mysql.locks import Outcome, Wait
from harness.sim.servers.mysql.named_locks import NS_PER_S
from harness.sim.servers.mysql.parts import Server
from harness.sim.servers.mysql.select import Rows
from harness.sim.servers.mysql.sql import first_word
from harness.sim.servers.mysql.transactions import Level, Transaction
from harness.sim.servers.mysql.values import Value, as_text, to_number
from harness.sim.servers.mysql.write import Done
from harness.sim.service import Conn, Timer

Answer = Done | Rows
Statement = Generator[Wait, None, Answer]


class Session:
    """One client's connection."""

    def __init__(self, server: Server, conn: Conn, number: int) -> None:
        self.server = server
        self.conn = conn
        self.number = number
        self.row_count = 0
        self.database: str | None = None
        self.user_variables: dict[str, Value] = {}
        self.variables = dict(server.variables)
        self.trx: Transaction | None = None
        self.explicit = False
        """Inside BEGIN ... COMMIT."""
        self.given_id: int | None = None
        """What LAST_INSERT_ID(expression) was given in this statement."""
        self.next_level: Level | None = None
        """SET TRANSACTION without SESSION: of the next transaction only."""
        self.gone = False
        self.closing = False
        """Killed: it ends with the statement."""
        self._last_insert_id = 0
        self._found_rows = False
        self._salt = b""
        self._logged_in = False
        self._data = b""
        self._packets: list[tuple[int, bytes]] = []
        self._running: Statement | None = None
        self._command = ""
        self._wait: Wait | None = None
        self._sequence = 1
        self._idle: Timer | None = None
        self._limit: Timer | None = None

    # What functions ask.

    @property
    def last_insert_id(self) -> int:
        return self._last_insert_id

    @last_insert_id.setter
    def last_insert_id(self, value: int) -> None:
        self._last_insert_id = self.given_id = value

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
        if args[0] is None:
            return None
        name = as_text(args[0])
        if function == "RELEASE_LOCK":
            return locks.release(self, name)
        owner = locks.owner(name)
        return int(owner is None) if function == "IS_FREE_LOCK" else owner

    # Packets.

    def greet(self) -> None:
        rng = self.server.host.rng
        self._salt = bytes(rng.randrange(33, 127) for _ in range(20))
        self.conn.send(protocol.frame(protocol.greeting(self.number, self._salt, self.status), 0))

    def received(self, data: bytes) -> None:
        packets, self._data = protocol.split(self._data + data)
        self._packets += packets
        self._serve()

    def _serve(self) -> None:
        while self._packets and self._running is None and not self.gone:
            sequence, payload = self._packets.pop(0)
            self._sequence = sequence + 1
            if self._idle is not None:
                self._idle.cancel()
                self._idle = None
            if not self._logged_in:
                self._login(payload)
            else:
                self._handle(payload)

    def _login(self, payload: bytes) -> None:
        answer = protocol.login(payload)
        if answer.user != protocol.ACCOUNT or not protocol.proves(answer.answer, self._salt):
            used = "YES" if answer.answer else "NO"
            self._refuse(SqlError(1045, answer.user, self.conn.peer, used))
        elif answer.database not in ("", protocol.ACCOUNT):
            self._refuse(SqlError(1049, answer.database))
        else:
            self._logged_in = True
            self._found_rows = answer.found_rows
            self.database = answer.database or None
            self._answer(Done())

    def _refuse(self, failure: SqlError) -> None:
        self._send([protocol.error(failure)])
        self.server.leave(self)
        self.conn.close()

    def _handle(self, payload: bytes) -> None:
        command, rest = payload[0], payload[1:]
        if command == protocol.COM_QUERY:
            self._command = first_word(rest)
            self._running = self.server.execute(self, rest.decode("utf8", errors="replace"))
            self.go_on()
        elif command == protocol.COM_PING:
            self._answer(Done())
        elif command == protocol.COM_INIT_DB:
            name = rest.decode(errors="replace")
            self._answer(Done() if name == protocol.ACCOUNT else SqlError(1049, name))
        elif command == protocol.COM_QUIT:
            self.server.leave(self)
            self.conn.close()
        elif command == protocol.COM_RESET_CONNECTION:
            self.reset()
            self._answer(Done())
        else:
            self._answer(SqlError(1047))

    # Statements.

    def go_on(self) -> None:
        """Run the statement until it waits or is done."""
        running = self._running
        if running is None:
            return
        if self._limit is not None:
            self._limit.cancel()
        self._wait = self._limit = None
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
        wait.on_end = lambda: self.server.wake(self)
        if wait.ended is not None:
            self.server.wake(self)
        elif wait.limit_ns is not None:
            self._limit = self.server.host.call_later(wait.limit_ns, self.server.enter, wait.end, Outcome.TIMEOUT)

    def _finish(self, answer: Answer | SqlError) -> None:
        if isinstance(answer, Rows):
            self.row_count = -1
        else:
            self.row_count = answer.affected if isinstance(answer, Done) else -1
        if self.server.on_command is not None:
            self.server.on_command(self.conn.peer, self._command)
            if not self.server.has(self):  # whoever was told has ended this server
                return
        if not self.closing or (isinstance(answer, SqlError) and answer.number == KILLED):  # its own doing is told
            self._answer(answer)
        if self.closing or self.gone:
            self.server.leave(self)
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
            self._send([protocol.error(answer)])
        elif isinstance(answer, Rows):
            self._send(protocol.result(answer.fields, answer.rows, self.status))
        else:
            affected = answer.found if self._found_rows and answer.found > answer.affected else answer.affected
            self._send([protocol.ok(affected, answer.insert_id, self.status)])
        timeout_s = to_number(self.variables["wait_timeout"])
        if not self._packets:
            self._idle = self.server.host.call_later(round(timeout_s * NS_PER_S), self.server.enter, self._expire)

    def _send(self, payloads: list[bytes]) -> None:
        self.conn.send(protocol.frames(payloads, self._sequence))

    # Transactions.

    @property
    def lasting(self) -> bool:
        """Does a transaction outlive the statement?"""
        return self.explicit or not self.variables["autocommit"]

    def level(self) -> Level:
        name = str(self.variables["tx_isolation"]).replace("-", " ")
        return self.next_level or name  # type: ignore[return-value]

    def transaction(self) -> Transaction:
        """The present transaction, begun now if there was none."""
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
            self.server.ended(trx, commit=False)

    def failed(self, failure: SqlError, mark: tuple[int, int]) -> None:
        """A statement failed: it is taken back, and with some errors the whole transaction."""
        trx = self.trx
        if trx is None:
            return
        if failure.number == DEADLOCK or not self.lasting:
            self.rollback()
        else:
            self.server.transactions.rollback_to(trx, *mark)

    # The end.

    def kill(self, *, query_only: bool) -> None:
        if not query_only:
            self.closing = True
        if self._wait is not None:
            self._wait.end(Outcome.KILLED)
        elif self._running is None and not query_only:
            self._expire()

    def _expire(self) -> None:
        """Close an idle connection."""
        if self._running is None:
            self.server.leave(self)
            self.conn.close()

    def reset(self) -> None:
        """As a connection that has just been opened."""
        self.rollback()
        self.server.named.release_all(self)
        self.variables = dict(self.server.variables)
        self._last_insert_id = 0

    def closed(self) -> None:
        """The client has gone: at once if the session is idle, else when its statement is done (one that waits for a
        named lock or sleeps is given up after a second)."""
        self.gone = True
        if self._running is None:
            self.server.leave(self)
        elif self._wait is not None and self._wait.watches:
            self._limit = self.server.host.call_later(NS_PER_S, self.server.enter, self._wait.end, Outcome.KILLED)

    def drop(self) -> None:
        """Free what the session holds; its timers are stopped."""
        for timer in (self._idle, self._limit):
            if timer is not None:
                timer.cancel()
        if self._running is not None:
            self._running.close()
            self._running = None
        self.rollback()
        self.server.named.release_all(self)
