"""Row-based replication between simulated MariaDB servers, asynchronous or semi-synchronous.

Source: https://mariadb.com/kb/en/semisynchronous-replication/ with wait point AFTER_SYNC: a transaction is in the log
and on a replica before any other session sees it. After a time-out the primary continues without replicas until one has
caught up. Abstracted: servers exchange lines of JSON on a port of their own instead of the replication protocol; the
log is never truncated, and a position is the number of events before it; a replica applies what it receives at once and
ignores the locks of its own clients.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from harness.sim.servers.waits import Wait, WaitOutcome
from harness.sim.service import Conn, ServiceHost, Timer

from .interface import ServerInterface
from .named_locks import NS_PER_S
from .rows import RowWriter
from .storage import Key, SqlTable
from .transactions import Transaction

PORT: Final = 3307
RETRY_NS: Final = NS_PER_S
HEARTBEAT_NS: Final = NS_PER_S
SILENCE_LIMIT_NS: Final = 4 * NS_PER_S
"""A replica that has received nothing for this long reconnects."""
Event = dict[str, Any]
Answer = Callable[[dict[str, Any]], dict[str, Any]]


def encode(message: dict[str, Any]) -> bytes:
    """Encode a message as one line of JSON."""
    return json.dumps(message, default=_plain).encode() + b"\n"


def _plain(value: Any) -> dict[str, str]:
    if isinstance(value, datetime):
        return {"moment": value.isoformat()}
    assert isinstance(value, Decimal), value
    return {"decimal": str(value)}


def _from_plain(found: dict[str, Any]) -> Any:
    if "moment" in found:
        return datetime.fromisoformat(found["moment"])
    return Decimal(found["decimal"]) if "decimal" in found else found


def decode(line: bytes) -> dict[str, Any]:
    """Decode a line of JSON, with datetimes and Decimals restored."""
    found: dict[str, Any] = json.loads(line, object_hook=_from_plain)
    return found


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


class LineDecoder:
    """Splits the bytes of a connection into messages; it is kept as the connection's session."""

    def __init__(self) -> None:
        self._rest = b""
        self.position: int | None = None
        """Last acknowledged position in the log, if the other end is a replica."""

    def feed(self, data: bytes) -> list[dict[str, Any]]:
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [decode(line) for line in lines]


class MysqlReplication:
    """One server's replication, the :class:`~harness.sim.service.Service` on its second port.

    ``follows`` is the host of its primary, None if it is the primary. ``timeout_s`` is how long a commit waits for a
    replica if ``semi_sync``. ``log``, ``follows`` and ``history`` are on disk.
    """

    port = PORT
    host: ServiceHost

    def __init__(self, server: ServerInterface, *, follows: str | None, semi_sync: bool, timeout_s: float) -> None:
        self.server = server
        self.semi_sync = semi_sync
        self.log: list[Event] = []
        self.history = ""
        """Random id of the log; a replica with a non-empty log can only follow a primary with the same id."""
        self.follows = self._first_follows = follows
        self.waits_for_replica = semi_sync
        """True if commits wait for a replica: switched off by a time-out, and on again once one has caught up."""
        self.broken = False
        self._timeout_ns = round(timeout_s * NS_PER_S)
        self._followers: dict[Conn, None] = {}
        self._waits: list[tuple[int, Wait]] = []
        self._primary_conn: Conn | None = None
        self._silence_timer: Timer | None = None

    # Start and stop.

    def start(self, host: ServiceHost, *, wiped: bool) -> None:
        self.host = host
        if wiped:
            self.log, self.history, self.follows = [], "", self._first_follows
        self.waits_for_replica = self.semi_sync
        self.broken = False
        self.server.variables["read_only"] = 1
        self._send_heartbeats()
        if self.follows is not None:
            self._connect()

    def stop(self) -> None:
        self._followers.clear()
        self._waits.clear()
        self._primary_conn = self._silence_timer = None

    # On the primary.

    def write(self, event: Event) -> Generator[Wait, None, None]:
        """Append an event to the log and send it; if semi-synchronous, wait until a replica has it."""
        self.log.append(event)
        self._send(len(self.log) - 1)
        if self.waits_for_replica and self.follows is None:
            wait = Wait(self._timeout_ns)
            place = (len(self.log), wait)
            wait.abandon = lambda: self._waits.remove(place) if place in self._waits else None
            self._waits.append(place)
            yield wait
            if wait.ended is WaitOutcome.TIMEOUT:
                self._stop_waiting()

    def _stop_waiting(self) -> None:
        """End all waits and switch semi-synchronous replication off, because no replica answered in time."""
        if self.waits_for_replica:
            self.waits_for_replica = False
            self.host.log("timeout waiting for a replica's reply: semi-sync replication switched OFF")
        waits, self._waits = self._waits, []
        for _, wait in waits:
            wait.end(WaitOutcome.GRANTED)

    def _send(self, first: int) -> None:
        for conn in self._followers:
            conn.send(encode({"events": self.log[first:], "from": first, "history": self.history}))

    def _send_heartbeats(self) -> None:
        for conn in self._followers:
            conn.send(encode({"events": [], "from": len(self.log), "history": self.history}))
        self.host.call_later(HEARTBEAT_NS, self._send_heartbeats)

    def opened(self, conn: Conn) -> None:
        conn.session = LineDecoder()

    def received(self, conn: Conn, data: bytes) -> None:
        lines: LineDecoder = conn.session
        for message in lines.feed(data):
            self.server.run_event(self._handle, conn, lines, message)

    def closed(self, conn: Conn) -> None:
        self._followers.pop(conn, None)

    def _handle(self, conn: Conn, lines: LineDecoder, message: dict[str, Any]) -> None:
        if "follow" in message:
            self._add_follower(conn, lines, message["follow"], message["history"])
        elif "ack" in message:
            lines.position = message["ack"]
            self._on_ack()
        else:
            conn.send(encode(self._execute_order(message)))

    def _add_follower(self, conn: Conn, lines: LineDecoder, position: int, history: str) -> None:
        if position > len(self.log) or (position and history != self.history):
            conn.send(encode({"error": "no such place in the log"}))  # error 1236
            return
        lines.position = position
        self._followers[conn] = None
        conn.send(encode({"events": self.log[position:], "from": position, "history": self.history}))

    def _on_ack(self) -> None:
        most = max((conn.session.position for conn in self._followers), default=0)
        done = [place for place in self._waits if place[0] <= most]
        self._waits = [place for place in self._waits if place[0] > most]
        for _, wait in done:
            wait.end(WaitOutcome.GRANTED)
        if self.semi_sync and not self.waits_for_replica and most == len(self.log):
            self.waits_for_replica = True
            self.host.log("semi-sync replication switched ON: a replica has caught up")

    # Requests of the manager.

    def _execute_order(self, message: dict[str, Any]) -> dict[str, Any]:
        if "open" in message:
            self._accept_writes()
        elif "promote" in message:
            self.host.log("promoted: follows nobody any more")
            self._disconnect()
            self.follows = None
            self._accept_writes()
        elif "rebuild" in message:
            self._rebuild(message["rebuild"])
        return {
            "read_only": self.server.variables["read_only"],
            "follows": self.follows,
            "broken": self.broken,
            "position": len(self.log),
        }

    def _accept_writes(self) -> None:
        """Let clients write, and start a log if the server has none."""
        if not self.history:
            self.history = f"{self.host.rng.getrandbits(64):016x}"
        self.server.variables["read_only"] = 0

    def _rebuild(self, primary: str) -> None:
        """Drop everything and copy it from the primary again."""
        self.host.log(f"rebuilt as a replica of {primary}")
        self._disconnect()
        self.server.variables["read_only"] = 1
        self.server.drop_everything()
        self.log, self.history, self.follows, self.broken = [], "", primary, False
        for conn in list(self._followers):
            conn.close()
        self._followers.clear()
        self._connect()

    # On a replica.

    def _connect(self) -> None:
        if self.follows is not None and self._primary_conn is None:
            self._primary_conn = self.host.dial(self.follows, PORT, _PrimaryLink(self))
            self.restart_silence_timer()

    def _disconnect(self) -> None:
        link, self._primary_conn = self._primary_conn, None
        if self._silence_timer is not None:
            self._silence_timer.cancel()
        if link is not None:
            link.close()

    def restart_silence_timer(self) -> None:
        """Wait :data:`SILENCE_LIMIT_NS` from now for the next message of the primary."""
        if self._silence_timer is not None:
            self._silence_timer.cancel()
        self._silence_timer = self.host.call_later(SILENCE_LIMIT_NS, self.on_lost)

    def greeting(self) -> bytes:
        """Return the request to follow the primary from this server's position in the log."""
        return encode({"follow": len(self.log), "history": self.history})

    def on_lost(self) -> None:
        """Reconnect, because the connection to the primary is lost or was silent for too long."""
        self._disconnect()
        if self.follows is not None:
            self.host.call_later(RETRY_NS, self._connect)

    def is_primary_conn(self, conn: Conn) -> bool:
        """Return whether this is the present connection to the primary."""
        return conn is self._primary_conn

    def replay(self, conn: Conn, message: dict[str, Any]) -> None:
        """Log the events of a message from the primary, acknowledge them, and apply them."""
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
            self.server.apply_definition(event["definition"])
            return
        everyone = self.server.transactions
        trx = everyone.begin("READ COMMITTED", 0)
        trx.unlocked = True
        for name, what, key, row in event["rows"]:
            table = self.server.tables.get(name)
            if table is not None:
                apply_change(RowWriter(everyone, trx), table, what, _tuples(key), _tuples(row))
        self.server.end_transaction(trx, commit=True)


def apply_change(rows: RowWriter, table: SqlTable, what: str, key: Key, row: Any) -> None:
    """Apply one change of the primary: ``what`` is insert, update or delete, ``row`` the new row."""
    record = table.clustered.entries.get(key)
    if what == "insert":
        if not table.clustered.columns:
            table.next_row = key[0][1] - 1
        step = rows.insert(table, row, "S")
        if table.auto_column is not None:
            table.store_auto(row)
            table.next_auto = max(table.next_auto, table.stored_auto)
    elif record is None:
        return
    elif what == "delete":
        step = rows.delete(table, record)
    else:
        step = rows.update(table, record, row)
    for _ in step:
        raise AssertionError("a replica must not wait for a lock")


class _PrimaryLink:
    """The handler of a replica's connection to its primary."""

    def __init__(self, replication: MysqlReplication) -> None:
        self._replication = replication

    def opened(self, conn: Conn) -> None:
        conn.session = LineDecoder()
        conn.send(self._replication.greeting())

    def received(self, conn: Conn, data: bytes) -> None:
        replication = self._replication
        if not replication.is_primary_conn(conn):
            return
        replication.restart_silence_timer()
        for message in conn.session.feed(data):
            replication.server.run_event(replication.replay, conn, message)

    def closed(self, conn: Conn) -> None:
        if self._replication.is_primary_conn(conn):
            self._replication.on_lost()


def rows_event(trx: Transaction) -> Event:
    """Return the log event with all row changes of a transaction."""
    return {"rows": [list(change) for change in trx.log]}
