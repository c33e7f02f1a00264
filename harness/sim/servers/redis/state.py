"""Data structures of the simulated Redis: commands, client connections and the server's own state.

Corresponds to the structs in server.h. :class:`ServerState` also does the bookkeeping that commands need: effects to
replicate, blocked clients and watched keys. :mod:`harness.sim.servers.redis.engine` decides which commands may run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.sim.service import Conn, ServiceHost, Timer

from . import lacking
from .config import Config
from .keyspace import Database
from .memory import Memory
from .protocol import NO_REPLY, OOM, Reply, encode, encode_command, unknown_subcommand

DATABASES = 16
NS_PER_MS = 1_000_000
BURST_GAP_NS = 10_000 * NS_PER_MS
"""A burst of equal log lines ends after this time without another."""

WRITE = 1
DENY_OOM = 2
NO_SCRIPT = 4
IN_PUBSUB = 8
"""A RESP2 client may run it while subscribed."""
UNQUEUED = 16
"""Runs at once inside MULTI instead of being queued."""
OWN_EFFECTS = 32
"""The commands that it runs replicate themselves (EXEC, scripts), so it is not replicated as it was sent."""
MAY_BLOCK = 64

CommandFunction = Callable[["ClientState", list[bytes]], Reply]


class RedisCommand:
    """One command or subcommand.

    ``full_name`` of a subcommand has its command, as in ``config|get``.
    ``arity`` counts the name too; a negative one means "at least". ``keys`` holds the positions of the first and the
    last key and the step, as COMMAND INFO shows them.
    """

    __slots__ = ("arity", "flags", "fn", "full_name", "keys", "name", "subcommands")

    def __init__(
        self,
        name: bytes,
        fn: CommandFunction,
        arity: int,
        flags: int = 0,
        keys: tuple[int, int, int] = (0, 0, 0),
        subcommands: dict[bytes, RedisCommand] | None = None,
    ) -> None:
        self.name = name
        self.fn = fn
        self.arity = arity
        self.flags = flags
        self.keys = keys
        self.subcommands = subcommands
        self.full_name = name

    def accepts(self, args: list[bytes]) -> bool:
        """Return True if the number of arguments is allowed."""
        return len(args) == self.arity if self.arity > 0 else len(args) >= -self.arity


Table = dict[bytes, RedisCommand]


def _no_subcommand(_client: ClientState, args: list[bytes]) -> Reply:
    raise unknown_subcommand(args[0], args[1])


def container(
    name: bytes, subcommands: list[RedisCommand], fn: CommandFunction = _no_subcommand, arity: int = -2
) -> RedisCommand:
    """Return a command such as CONFIG, whose second word selects a subcommand. ``fn`` runs without a second word."""
    command = RedisCommand(name, fn, arity, subcommands={})
    for sub in subcommands:
        add_subcommand(command, sub)
    return command


def add_subcommand(command: RedisCommand, sub: RedisCommand) -> None:
    """Add a subcommand to a container."""
    assert command.subcommands is not None
    sub.full_name = command.name + b"|" + sub.name
    command.subcommands[sub.name] = sub


class Blocked:
    """The wait of a blocked client: for keys or for replicas, and its reply after a time-out."""

    __slots__ = ("args", "deadline_ms", "keys", "offset", "on_timeout", "replicas", "timer", "try_again")

    def __init__(self, args: list[bytes], on_timeout: Callable[[], Reply]) -> None:
        self.args = args
        self.on_timeout = on_timeout
        self.deadline_ms: int | None = None
        self.timer: Timer | None = None
        self.keys: list[bytes] = []
        self.try_again: Callable[[bytes], Reply] | None = None
        """Called with a key that was filled."""
        self.replicas = 0
        self.offset = 0


class ClientState:
    """A client connection and the state that Redis keeps for it."""

    def __init__(self, engine: ServerState, conn: Conn | None, number: int) -> None:
        self.engine = engine
        self.conn = conn
        self.number = number
        self.since_ms = engine.now_ms()
        self.db = engine.databases[0]
        self.name = b""
        self.resp3 = False
        self.input = b""
        self.out: list[bytes] = []
        self.queued: list[tuple[RedisCommand, list[bytes]]] | None = None
        self.queue_broken = False
        self.watch_broken = False
        self.watching: dict[tuple[int, bytes], None] = {}
        self.channels: dict[bytes, None] = {}
        self.patterns: dict[bytes, None] = {}
        self.blocked: Blocked | None = None
        self.closing = False
        self.muted = False
        self.skip_replies = 0
        self.wait_offset = 0
        self.replica: Any = None
        """The :class:`.replication.ReplicaState` if the client is a replica, else None."""
        self.last_command = b"NULL"

    def write(self, reply: Reply) -> None:
        """Queue a reply that does not answer the running command: a published message, or the end of a wait."""
        self.out.append(encode(reply, self.resp3))
        self.engine.unsent[self] = None

    def flush(self) -> None:
        """Send the queued replies."""
        data = b"".join(self.out)
        self.out.clear()
        if self.conn is not None and data:
            self.conn.send(data)

    @property
    def kind(self) -> bytes:
        """The client type of CLIENT LIST: replica, pubsub or normal."""
        if self.replica is not None:
            return b"replica"
        return b"pubsub" if self.channels or self.patterns else b"normal"


class ServerState:
    """State of a server, and the operations that commands use. Subclasses implement the methods marked as hooks."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.replication: Any = None
        self.run_id = ""
        self.commands: Table = {}
        self.lacking = lacking.SERVER
        """Names of commands that the real server has and this one lacks."""
        self.host: ServiceHost
        """Set by ``start`` before any command runs."""
        self.databases = [Database(self, index) for index in range(DATABASES)]
        self.reset()

    def reset(self) -> None:
        """Reset everything that is lost when the process ends."""
        self.clients: dict[int, ClientState] = {}
        self.next_client = 1
        self.channels: dict[bytes, dict[ClientState, None]] = {}
        self.patterns: dict[bytes, dict[ClientState, None]] = {}
        self.blocked: dict[ClientState, None] = {}
        self.ready: dict[tuple[Database, bytes], None] = {}
        self.unsent: dict[ClientState, None] = {}
        self.after_commands: list[Callable[[], None]] = []
        """Actions to run after the current command and its effects have been sent."""
        self.dirty = 0
        self.memory: Memory | None = None
        self.frozen_ms: int | None = None
        self.out_of_memory = False
        self.script_wrote = False
        self.applying = False
        self.effect: list[list[bytes]] | None = None
        self.effects: list[tuple[int, list[bytes]]] = []
        self.stats: dict[str, int] = {}
        self.commands_run = 0
        self.feeding = False
        self.offset = 0
        self.is_replica = False
        self.scripts: dict[bytes, Any] = {}
        self.lua: Any = None
        self.guarded = 0
        self.loading = False
        """Refuses most commands, as a server does that still loads its data after a start."""
        self.start_ns = 0
        self.last_logged: dict[str, int] = {}

    # Time

    def now_ms(self) -> int:
        """Return wall-clock ms; constant while a script or a transaction runs."""
        if self.frozen_ms is not None:
            return self.frozen_ms
        return self.host.wall_ns() // NS_PER_MS

    def count(self, what: str, by: int = 1) -> None:
        """Increase a counter of INFO stats."""
        self.stats[what] = self.stats.get(what, 0) + by

    def size(self) -> int:
        """Return the number of keys, including expired ones that are not yet deleted."""
        return sum(len(db.data) for db in self.databases)

    def log_first(self, what: str, line: str) -> None:
        """Log only the first line of a burst, which ends after ``BURST_GAP_NS`` without another call."""
        now = self.host.monotonic_ns()
        if now - self.last_logged.get(what, -BURST_GAP_NS) >= BURST_GAP_NS:
            self.host.log(line)
        self.last_logged[what] = now

    def log_refusal(self) -> None:
        """Log a write refused for lack of memory. The real server reports it to the client only."""
        self.log_first("oom", OOM.decode())

    # What the simulator lacks

    def note_unknown(self, client: ClientState, args: list[bytes]) -> None:
        """Note a command that is unknown here, if the real server has it."""
        words = [arg.lower() for arg in args[:2]]
        for name in (words[0], b"|".join(words)):
            if name in self.lacking:
                self.lacks(client, f"the Redis command {name.decode().replace('|', ' ').upper()}")

    def lacks(self, client: ClientState, what: str) -> None:
        if client.conn is not None:
            self.host.lacks(client.conn.peer, what)

    # DatabaseOwner, for databases

    def may_delete_expired(self) -> bool | None:
        if not self.is_replica:
            return True
        return None if self.applying else False

    def key_expired(self, db: Database, key: bytes) -> None:
        self.count("expired_keys")
        db.signal(key)
        self.propagate(db.index, [b"DEL", key])

    def expiry_set(self) -> None:
        """Hook: the first key of a database got an expiry."""

    def list_filled(self, db: Database, key: bytes) -> None:
        if db.awaited and key in db.awaited:
            self.ready[db, key] = None

    # Transactions

    def end_transaction(self, client: ClientState) -> None:
        """Drop the queued commands and the watches of a client."""
        client.queued = None
        client.queue_broken = False
        self.unwatch(client)

    def unwatch(self, client: ClientState) -> None:
        for index, key in client.watching:
            watchers = self.databases[index].watchers
            watchers[key].pop(client)
            if not watchers[key]:
                del watchers[key]
        client.watching.clear()
        client.watch_broken = False

    # Effects

    def call(self, client: ClientState, command: RedisCommand, args: list[bytes]) -> Reply:
        """Run a command and replicate its changes."""
        before = self.dirty
        self.effect = None
        reply = command.fn(client, args)
        if self.dirty != before and self.feeding and not command.flags & OWN_EFFECTS:
            for effect in [args] if self.effect is None else self.effect:
                self.propagate(client.db.index, effect)
        return reply

    def recorded_effects(self) -> list[list[bytes]]:
        return self.effect or []

    def replicate_as(self, *effects: list[bytes]) -> None:
        """Replicate these commands instead of the running one."""
        self.effect = list(effects)

    def propagate(self, index: int, args: list[bytes]) -> None:
        """Collect a command for the replicas; ``index`` is its database."""
        if self.feeding and not self.is_replica:
            self.effects.append((index, args))

    def flush_effects(self) -> None:
        """Send the effects of one command to the replicas, as one transaction if there are several."""
        effects, self.effects = self.effects, []
        if not effects:
            return
        wire = []
        for index, args in effects if len(effects) == 1 else _wrap_in_multi(effects):
            wire.append(self.select_for_replicas(index) + encode_command(args))
        self.feed(b"".join(wire))

    def select_for_replicas(self, _index: int) -> bytes:
        """Hook: return a SELECT command if the stream is in another database, else nothing."""
        return b""

    def feed(self, data: bytes) -> None:
        """Hook: append bytes to the replication stream."""

    # Blocking

    def block(self, client: ClientState, blocked: Blocked, timeout_ms: int) -> Reply:
        """Block the client until an event or the time-out (ms; 0 for none) unblocks it."""
        client.blocked = blocked
        self.blocked[client] = None
        for key in blocked.keys:
            client.db.awaited[key] = client.db.awaited.get(key, 0) + 1
        if timeout_ms:
            blocked.deadline_ms = self.now_ms() + timeout_ms
            self.on_blocked(client, timeout_ms)
        return NO_REPLY

    def on_blocked(self, client: ClientState, timeout_ms: int) -> None:
        """Hook: start the timer of the time-out."""

    def forget_blocked(self, client: ClientState) -> None:
        """End the wait of a client without a reply."""
        blocked = client.blocked
        if blocked is None:
            return
        client.blocked = None
        self.blocked.pop(client, None)
        if blocked.timer is not None:
            blocked.timer.cancel()
        for key in blocked.keys:
            left = client.db.awaited[key] - 1
            client.db.awaited[key] = left
            if not left:
                del client.db.awaited[key]

    def unblock(self, client: ClientState, reply: Reply) -> None:
        """Hook: send the reply of a blocked client."""

    def flush_unsent(self) -> None:
        """Hook: send all queued replies."""

    def close_client(self, client: ClientState) -> None:
        """Hook: close the connection."""

    def link_is_current(self, link: object) -> bool:
        return self.replication is not None and self.replication.link is link

    def rewrite_config(self) -> None:
        """Hook: save the configuration and the current role, so that they survive a restart."""

    def replication_info(self) -> dict[str, object]:
        return dict(self.replication.describe())

    def refresh_guards(self) -> None:
        """Hook: the role or the configuration changed; recompute which commands may run."""

    def guard_write(self) -> None:
        """Hook: raise ErrorReply if writes are not allowed."""

    def good_replicas(self) -> int:
        """Hook: return the number of replicas that acknowledged within min-replicas-max-lag."""
        return 0


def _wrap_in_multi(effects: list[tuple[int, list[bytes]]]) -> list[tuple[int, list[bytes]]]:
    return [(effects[0][0], [b"MULTI"]), *effects, (effects[-1][0], [b"EXEC"])]
