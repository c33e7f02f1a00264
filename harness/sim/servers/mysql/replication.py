"""Replication between simulated MariaDB servers: a log of rows, sent to those who follow, asynchronously or
semi-synchronously.

Source: https://mariadb.com/kb/en/semisynchronous-replication/ (wait point AFTER_SYNC: a transaction is in the log and
with a replica before anybody sees it; after a time-out the primary goes on without, until a replica has caught up).
Abstracted: servers speak lines of JSON on a port of their own and not the replication protocol; the log is never cut
off, a place in it is the number of events before; a replica applies what it receives at once and past the locks of its
own clients.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from harness.sim.servers.mysql.locks import Outcome, Wait
from harness.sim.servers.mysql.named_locks import NS_PER_S
from harness.sim.servers.mysql.parts import Server
from harness.sim.servers.mysql.rows import Rows
from harness.sim.servers.mysql.storage import Key, Table
from harness.sim.servers.mysql.transactions import Transaction
from harness.sim.service import Conn, ServiceHost, Timer

PORT: Final = 3307
RETRY_NS: Final = NS_PER_S
HEARTBEAT_NS: Final = NS_PER_S
SILENCE_NS: Final = 4 * NS_PER_S
"""A replica that hears nothing for so long connects again."""
Event = dict[str, Any]
Answer = Callable[[dict[str, Any]], dict[str, Any]]


def encode(message: dict[str, Any]) -> bytes:
    return json.dumps(message, default=_plain).encode() + b"\n"


def _plain(value: Any) -> dict[str, str]:
    if isinstance(value, datetime):
        return {"moment": value.isoformat()}
    assert isinstance(value, Decimal), value
    return {"decimal": str(value)}


def _value(found: dict[str, Any]) -> Any:
    if "moment" in found:
        return datetime.fromisoformat(found["moment"])
    return Decimal(found["decimal"]) if "decimal" in found else found


def decode(line: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(line, object_hook=_value)
    return found


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


class Lines:
    """Cuts what arrives on a connection into messages; kept as its session."""

    def __init__(self) -> None:
        self._rest = b""
        self.position: int | None = None
        """Of a replica: how much of the log it has, once it has said so."""

    def take(self, data: bytes) -> list[dict[str, Any]]:
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [decode(line) for line in lines]


class Replication:
    """A server's part in replication: the program at its second port. ``log``, ``follows`` and ``history`` are on
    disk."""

    port = PORT
    host: ServiceHost

    def __init__(self, server: Server, *, follows: str | None, semi_sync: bool, timeout_s: float) -> None:
        self.server = server
        self.semi_sync = semi_sync
        self.log: list[Event] = []
        self.history = ""
        """Which log this is: servers that are to follow each other must have begun with the same one."""
        self.follows = self._first_follows = follows
        self.waiting_on = semi_sync
        """Whether commits wait for a replica now: not after a time-out, until one has caught up."""
        self.broken = False
        self._timeout_ns = round(timeout_s * NS_PER_S)
        self._followers: dict[Conn, None] = {}
        self._waits: list[tuple[int, Wait]] = []
        self._link: Conn | None = None
        self._silence: Timer | None = None

    # Life.

    def start(self, host: ServiceHost, *, wiped: bool) -> None:
        self.host = host
        if wiped:
            self.log, self.history, self.follows = [], "", self._first_follows
        self.waiting_on = self.semi_sync
        self.broken = False
        self.server.variables["read_only"] = 1
        self._beat()
        if self.follows is not None:
            self._connect()

    def stop(self) -> None:
        self._followers.clear()
        self._waits.clear()
        self._link = self._silence = None

    # The primary's side.

    def write(self, event: Event) -> Generator[Wait, None, None]:
        """Put an event into the log and send it; wait for a replica to have it, if that is the way."""
        self.log.append(event)
        self._send(len(self.log) - 1)
        if self.waiting_on and self.follows is None:
            wait = Wait(self._timeout_ns)
            place = (len(self.log), wait)
            wait.abandon = lambda: self._waits.remove(place) if place in self._waits else None
            self._waits.append(place)
            yield wait
            if wait.ended is Outcome.TIMEOUT:
                self._give_up()

    def _give_up(self) -> None:
        """A replica has not answered in time: nobody waits any more."""
        if self.waiting_on:
            self.waiting_on = False
            self.host.log("timeout waiting for a replica's reply: semi-sync replication switched OFF")
        waits, self._waits = self._waits, []
        for _, wait in waits:
            wait.end(Outcome.GRANTED)

    def _send(self, first: int) -> None:
        for conn in self._followers:
            conn.send(encode({"events": self.log[first:], "from": first, "history": self.history}))

    def _beat(self) -> None:
        for conn in self._followers:
            conn.send(encode({"events": [], "from": len(self.log), "history": self.history}))
        self.host.call_later(HEARTBEAT_NS, self._beat)

    def opened(self, conn: Conn) -> None:
        conn.session = Lines()

    def received(self, conn: Conn, data: bytes) -> None:
        lines: Lines = conn.session
        for message in lines.take(data):
            self.server.enter(self._handle, conn, lines, message)

    def closed(self, conn: Conn) -> None:
        self._followers.pop(conn, None)

    def _handle(self, conn: Conn, lines: Lines, message: dict[str, Any]) -> None:
        if "follow" in message:
            self._welcome(conn, lines, message["follow"], message["history"])
        elif "ack" in message:
            lines.position = message["ack"]
            self._acknowledged()
        else:
            conn.send(encode(self._orders(message)))

    def _welcome(self, conn: Conn, lines: Lines, position: int, history: str) -> None:
        if position > len(self.log) or (position and history != self.history):
            conn.send(encode({"error": "no such place in the log"}))  # error 1236
            return
        lines.position = position
        self._followers[conn] = None
        conn.send(encode({"events": self.log[position:], "from": position, "history": self.history}))

    def _acknowledged(self) -> None:
        most = max((conn.session.position for conn in self._followers), default=0)
        done = [place for place in self._waits if place[0] <= most]
        self._waits = [place for place in self._waits if place[0] > most]
        for _, wait in done:
            wait.end(Outcome.GRANTED)
        if self.semi_sync and not self.waiting_on and most == len(self.log):
            self.waiting_on = True
            self.host.log("semi-sync replication switched ON: a replica has caught up")

    # What a manager asks and orders.

    def _orders(self, message: dict[str, Any]) -> dict[str, Any]:
        if "open" in message:
            self._open_up()
        elif "promote" in message:
            self.host.log("promoted: follows nobody any more")
            self._leave()
            self.follows = None
            self._open_up()
        elif "rebuild" in message:
            self._rebuild(message["rebuild"])
        return {
            "read_only": self.server.variables["read_only"],
            "follows": self.follows,
            "broken": self.broken,
            "position": len(self.log),
        }

    def _open_up(self) -> None:
        """Let clients write. A server that never had a log begins one."""
        if not self.history:
            self.history = f"{self.host.rng.getrandbits(64):016x}"
        self.server.variables["read_only"] = 0

    def _rebuild(self, primary: str) -> None:
        """Drop everything, and get it anew from the primary."""
        self.host.log(f"rebuilt as a replica of {primary}")
        self._leave()
        self.server.variables["read_only"] = 1
        self.server.empty()
        self.log, self.history, self.follows, self.broken = [], "", primary, False
        for conn in list(self._followers):
            conn.close()
        self._followers.clear()
        self._connect()

    # The replica's side.

    def _connect(self) -> None:
        if self.follows is not None and self._link is None:
            self._link = self.host.dial(self.follows, PORT, _Link(self))
            self.listen()

    def _leave(self) -> None:
        link, self._link = self._link, None
        if self._silence is not None:
            self._silence.cancel()
        if link is not None:
            link.close()

    def listen(self) -> None:
        if self._silence is not None:
            self._silence.cancel()
        self._silence = self.host.call_later(SILENCE_NS, self.lost)

    def greeting(self) -> bytes:
        return encode({"follow": len(self.log), "history": self.history})

    def lost(self) -> None:
        """The connection to the primary is lost, or silent for too long."""
        self._leave()
        if self.follows is not None:
            self.host.call_later(RETRY_NS, self._connect)

    def is_link(self, conn: Conn) -> bool:
        return conn is self._link

    def replay(self, conn: Conn, message: dict[str, Any]) -> None:
        """Take events from the primary, say so, and apply them."""
        if "error" in message:
            self.broken = True
            return
        self.history = message["history"]
        events = message["events"][max(0, len(self.log) - message["from"]) :]
        self.log += events
        if events:
            conn.send(encode({"ack": len(self.log)}))
            self._send(len(self.log) - len(events))
        for event in events:
            self._apply(event)

    def _apply(self, event: Event) -> None:
        if "definition" in event:
            self.server.redefine(event["definition"])
            return
        everyone = self.server.transactions
        trx = everyone.begin("READ COMMITTED", 0)
        trx.unlocked = True
        for name, what, key, row in event["rows"]:
            table = self.server.tables.get(name)
            if table is not None:
                apply_change(Rows(everyone, trx), table, what, _tuples(key), _tuples(row))
        self.server.ended(trx, commit=True)


def apply_change(rows: Rows, table: Table, what: str, key: Key, row: Any) -> None:
    """Do to a table what was done to the primary's."""
    record = table.clustered.entries.get(key)
    if what == "insert":
        if not table.clustered.columns:
            table.next_row = key[0][1] - 1
        step = rows.insert(table, row, "S")
        if table.auto_column is not None:
            table.next_auto = max(table.next_auto, row[table.auto_column] + 1)
    elif record is None:
        return
    elif what == "delete":
        step = rows.delete(table, record)
    else:
        step = rows.update(table, record, row)
    for _ in step:
        raise AssertionError("a replica waits for nobody")


class _Link:
    """A replica's connection to its primary."""

    def __init__(self, replication: Replication) -> None:
        self._replication = replication

    def opened(self, conn: Conn) -> None:
        conn.session = Lines()
        conn.send(self._replication.greeting())

    def received(self, conn: Conn, data: bytes) -> None:
        replication = self._replication
        if not replication.is_link(conn):
            return
        replication.listen()
        for message in conn.session.take(data):
            replication.server.enter(replication.replay, conn, message)

    def closed(self, conn: Conn) -> None:
        if self._replication.is_link(conn):
            self._replication.lost()


def rows_event(trx: Transaction) -> Event:
    """What replicas are to do for a transaction."""
    return {"rows": [list(change) for change in trx.log]}
