"""Asynchronous replication of the simulated Redis: the primary's list of replicas and a replica's link to its primary.

Source: https://redis.io/docs/latest/operate/oss_and_stack/management/replication/. A replica connects, sends
``REPLCONF listening-port`` and ``PSYNC`` in one packet, and gets a snapshot and then every write as RESP. As in Redis,
time-outs of links use the wall clock.

Simplified: the snapshot consists of commands that rebuild the data (not RDB) and is sent at once, and a broken link
always leads to a full resync, never to a partial one. Of several equal connection failures in a row only the first is
logged.
"""

from __future__ import annotations

from typing import Any

from harness.sim.service import Conn, Timer

from .engine import Engine
from .keys import snapshot_of
from .protocol import NO_REPLY, ErrorReply, Reply, encode_command, parse_all
from .state import NS_PER_MS, ClientState

CRON_NS = 1000 * NS_PER_MS
_PING = encode_command([b"PING"])
_TIMEOUTS = {
    b"connecting": "Timeout connecting to the MASTER...",
    b"sync": "Timeout receiving bulk data from MASTER...",
    b"connected": "MASTER timeout: no data nor PING received...",
}
_UNBLOCKED = b"UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)"


class ReplicaState:
    """A replica, as its primary sees it."""

    __slots__ = ("acked", "acked_ms", "client", "host", "name", "online", "port")

    def __init__(self, client: ClientState, port: int) -> None:
        self.client = client
        self.host = client.conn.peer if client.conn is not None else "?"
        self.port = port
        self.name = f"{self.host}:{port}"
        self.acked = 0
        self.acked_ms = client.engine.now_ms()
        self.online = False


class PrimaryLink:
    """A replica's connection to its primary. ``state`` has the words of Redis' ROLE command."""

    def __init__(self, replication: RedisReplication, host: str, port: int) -> None:
        self.replication = replication
        self.engine = replication.engine
        self.host = host
        self.port = port
        self.state = b"connect"
        self.last_io_ms = self.engine.now_ms()
        self.down_since_ms = self.last_io_ms
        self.conn: Conn | None = None
        self.input = b""
        self.payload_left: int | None = None
        self.client = ClientState(self.engine, None, 0)
        self.last_failure = ""

    def log(self, line: str) -> None:
        self.engine.host.log(line)

    def log_failure(self, line: str) -> None:
        """Log why the link failed, unless it failed for the same reason before."""
        if line != self.last_failure:
            self.last_failure = line
            self.log(line)

    def dial(self) -> None:
        """Connect to the primary and start a full resync."""
        if not self.last_failure:
            self.log(f"Connecting to MASTER {self.host}:{self.port}")
            self.log("MASTER <-> REPLICA sync started")
        self.state, self.input, self.payload_left = b"connecting", b"", None
        self.last_io_ms = self.engine.now_ms()
        self.client = ClientState(self.engine, None, 0)
        self.conn = self.engine.host.dial(self.host, self.port, self)

    def drop(self) -> None:
        """Close the connection. The next periodic check reconnects."""
        conn, self.conn = self.conn, None
        if self.state == b"connected":
            self.down_since_ms = self.engine.now_ms()
            self.log("Connection with master lost.")
        self.state = b"connect"
        if conn is not None:
            conn.close()

    def opened(self, conn: Conn) -> None:
        if self.engine.link_is_current(self):
            self.conn = conn
            self.state = b"sync"
            port = self.engine.config["port"].encode()
            hello = [[b"REPLCONF", b"listening-port", port], [b"PSYNC", b"?", b"-1"]]
            conn.send(b"".join(map(encode_command, hello)))

    def closed(self, conn: Conn) -> None:
        if self.conn is None or conn is self.conn:
            if self.state == b"connecting":
                self.log_failure("Error condition on socket for SYNC: Connection refused")
            self.drop()

    def received(self, conn: Conn, data: bytes) -> None:
        if conn is not self.conn:
            return
        self.last_io_ms = self.engine.now_ms()
        self.input += data
        if self.state == b"sync" and not self._synchronised():
            return
        self._apply_stream()

    def _synchronised(self) -> bool:
        """Read ``+OK``, ``+FULLRESYNC id offset`` and the snapshot. Return False while they are incomplete."""
        while self.payload_left is None:
            line, found, rest = self.input.partition(b"\r\n")
            if not found:
                return False
            self.input = rest
            if line.startswith(b"-"):
                self.log_failure("Master is currently unable to PSYNC but should be in the future: " + line.decode())
                self.drop()
                return False
            if line.startswith(b"+FULLRESYNC"):
                _, self.replication.replid, offset = line.decode().split()
                self.replication.sync_offset = int(offset)
                self.log(f"Full resync from master: {self.replication.replid}:{offset}")
            elif line.startswith(b"$"):
                self.payload_left = int(line[1:])
        if len(self.input) < self.payload_left:
            return False
        payload, self.input = self.input[: self.payload_left], self.input[self.payload_left :]
        self._load(payload)
        return True

    def _load(self, payload: bytes) -> None:
        engine = self.engine
        self.replication.disconnect_replicas()
        self.log("MASTER <-> REPLICA sync: Flushing old data")
        for db in engine.databases:
            db.clear()
        self.log("MASTER <-> REPLICA sync: Loading DB in memory")
        self._run(parse_all(payload)[0])
        engine.offset = self.replication.sync_offset
        self.state = b"connected"
        self.last_failure = ""
        self.log(f"Done loading RDB, keys loaded: {engine.size()}, keys expired: 0.")
        self.log("MASTER <-> REPLICA sync: Finished with success")
        self.acknowledge()

    def _apply_stream(self) -> None:
        commands, rest = parse_all(self.input)
        done = self.input[: len(self.input) - len(rest)]
        self.input = rest
        ack_requests = [args for args in commands if args[0] == b"REPLCONF"]
        self._run([args for args in commands if args[0] != b"REPLCONF"])
        if done:
            self.engine.feed(done)
        if ack_requests:
            self.acknowledge()

    def _run(self, commands: list[list[bytes]]) -> None:
        self.engine.applying = True
        try:
            for args in commands:
                self.engine.execute(self.client, args)
        finally:
            self.engine.applying = False
        self.engine.flush_unsent()

    def acknowledge(self) -> None:
        """Report the applied offset to the primary."""
        if self.conn is not None and self.state == b"connected":
            self.conn.send(encode_command([b"REPLCONF", b"ACK", b"%d" % self.engine.offset]))


class RedisReplication:
    """The replication state of one server, as a primary and as a replica."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.replid = new_id(engine)
        self.sync_offset = 0
        self.link: PrimaryLink | None = None
        self.replicas: dict[ClientState, ReplicaState] = {}
        self.stream_db = -1
        self.timer: Timer | None = None
        self.ticks = 0
        self.good = 0

    # Roles

    def follow(self, host: str, port: int) -> None:
        """Become a replica of this primary."""
        engine = self.engine
        self._close_link()
        engine.is_replica = True
        engine.refresh_guards()
        self.disconnect_replicas()
        self._unblock_all()
        self.link = PrimaryLink(self, host, port)
        self.link.dial()
        self._arm()

    def become_primary(self) -> None:
        """Stop replicating and accept writes, under a new replication id."""
        self._close_link()
        self.replid = new_id(self.engine)
        self.stream_db = -1
        self.engine.is_replica = False
        self.engine.refresh_guards()
        self.disconnect_replicas()
        if any(db.expires for db in self.engine.databases):
            self.engine.expiry_set()

    def _close_link(self) -> None:
        link, self.link = self.link, None
        if link is not None:
            link.drop()

    def _unblock_all(self) -> None:
        for client in list(self.engine.blocked):
            self.engine.forget_blocked(client)
            client.write(ErrorReply(_UNBLOCKED))
            client.closing = True

    def disconnect_replicas(self) -> None:
        for client in list(self.replicas):
            self.engine.close_client(client)

    # Periodic checks

    def _arm(self) -> None:
        if self.timer is None:
            self.timer = self.engine.host.call_later(CRON_NS, self._cron)

    def _cron(self) -> None:
        self.timer = None
        self.ticks += 1
        if self.link is not None:
            self._check_link(self.link)
        if self.replicas:
            self._check_replicas()
        self.count_good()
        if self.link is not None or self.replicas:
            self._arm()

    def _check_link(self, link: PrimaryLink) -> None:
        silent_ms = self.engine.now_ms() - link.last_io_ms
        if link.state != b"connect" and silent_ms > 1000 * self.engine.config.number("repl-timeout"):
            (link.log if link.state == b"connected" else link.log_failure)(_TIMEOUTS[link.state])
            link.drop()
        if link.state == b"connect":
            link.dial()
        else:
            link.acknowledge()

    def _check_replicas(self) -> None:
        limit_ms = 1000 * self.engine.config.number("repl-timeout")
        for client, replica in list(self.replicas.items()):
            if replica.online and self.engine.now_ms() - replica.acked_ms > limit_ms:
                self.engine.host.log(f"Disconnecting timedout replica (streaming sync): {replica.name}")
                self.engine.close_client(client)
        if not self.engine.is_replica and self.ticks % self.engine.config.number("repl-ping-replica-period") == 0:
            self.feed(_PING)

    # The stream

    def feed(self, data: bytes) -> None:
        """Append to the stream and send it to all replicas."""
        self.engine.offset += len(data)
        for client in self.replicas:
            if client.conn is not None:
                client.conn.send(data)

    def select(self, index: int) -> bytes:
        """Return a SELECT command if the stream is in another database, else nothing."""
        if index == self.stream_db:
            return b""
        self.stream_db = index
        return encode_command([b"SELECT", b"%d" % index])

    def attach(self, client: ClientState) -> Reply:
        """Answer PSYNC with a snapshot. From now on the client gets the replication stream."""
        engine = self.engine
        engine.count("sync_full")
        replica: ReplicaState = client.replica
        engine.host.log(f"Replica {replica.name} asks for synchronization")
        replica.online = True
        replica.acked_ms = engine.now_ms()
        self.replicas[client] = replica
        engine.feeding = True
        self.stream_db = -1
        self.count_good()
        payload = self._snapshot()
        assert client.conn is not None
        header = b"+FULLRESYNC %b %d\r\n$%d\r\n" % (self.replid.encode(), engine.offset, len(payload))
        client.flush()
        client.conn.send(header + payload)
        engine.host.log(f"Synchronization with replica {replica.name} succeeded")
        self._arm()
        return NO_REPLY

    def _snapshot(self) -> bytes:
        pieces = []
        for db in self.engine.databases:
            if db.data:
                pieces.append(encode_command([b"SELECT", b"%d" % db.index]))
                pieces += [snapshot_of(key, value, db.expires.get(key)) for key, value in db.data.items()]
        return b"".join(pieces)

    def detach(self, client: ClientState) -> None:
        """Remove a replica whose connection has ended."""
        replica = self.replicas.pop(client, None)
        if replica is not None:
            self.count_good()
            self.engine.host.log(f"Connection with replica {replica.name} lost.")

    # Acknowledgements

    def acked(self, offset: int) -> int:
        """Return the number of replicas that acknowledged ``offset``."""
        return sum([replica.online and replica.acked >= offset for replica in self.replicas.values()])

    def acknowledge(self, client: ClientState, offset: int) -> None:
        """Store a replica's acknowledged offset and unblock clients that waited for it."""
        replica = self.replicas.get(client)
        if replica is None:
            return
        replica.acked = max(replica.acked, offset)
        replica.acked_ms = self.engine.now_ms()
        for waiter, blocked in [(c, c.blocked) for c in self.engine.blocked]:
            if blocked is not None and blocked.replicas:
                count = self.acked(blocked.offset)
                if count >= blocked.replicas:
                    self.engine.unblock(waiter, count)

    def count_good(self) -> None:
        """Count the replicas that acknowledged within min-replicas-max-lag, in whole seconds.

        The count stands until the next second, or until a replica comes or goes, as refreshGoodSlavesCount of the real
        server does.
        """
        most = self.engine.config.number("min-replicas-max-lag")
        now_s = self.engine.now_ms() // 1000
        lags = [now_s - replica.acked_ms // 1000 for replica in self.replicas.values() if replica.online]
        self.good = sum([lag <= most for lag in lags])

    def describe(self) -> dict[str, Any]:
        """Return the fields of INFO replication."""
        engine = self.engine
        fields: dict[str, Any] = {"role": "slave" if engine.is_replica else "master"}
        if self.link is not None:
            fields |= self._describe_link(self.link)
        fields["connected_slaves"] = len(self.replicas)
        for index, replica in enumerate(self.replicas.values()):
            lag = max(0, engine.now_ms() - replica.acked_ms) // 1000
            where = f"ip={replica.host},port={replica.port},state=online"
            fields[f"slave{index}"] = f"{where},offset={replica.acked},lag={lag}"
        return {
            **fields,
            "master_failover_state": "no-failover",
            "master_replid": self.replid,
            "master_replid2": "0" * 40,
            "master_repl_offset": engine.offset,
            "second_repl_offset": -1,
            "repl_backlog_active": int(engine.feeding),
        }

    def _describe_link(self, link: PrimaryLink) -> dict[str, Any]:
        up = link.state == b"connected"
        now = self.engine.now_ms()
        fields: dict[str, Any] = {
            "master_host": link.host,
            "master_port": link.port,
            "master_link_status": "up" if up else "down",
            "master_last_io_seconds_ago": max(0, now - link.last_io_ms) // 1000 if up else -1,
            "master_sync_in_progress": int(link.state == b"sync"),
            "slave_read_repl_offset": self.engine.offset,
            "slave_repl_offset": self.engine.offset,
        }
        if not up:
            fields["master_link_down_since_seconds"] = max(0, now - link.down_since_ms) // 1000
        fields["slave_priority"] = self.engine.config["replica-priority"]
        fields["slave_read_only"] = int(self.engine.config["replica-read-only"] == "yes")
        fields["replica_announced"] = 1
        return fields


def new_id(engine: Engine) -> str:
    """Return a random run id or replication id, 40 hexadecimal digits."""
    return f"{engine.host.rng.getrandbits(160):040x}"
