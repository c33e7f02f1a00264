"""A sentinel's view of one watched server or other sentinel, and its connection to it.

Corresponds to sentinelRedisInstance in sentinel.c. Simplified: there is one connection, where a real sentinel has two
(one for commands, one for the pub/sub of hello messages).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from harness.sim.service import Conn, ServiceHost

from .protocol import ErrorReply, Reply, StatusReply, encode_command, parse_reply

PING_MS = 1000
INFO_MS = 10_000
RECONNECT_MS = 1000
STALE_LINK_MS = 15_000

Address = tuple[str, int]
ReplyHandler = Callable[[Reply], None]


class WatchedInstance:
    """One server or sentinel that this sentinel watches. Times are wall-clock milliseconds; 0 means never."""

    def __init__(
        self, host: ServiceHost, now_ms: Callable[[], int], kind: str, address: Address, down_after: int
    ) -> None:
        self.host = host
        self.now_ms = now_ms
        self.kind = kind
        self.address = address
        self.down_after_ms = down_after
        self.conn: Conn | None = None
        self.up = False
        self.input = b""
        self.pending: deque[ReplyHandler | None] = deque()
        now = now_ms()
        self.connect_started_ms = 0
        self.ping_due_since_ms = now
        """When the oldest unanswered PING was sent, or this object was created; 0 if all were answered."""
        self.last_ping_ms = 0
        self.last_pong_ms = now
        self.last_answer_ms = now
        self.down_since_ms = 0
        self.last_down_ms = 0
        # Fields from INFO.
        self.info_ms = 0
        self.run_id = ""
        self.role = "master" if kind == "master" else "slave"
        self.role_since_ms = now
        self.priority = 100
        self.offset = 0
        self.link_up = False
        self.link_down_ms = 0
        self.follows: Address | None = None
        self.follows_since_ms = now
        self.reconfigured = ""
        # Fields for other sentinels.
        self.reports_down = False
        self.reported_ms = 0
        self.asked_ms = 0
        self.vote: str | None = None
        self.vote_epoch = 0

    @property
    def name(self) -> str:
        """The run id of another sentinel once known, else ``host:port``."""
        known = self.kind == "sentinel" and self.run_id
        return known or f"{self.address[0]}:{self.address[1]}"

    @property
    def down(self) -> bool:
        """True if this sentinel considers it subjectively down."""
        return self.down_since_ms > 0

    # Connection

    def reconnect(self) -> None:
        """Connect if there is no connection, and close one that has been silent for too long."""
        now = self.now_ms()
        if self.conn is None and now - self.connect_started_ms >= RECONNECT_MS:
            self.connect_started_ms = self.last_ping_ms = now
            self.ping_due_since_ms = self.ping_due_since_ms or now
            self.conn = self.host.dial(*self.address, self)
        elif self.conn is not None and self._is_stale(now):
            self.hang_up()

    def _is_stale(self, now: int) -> bool:
        half = self.down_after_ms // 2
        silent = self.ping_due_since_ms and now - self.ping_due_since_ms > half and now - self.last_pong_ms > half
        return bool(silent) and now - self.connect_started_ms > STALE_LINK_MS

    def hang_up(self) -> None:
        conn, self.conn = self.conn, None
        self.up, self.input = False, b""
        self.pending.clear()
        if conn is not None:
            conn.close()

    def opened(self, conn: Conn) -> None:
        if self.conn is None or conn is self.conn:
            self.conn, self.up = conn, True
            self.ping()

    def closed(self, conn: Conn) -> None:
        if conn is self.conn:
            self.hang_up()

    def received(self, conn: Conn, data: bytes) -> None:
        if conn is not self.conn:
            return
        self.input += data
        while self.input and (found := parse_reply(self.input)) is not None:
            self.input = self.input[found[1] :]
            handler = self.pending.popleft() if self.pending else None
            if handler is not None:
                handler(found[0])

    def send(self, words: list[str], handler: ReplyHandler | None = None) -> None:
        """Send a command, and call ``handler`` with its reply."""
        if self.conn is not None and self.up:
            self.pending.append(handler)
            self.conn.send(encode_command([word.encode() for word in words]))

    def send_replicaof(self, primary: Address | None) -> None:
        """Make this Redis a replica of another one, or with None a primary."""
        target = ["NO", "ONE"] if primary is None else [primary[0], str(primary[1])]
        for words in (
            ["MULTI"],
            ["SLAVEOF", *target],
            ["CONFIG", "REWRITE"],
            ["CLIENT", "KILL", "TYPE", "normal"],
            ["CLIENT", "KILL", "TYPE", "pubsub"],
            ["EXEC"],
        ):
            self.send(words)

    # Liveness

    def ping_if_due(self) -> None:
        """Send a PING if the last one is old enough."""
        now, period = self.now_ms(), min(self.down_after_ms, PING_MS)
        if self.up and now - self.last_pong_ms > period and now - self.last_ping_ms > period // 2:
            self.ping()

    def ping(self) -> None:
        self.last_ping_ms = self.now_ms()
        self.ping_due_since_ms = self.ping_due_since_ms or self.last_ping_ms
        self.send(["PING"], self._ponged)

    def _ponged(self, reply: Reply) -> None:
        self.last_pong_ms = self.now_ms()
        if isinstance(reply, StatusReply) or (
            isinstance(reply, ErrorReply) and reply.text[:7] in (b"LOADING", b"MASTERD")
        ):
            self.last_answer_ms = self.last_pong_ms
            self.ping_due_since_ms = 0

    def looks_down(self) -> bool:
        """Return True if it was silent for too long, or reports the wrong role."""
        now = self.now_ms()
        silent = 0
        if self.ping_due_since_ms:
            silent = now - self.ping_due_since_ms
        elif not self.up:
            silent = now - self.last_answer_ms
        demoted = self.kind == "master" and self.role == "slave"
        too_long = now - self.role_since_ms > self.down_after_ms + 2 * INFO_MS
        return silent > self.down_after_ms or (demoted and too_long)

    # INFO

    def learn(self, fields: dict[str, str]) -> bool:
        """Store the fields of an INFO reply. Return True if the role has changed."""
        now = self.now_ms()
        self.info_ms = now
        self.run_id = fields.get("run_id", self.run_id)
        changed = fields.get("role", self.role) != self.role
        if changed:
            self.role, self.role_since_ms = fields["role"], now
        if self.role == "slave":
            self._learn_as_replica(fields, now)
        else:
            self.link_up, self.link_down_ms = False, 0
        return changed

    def _learn_as_replica(self, fields: dict[str, str], now: int) -> None:
        self.priority = int(fields.get("slave_priority", 100))
        self.offset = int(fields.get("slave_repl_offset", 0))
        self.link_up = fields.get("master_link_status") == "up"
        self.link_down_ms = 0 if self.link_up else 1000 * int(fields.get("master_link_down_since_seconds", 0))
        follows = (fields.get("master_host", "?"), int(fields.get("master_port", 0)))
        if follows != self.follows:
            self.follows, self.follows_since_ms = follows, now


def info_fields(reply: Reply) -> dict[str, str]:
    """Parse an INFO reply; anything else gives no fields."""
    text = reply.decode() if isinstance(reply, bytes) else ""
    return dict(line.split(":", 1) for line in text.split("\r\n") if ":" in line)


def replicas_in(fields: dict[str, str]) -> list[Address]:
    """Return the addresses in the lines slave0, slave1 ... of a primary's INFO."""
    found = []
    for name, value in fields.items():
        if name.startswith("slave") and name[5:].isdigit():
            parts = dict(part.split("=", 1) for part in value.split(","))
            found.append((parts["ip"], int(parts["port"])))
    return found
