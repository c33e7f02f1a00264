"""A Redis 7.0.15 in the simulator: the service itself, its connections, start and stop.

Source: https://redis.io/docs/latest/commands/ and the behaviour of redis-server 7.0.15, against which
``tests/sim/test_redis_differential.py`` compares it. Abstracted: threads and memory allocator; AOF and RDB files
(data that is to survive a kill stays in this object, as with ``appendfsync always``); users, cluster mode, modules,
streams, HyperLogLog, geo.
"""

from __future__ import annotations

from collections.abc import Callable

from harness.sim.servers.redis import (
    admin,
    connection,
    hashes,
    keys,
    lists,
    pubsub,
    replication_commands,
    scripting,
    sets,
    strings,
    transactions,
    zsets,
)
from harness.sim.servers.redis.config import Config
from harness.sim.servers.redis.engine import Engine
from harness.sim.servers.redis.expiry import PERIOD_NS, expire_cycle, has_work, timed_out
from harness.sim.servers.redis.keyspace import Database
from harness.sim.servers.redis.protocol import (
    NOTHING,
    Failure,
    ProtocolError,
    Reply,
    encode,
    encode_command,
    is_empty,
    parse_all,
    parse_one,
)
from harness.sim.servers.redis.replication import Replication, new_id
from harness.sim.servers.redis.state import (
    NS_PER_MS,
    Client,
    Command,
    Table,
)
from harness.sim.servers.redis.values import Value
from harness.sim.service import Conn, ServiceHost, Timer

_FAMILIES = (
    strings,
    keys,
    hashes,
    lists,
    sets,
    zsets,
    transactions,
    pubsub,
    connection,
    scripting,
    replication_commands,
    admin,
)

Address = tuple[str, int]
Tap = Callable[[str, list[bytes]], None]


def _all_commands() -> Table:
    """Every command by its lower- and upper-case name."""
    table: Table = {}
    for family in _FAMILIES:
        commands: list[Command] = family.COMMANDS
        for command in commands:
            table[command.name] = table[command.name.upper()] = command
    config = table[b"config"].subcommands
    assert config is not None
    config[b"rewrite"] = replication_commands.REWRITE
    return table


_COMMANDS = _all_commands()


class RedisServer(Engine):
    """``on_command`` is called after each command that was executed, before its reply leaves. It may end this
    server."""

    def __init__(
        self,
        *,
        port: int = 6379,
        replica_of: Address | None = None,
        persistence: str = "always",
        maxmemory: int = 0,
        maxmemory_policy: str = "noeviction",
        replica_priority: int = 100,
    ) -> None:
        if persistence not in ("always", "no"):
            raise ValueError(f"persistence is {persistence!r}, expected 'always' or 'no'")
        self.port = port
        self.persistence = persistence
        self.on_command: Tap | None = None
        self._first_config = Config(
            port=port,
            maxmemory=maxmemory,
            maxmemory_policy=maxmemory_policy,
            replica_priority=replica_priority,
            appendonly="yes" if persistence == "always" else "no",
        )
        self._first_role = self._saved_role = replica_of
        self._saved_config = self._first_config.copy()
        self._cron: Timer | None = None
        self.life = 0
        super().__init__(self._first_config.copy())
        self.commands = _COMMANDS

    # Life

    def start(self, host: ServiceHost, *, wiped: bool) -> None:
        self.host = host
        self.life += 1
        if wiped:
            self._saved_role, self._saved_config = self._first_role, self._first_config.copy()
        if wiped or self.persistence == "no":
            for db in self.databases:
                db.clear()
        self.config = self._saved_config.copy()
        self.reset()
        self._cron = None
        self.start_ns = host.monotonic_ns()
        self.run_id = new_id(self)
        self.replication = Replication(self)
        self.refresh_guards()
        self.log_start(wiped)
        if has_work(self):
            self._arm()
        if self._saved_role is not None:
            self.replication.follow(*self._saved_role)

    def log_start(self, wiped: bool) -> None:
        """The real one's words, but for "starting empty": of that it says nothing."""
        log = self.host.log
        log(f"Running mode=standalone, port={self.port}.")
        if self.persistence == "no":
            log("Server initialized, nothing to load: starting empty")
        elif wiped:
            log("Creating AOF base file appendonly.aof.1.base.rdb on server start: starting empty")
        else:
            log(f"Done loading RDB, keys loaded: {self.size()}, keys expired: 0.")
            log("DB loaded from append only file: 0.000 seconds")
        log("Ready to accept connections")

    def stop(self) -> None:
        self.life += 1
        for db in self.databases:
            db.watchers.clear()
            db.awaited.clear()
        self.reset()
        self._cron = None
        self.replication = None

    def rewrite_config(self) -> None:
        self._saved_role = self.following
        self._saved_config = self.config.copy()
        self.host.log("CONFIG REWRITE executed with success.")

    # For observers

    @property
    def role(self) -> str:
        return "slave" if self.is_replica else "master"

    @property
    def following(self) -> Address | None:
        """The primary that this replica follows."""
        link = self.replication.link if self.replication is not None else None
        return None if link is None else (link.host, link.port)

    def peek(self, key: bytes, db: int = 0) -> tuple[Value | None, int | None]:
        """What a key holds and when it expires, expired or not, disturbing nothing."""
        found: Database = self.databases[db]
        return found.data.get(key), found.expires.get(key)

    # Connections

    def opened(self, conn: Conn) -> None:
        client = Client(self, conn, self.next_client)
        self.next_client += 1
        self.clients[client.number] = client
        conn.session = client
        self.count("total_connections_received")

    def closed(self, conn: Conn) -> None:
        client = conn.session
        if isinstance(client, Client) and self.clients.pop(client.number, None) is not None:
            self._forget(client)

    def _forget(self, client: Client) -> None:
        self.forget_blocked(client)
        self.end_transaction(client)
        pubsub.leave_all(client)
        self.unsent.pop(client, None)
        self.replication.detach(client)

    def close_client(self, client: Client) -> None:
        if self.clients.pop(client.number, None) is not None:
            self._forget(client)
            client.flush()
            if client.conn is not None:
                client.conn.close()

    def received(self, conn: Conn, data: bytes) -> None:
        client: Client = conn.session
        if not client.input and client.blocked is None:
            args = parse_one(data)
            if args is not None:
                self._serve(client, args)
                return
        client.input += data
        if client.blocked is None:
            self._drain(client)

    def _drain(self, client: Client) -> None:
        """Run everything complete that the client has sent, one reply after the other in one packet."""
        try:
            commands, rest = parse_all(client.input)
        except ProtocolError as error:
            client.write(Failure(b"ERR Protocol error: " + error.args[0]))
            self.close_client(client)
            return
        client.input = b""
        life = self.life
        for index, args in enumerate(commands):
            self._serve(client, args, index + 1 < len(commands))
            if life != self.life or client.number not in self.clients:
                return
            if client.blocked is not None:
                rest = b"".join([encode_command(later) for later in commands[index + 1 :]]) + rest
                break
        client.input = rest
        if self.unsent:
            self.flush_unsent()

    def _serve(self, client: Client, args: list[bytes], more: bool = False) -> None:
        """One command: run it, tell replicas, let the observer look, answer."""
        life = self.life
        reply = self.execute(client, args)
        if self.effects or self.ready or self.after_commands:
            self._settle(client)
        if self.on_command is not None and client.blocked is None and client.replica is None:
            self.on_command(client.conn.peer, args)  # type: ignore[union-attr]
            if life != self.life:
                return
        if client.muted or client.skip_replies:
            reply = self._withheld(client, reply)
        wire = encode(reply, client.resp3)
        if more or client.out:
            client.out.append(wire)
            self.unsent[client] = None
        elif wire:
            client.conn.send(wire)  # type: ignore[union-attr]
        if self.unsent and not more:
            self.flush_unsent()
        if client.closing:
            self.close_client(client)

    def _withheld(self, client: Client, reply: Reply) -> Reply:
        """CLIENT REPLY OFF and SKIP."""
        if client.skip_replies:
            client.skip_replies -= 1
            return reply if client.skip_replies else NOTHING
        return NOTHING

    def _settle(self, client: Client) -> None:
        """Send effects to the replicas, wake whoever waited for them or for a list, and do what is due after that."""
        while self.effects or self.ready:
            if self.effects:
                self.flush_effects()
                client.write_offset = self.offset
            ready, self.ready = self.ready, {}
            for db, key in ready:
                self._wake(db, key)
        due, self.after_commands = self.after_commands, []
        for action in due:
            action()

    def _wake(self, db: Database, key: bytes) -> None:
        """Serve the clients that wait for this list, in the order in which they came."""
        for client in list(self.blocked):
            blocked = client.blocked
            if blocked is None or client.db is not db or key not in blocked.keys or not db.data.get(key):
                continue
            assert blocked.try_again is not None
            self.effect, before = None, self.dirty
            try:
                reply = blocked.try_again()
            except Failure as failure:
                reply = failure
            if is_empty(reply):
                continue
            if self.dirty != before:
                for effect in self.taken_effects():
                    self.propagate(db.index, effect)
            self.unblock(client, reply)

    def unblock(self, client: Client, reply: Reply) -> None:
        blocked = client.blocked
        if blocked is None:
            return
        self.forget_blocked(client)
        client.write(reply)
        life = self.life
        if self.on_command is not None and client.conn is not None:
            self.on_command(client.conn.peer, blocked.args)
        if life == self.life and client.input:
            self.host.call_later(0, self._resume, client)

    def _resume(self, client: Client) -> None:
        if client.number in self.clients and client.blocked is None:
            self._drain(client)

    def flush_unsent(self) -> None:
        unsent, self.unsent = self.unsent, {}
        for client in unsent:
            client.flush()
            if client.closing:
                self.close_client(client)

    # By itself

    def expiry_set(self) -> None:
        if self._cron is None and not self.is_replica:
            self._arm()

    def on_blocked(self, client: Client, timeout_ms: int) -> None:
        assert client.blocked is not None
        client.blocked.timer = self.host.call_later(timeout_ms * NS_PER_MS, self._tick)
        if self._cron is None:
            self._arm()

    def _arm(self) -> None:
        self._cron = self.host.call_later(PERIOD_NS, self._cycle)

    def _cycle(self) -> None:
        self._cron = None
        self._tick()
        if self.replication is not None and self._cron is None and has_work(self):
            self._arm()

    def _tick(self) -> None:
        expire_cycle(self)
        timed_out(self)
        self.flush_effects()
        if self.unsent:
            self.flush_unsent()

    # Replication hooks

    def good_replicas(self) -> int:
        return int(self.replication.good())

    def feed(self, data: bytes) -> None:
        self.replication.feed(data)

    def select_for_replicas(self, index: int) -> bytes:
        return bytes(self.replication.select(index))
