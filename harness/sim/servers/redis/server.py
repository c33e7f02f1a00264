"""The simulated Redis 7.0.15 server: connections, running commands, blocked clients, start and stop.

Source: https://redis.io/docs/latest/commands/ and the behaviour of redis-server 7.0.15, with which
``harness fidelity`` compares it. Not simulated: threads, the memory allocator, users, cluster mode,
modules, streams, HyperLogLog and geo commands. There are no AOF and RDB files: a killed server keeps its data in this
object, as if each write had been synced (``appendfsync always``). With ``persistence="no"``, or after its disk was
wiped, it starts empty.
"""

from __future__ import annotations

from collections.abc import Callable

from harness.sim.service import Conn, ServiceHost, Timer

from . import (
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
from .config import Config
from .engine import Engine
from .expiry import PERIOD_NS, end_timed_out_waits, expire_cycle, has_work
from .keyspace import Database
from .protocol import (
    NO_REPLY,
    QUEUED,
    ErrorReply,
    ProtocolError,
    Reply,
    encode,
    encode_command,
    is_no_reply,
    parse_all,
    parse_one,
)
from .replication import RedisReplication, new_id
from .state import NS_PER_MS, ClientState, RedisCommand, Table, add_subcommand
from .values import Value

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
CommandObserver = Callable[[str, list[bytes]], None]
"""Called with the client's host and the command's arguments."""


def _all_commands() -> Table:
    """Return every command by its lower-case and its upper-case name."""
    table: Table = {}
    for family in _FAMILIES:
        commands: list[RedisCommand] = family.COMMANDS
        for command in commands:
            table[command.name] = table[command.name.upper()] = command
    add_subcommand(table[b"config"], replication_commands.REWRITE)
    return table


_COMMANDS = _all_commands()


class RedisServer(Engine):
    """A Redis server, installed on a simulated host as a :class:`~harness.sim.service.Service`.

    ``replica_of`` is the (host, port) of its primary. With ``persistence="no"`` the data is lost at each start.
    ``maxmemory`` is in bytes, 0 for no limit. ``on_command`` is called after each executed command, before its reply is
    sent; it may kill the host. Raises ValueError for any other ``persistence``.
    """

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
            raise ValueError(f"persistence is {persistence!r}; expected 'always' or 'no'")
        self.port = port
        self.persistence = persistence
        self.on_command: CommandObserver | None = None
        self._initial_config = Config(
            port=port,
            maxmemory=maxmemory,
            maxmemory_policy=maxmemory_policy,
            replica_priority=replica_priority,
            appendonly="yes" if persistence == "always" else "no",
        )
        self._initial_replica_of = self._saved_replica_of = replica_of
        self._saved_config = self._initial_config.copy()
        self._cron: Timer | None = None
        self.life = 0
        super().__init__(self._initial_config.copy())
        self.commands = _COMMANDS

    # Start and stop

    def start(self, host: ServiceHost, *, wiped: bool) -> None:
        self.host = host
        self.life += 1
        if wiped:
            self._saved_replica_of, self._saved_config = self._initial_replica_of, self._initial_config.copy()
        if wiped or self.persistence == "no":
            for db in self.databases:
                db.clear()
        self.config = self._saved_config.copy()
        self.reset()
        self._cron = None
        self.start_ns = host.monotonic_ns()
        self.run_id = new_id(self)
        self.replication = RedisReplication(self)
        self.refresh_guards()
        self.log_start(wiped)
        if has_work(self):
            self._arm()
        if self._saved_replica_of is not None:
            self.replication.follow(*self._saved_replica_of)

    def log_start(self, wiped: bool) -> None:
        """Log the lines that the real server logs, and the addition "starting empty" where no data was loaded."""
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
        self._saved_replica_of = self.following
        self._saved_config = self.config.copy()
        self.host.log("CONFIG REWRITE executed with success.")

    # For cluster code that inspects the server

    @property
    def role(self) -> str:
        return "slave" if self.is_replica else "master"

    @property
    def following(self) -> Address | None:
        """The (host, port) of the primary that this server replicates, or None."""
        link = self.replication.link if self.replication is not None else None
        return None if link is None else (link.host, link.port)

    def peek(self, key: bytes) -> tuple[Value | None, int | None]:
        """Return the value and expiry time (ms) of a key of database 0, expired or not, without side effects."""
        found: Database = self.databases[0]
        return found.data.get(key), found.expires.get(key)

    # Connections

    def opened(self, conn: Conn) -> None:
        client = ClientState(self, conn, self.next_client)
        self.next_client += 1
        self.clients[client.number] = client
        conn.session = client
        self.count("total_connections_received")

    def closed(self, conn: Conn) -> None:
        client = conn.session
        if isinstance(client, ClientState) and self.clients.pop(client.number, None) is not None:
            self._forget(client)

    def _forget(self, client: ClientState) -> None:
        self.forget_blocked(client)
        self.end_transaction(client)
        pubsub.leave_all(client)
        self.unsent.pop(client, None)
        self.replication.detach(client)

    def close_client(self, client: ClientState) -> None:
        if self.clients.pop(client.number, None) is not None:
            self._forget(client)
            client.flush()
            if client.conn is not None:
                client.conn.close()

    def received(self, conn: Conn, data: bytes) -> None:
        client: ClientState = conn.session
        if not client.input and client.blocked is None:
            args = parse_one(data)
            if args is not None:
                self._serve(client, args)
                return
        client.input += data
        if client.blocked is None:
            self._run_input(client)

    def _run_input(self, client: ClientState) -> None:
        """Run all complete commands in the client's input and send their replies in one packet."""
        try:
            commands, rest = parse_all(client.input)
        except ProtocolError as error:
            client.write(ErrorReply(b"ERR Protocol error: " + error.args[0]))
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

    def _serve(self, client: ClientState, args: list[bytes], more: bool = False) -> None:
        """Run one command, replicate its effects, call the observer, and reply."""
        life = self.life
        reply = self.execute(client, args)
        if self.effects:
            self.flush_effects()
        if reply is not QUEUED:
            client.wait_offset = self.offset
        if self.ready or self.after_commands:
            self._finish_command()
        if self.on_command is not None and client.blocked is None and client.replica is None:
            self.on_command(client.conn.peer, args)  # type: ignore[union-attr]
            if life != self.life:
                return
        if client.muted or client.skip_replies:
            reply = self._suppress_reply(client, reply)
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

    def _suppress_reply(self, client: ClientState, reply: Reply) -> Reply:
        """Drop the reply if CLIENT REPLY OFF or SKIP says so."""
        if client.skip_replies:
            client.skip_replies -= 1
            return reply if client.skip_replies else NO_REPLY
        return NO_REPLY

    def _finish_command(self) -> None:
        """Serve clients blocked on lists that were filled, replicate what that changed, then run deferred actions."""
        while self.ready:
            ready, self.ready = self.ready, {}
            for db, key in ready:
                self._wake(db, key)
            if self.effects:
                self.flush_effects()
        due, self.after_commands = self.after_commands, []
        for action in due:
            action()

    def _wake(self, db: Database, key: bytes) -> None:
        """Serve the clients that are blocked on this list, first come, first served."""
        for client in list(self.blocked):
            blocked = client.blocked
            if not isinstance(db.data.get(key), list):
                return
            if blocked is None or client.db is not db or key not in blocked.keys:
                continue
            assert blocked.try_again is not None
            self.effect, before = None, self.dirty
            try:
                reply = blocked.try_again(key)
            except ErrorReply as failure:
                reply = failure
            if is_no_reply(reply):
                continue
            if self.dirty != before:
                for effect in self.recorded_effects():
                    self.propagate(db.index, effect)
            self.unblock(client, reply)

    def unblock(self, client: ClientState, reply: Reply) -> None:
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

    def _resume(self, client: ClientState) -> None:
        if client.number in self.clients and client.blocked is None:
            self._run_input(client)

    def flush_unsent(self) -> None:
        unsent, self.unsent = self.unsent, {}
        for client in unsent:
            client.flush()
            if client.closing:
                self.close_client(client)

    # Periodic work

    def expiry_set(self) -> None:
        if self._cron is None and not self.is_replica:
            self._arm()

    def on_blocked(self, client: ClientState, timeout_ms: int) -> None:
        assert client.blocked is not None
        client.blocked.timer = self.host.call_later((timeout_ms + 1) * NS_PER_MS, self._tick)
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
        end_timed_out_waits(self)
        self.flush_effects()
        if self.unsent:
            self.flush_unsent()

    # Hooks that replication implements

    def good_replicas(self) -> int:
        return int(self.replication.good)

    def feed(self, data: bytes) -> None:
        self.replication.feed(data)

    def select_for_replicas(self, index: int) -> bytes:
        return bytes(self.replication.select(index))
