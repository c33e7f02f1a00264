"""Replication of a log between simulated database servers, asynchronous or synchronous.

A primary sends each event of its log to the servers that follow it; a synchronous commit waits until one of them has
it. Servers exchange lines of JSON on a port of their own instead of a real protocol; the log is never truncated, and a
position is the number of events before it. A server that follows applies what it receives at once.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final, Generic, Protocol, TypeVar

from harness.sim.servers.waits import Wait, WaitOutcome
from harness.sim.service import Conn, ServiceHost, Timer

NS_PER_S: Final = 1_000_000_000
PORT: Final = 3307
RETRY_NS: Final = NS_PER_S
HEARTBEAT_NS: Final = NS_PER_S
SILENCE_LIMIT_NS: Final = 4 * NS_PER_S
"""A replica that has received nothing for this long reconnects."""
Event = dict[str, Any]


def encode(message: dict[str, Any]) -> bytes:
    """Encode a message as one line of JSON."""
    return json.dumps(message, default=_plain).encode() + b"\n"


def _plain(value: Any) -> dict[str, str | int]:
    if isinstance(value, datetime):
        return {"moment": value.isoformat()}
    if isinstance(value, timedelta):
        return {"microseconds": value // timedelta(microseconds=1)}
    assert isinstance(value, Decimal), value
    return {"decimal": str(value)}


def _from_plain(found: dict[str, Any]) -> Any:
    if "moment" in found:
        return datetime.fromisoformat(found["moment"])
    if "microseconds" in found:
        return timedelta(microseconds=found["microseconds"])
    return Decimal(found["decimal"]) if "decimal" in found else found


def decode(line: bytes) -> dict[str, Any]:
    """Decode a line of JSON, with datetimes, Decimals and timedeltas restored."""
    found: dict[str, Any] = json.loads(line, object_hook=_from_plain)
    return found


def tuples(value: Any) -> Any:
    """Return a decoded value with its lists as tuples."""
    return tuple(map(tuples, value)) if isinstance(value, list) else value


class LineDecoder:
    """Splits the bytes of a connection into messages; it is kept as the connection's session."""

    def __init__(self) -> None:
        self._rest = b""
        self.position: int | None = None
        """Last acknowledged position in the log, if the other end is a replica."""

    def feed(self, data: bytes) -> list[dict[str, Any]]:
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [decode(line) for line in lines]


class ReplicatedServer(Protocol):
    """What replication asks of a server."""

    def run_event(self, fn: Callable[..., None], *args: Any) -> None: ...

    def drop_everything(self) -> None:
        """Close all connections and drop all data."""


S = TypeVar("S", bound=ReplicatedServer)


class LogReplication(ABC, Generic[S]):
    """One server's replication, the :class:`~harness.sim.service.Service` on its second port.

    ``follows`` is the host of its primary, None if it is the primary, and empty if it has no data and waits for an
    order. ``timeout_s`` is how long a commit waits for a replica if ``synchronous``, None for no limit. ``log``,
    ``follows`` and ``history`` are on disk.
    """

    port = PORT
    host: ServiceHost

    def __init__(self, server: S, *, follows: str | None, synchronous: bool, timeout_s: float | None) -> None:
        self.server = server
        self.synchronous = synchronous
        self.log: list[Event] = []
        self.history = ""
        """Random id of the log; a replica with a non-empty log can only follow a primary with the same id."""
        self.follows = self.first_follows = follows
        self.waits_for_replica = synchronous
        """True if commits wait for a replica: switched off by a time-out, and on again once one has caught up."""
        self.broken = False
        self._timeout_ns = None if timeout_s is None else round(timeout_s * NS_PER_S)
        self._followers: dict[Conn, None] = {}
        self._waits: list[tuple[int, Wait]] = []
        self._primary_conn: Conn | None = None
        self._silence_timer: Timer | None = None

    # What differs between databases.

    @property
    @abstractmethod
    def read_only(self) -> bool:
        """True if clients must not write."""

    @abstractmethod
    def set_read_only(self, read_only: bool) -> None: ...

    @abstractmethod
    def forget_log(self) -> None:
        """Start with an empty disk: the first start, or one after the loss of the disk."""

    @abstractmethod
    def apply(self, event: Event) -> None:
        """Apply an event of the primary."""

    # Start and stop.

    def start(self, host: ServiceHost, *, wiped: bool) -> None:
        self.host = host
        self.broken = False
        if wiped:
            self.log, self.history = [], ""
            self.forget_log()
        self.waits_for_replica = self.synchronous
        self.set_read_only(True)
        self._send_heartbeats()
        self._connect()

    def stop(self) -> None:
        self._followers.clear()
        self._waits.clear()
        self._primary_conn = self._silence_timer = None

    # On the primary.

    def write(self, event: Event, *, waits: bool = True) -> Generator[Wait, None, None]:
        """Append an event to the log and send it; if synchronous and ``waits``, wait until a replica has it."""
        self.log.append(event)
        self._send(len(self.log) - 1)
        if waits and self.waits_for_replica and self.follows is None:
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
        self._on_ack()  # the acknowledgement of this position may be lost

    def _on_ack(self) -> None:
        most = max((conn.session.position for conn in self._followers), default=0)
        done = [place for place in self._waits if place[0] <= most]
        self._waits = [place for place in self._waits if place[0] > most]
        for _, wait in done:
            wait.end(WaitOutcome.GRANTED)
        if self.synchronous and not self.waits_for_replica and most == len(self.log):
            self.waits_for_replica = True
            self.host.log("semi-sync replication switched ON: a replica has caught up")

    # Requests of the manager.

    def _execute_order(self, message: dict[str, Any]) -> dict[str, Any]:
        if "open" in message:
            self.accept_writes()
        elif "promote" in message:
            self.host.log("promoted: follows nobody any more")
            self._disconnect()
            self.follows, self.broken = None, False
            self.accept_writes()
        elif "rebuild" in message:
            self._rebuild(message["rebuild"])
        return {
            "read_only": self.read_only,
            "follows": self.follows,
            "broken": self.broken,
            "position": len(self.log),
        }

    def accept_writes(self) -> None:
        """Let clients write, and start a log if the server has none."""
        if not self.history:
            self.history = f"{self.host.rng.getrandbits(64):016x}"
        self.set_read_only(False)

    def _rebuild(self, primary: str) -> None:
        """Drop everything and copy it from the primary again."""
        self.host.log(f"rebuilt as a replica of {primary}")
        self._disconnect()
        self.set_read_only(True)
        self.server.drop_everything()
        self.log, self.history, self.follows, self.broken = [], "", primary, False
        for conn in list(self._followers):
            conn.close()
        self._followers.clear()
        self._connect()

    # On a replica.

    def _connect(self) -> None:
        if self.follows and self._primary_conn is None:
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
            self.apply(event)


class _PrimaryLink:
    """The handler of a replica's connection to its primary."""

    def __init__(self, replication: LogReplication[Any]) -> None:
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
