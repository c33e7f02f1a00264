"""The structs of Redis' server.h: what a command is, what Redis remembers of a connection, and of itself.

:class:`Server` also holds the bookkeeping that commands rely on: effects for the replicas, waits, watched keys. Who
may run what is decided above it, in :mod:`redis_engine`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.sim.servers.redis.config import Config
from harness.sim.servers.redis.keyspace import Database
from harness.sim.servers.redis.memory import Memory
from harness.sim.servers.redis.protocol import NOTHING, OOM, Reply, encode, encode_command, unknown_subcommand
from harness.sim.service import Conn, ServiceHost, Timer

DATABASES = 16
NS_PER_MS = 1_000_000
QUIET_NS = 10_000 * NS_PER_MS

WRITE = 1
DENY_OOM = 2
NO_SCRIPT = 4
IN_PUBSUB = 8
"""Allowed to a RESP2 client that has subscribed."""
UNQUEUED = 16
"""Runs at once inside MULTI."""
OWN_EFFECTS = 32
"""Replicates what it did by itself (EXEC, scripts) instead of being replicated as it was sent."""
MAY_BLOCK = 64

Function = Callable[["Client", list[bytes]], Reply]


class Command:
    """``arity`` counts the name; negative: at least that many. ``keys``: first, last, step, as COMMAND INFO shows
    them."""

    __slots__ = ("arity", "flags", "fn", "keys", "name", "subcommands")

    def __init__(
        self,
        name: bytes,
        fn: Function,
        arity: int,
        flags: int = 0,
        keys: tuple[int, int, int] = (0, 0, 0),
        subcommands: dict[bytes, Command] | None = None,
    ) -> None:
        self.name = name
        self.fn = fn
        self.arity = arity
        self.flags = flags
        self.keys = keys
        self.subcommands = subcommands

    def accepts(self, args: list[bytes]) -> bool:
        return len(args) == self.arity if self.arity > 0 else len(args) >= -self.arity


Table = dict[bytes, Command]


def container(name: bytes, subcommands: list[Command]) -> Command:
    """A command such as CONFIG whose second word decides."""
    table = {sub.name: sub for sub in subcommands}
    return Command(name, _no_subcommand, -2, subcommands=table)


def _no_subcommand(_client: Client, args: list[bytes]) -> Reply:
    raise unknown_subcommand(args[0], args[1])


class Blocked:
    """What a client waits for, and how to answer it when the time is up."""

    __slots__ = ("args", "deadline_ms", "keys", "offset", "on_timeout", "replicas", "timer", "try_again")

    def __init__(self, args: list[bytes], on_timeout: Callable[[], Reply]) -> None:
        self.args = args
        self.on_timeout = on_timeout
        self.deadline_ms: int | None = None
        self.timer: Timer | None = None
        self.keys: list[bytes] = []
        self.try_again: Callable[[], Reply] | None = None
        self.replicas = 0
        self.offset = 0


class Client:
    """A connection and all that Redis remembers about it."""

    def __init__(self, engine: Server, conn: Conn | None, number: int) -> None:
        self.engine = engine
        self.conn = conn
        self.number = number
        self.since_ms = engine.now_ms()
        self.db = engine.databases[0]
        self.name = b""
        self.resp3 = False
        self.input = b""
        self.out: list[bytes] = []
        self.queued: list[tuple[Command, list[bytes]]] | None = None
        self.queue_broken = False
        self.watch_broken = False
        self.watching: dict[tuple[int, bytes], None] = {}
        self.channels: dict[bytes, None] = {}
        self.patterns: dict[bytes, None] = {}
        self.blocked: Blocked | None = None
        self.closing = False
        self.muted = False
        self.skip_replies = 0
        self.write_offset = 0
        self.replica: Any = None
        """The record of the replica at the other end, if this is one."""
        self.last_command = b"NULL"

    def write(self, reply: Reply) -> None:
        """Queue a reply outside the usual order (messages, blocked commands)."""
        self.out.append(encode(reply, self.resp3))
        self.engine.unsent[self] = None

    def flush(self) -> None:
        data = b"".join(self.out)
        self.out.clear()
        if self.conn is not None and data:
            self.conn.send(data)

    @property
    def kind(self) -> bytes:
        if self.replica is not None:
            return b"replica"
        return b"pubsub" if self.channels or self.patterns else b"normal"


class Server:
    """State, and what every command may ask for. The methods called hooks are given their meaning by subclasses."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.replication: Any = None
        self.run_id = ""
        self.commands: Table = {}
        self.host: ServiceHost
        """Set by start(), before any command."""
        self.databases = [Database(self, index) for index in range(DATABASES)]
        self.reset()

    def reset(self) -> None:
        """Forget what does not survive the process."""
        self.clients: dict[int, Client] = {}
        self.next_client = 1
        self.channels: dict[bytes, dict[Client, None]] = {}
        self.patterns: dict[bytes, dict[Client, None]] = {}
        self.blocked: dict[Client, None] = {}
        self.ready: dict[tuple[Database, bytes], None] = {}
        self.unsent: dict[Client, None] = {}
        self.after_commands: list[Callable[[], None]] = []
        """What is due once the running command and its effects are out."""
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
        self.start_ns = 0
        self.last_logged: dict[str, int] = {}

    # Time

    def now_ms(self) -> int:
        if self.frozen_ms is not None:
            return self.frozen_ms
        return self.host.wall_ns() // NS_PER_MS

    def count(self, what: str, by: int = 1) -> None:
        self.stats[what] = self.stats.get(what, 0) + by

    def size(self) -> int:
        """Number of keys, expired ones that are still there included."""
        return sum(len(db.data) for db in self.databases)

    def log_first(self, what: str, line: str) -> None:
        """Log the first of a burst, which ends with ``QUIET_NS`` without another."""
        now = self.host.monotonic_ns()
        if now - self.last_logged.get(what, -QUIET_NS) >= QUIET_NS:
            self.host.log(line)
        self.last_logged[what] = now

    def log_refusal(self) -> None:
        """The real one keeps it to the client; here its words begin each burst of refusals in the log."""
        self.log_first("oom", OOM.decode())

    # What databases ask

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

    def end_transaction(self, client: Client) -> None:
        client.queued = None
        client.queue_broken = False
        self.unwatch(client)

    def unwatch(self, client: Client) -> None:
        for index, key in client.watching:
            watchers = self.databases[index].watchers
            watchers[key].pop(client)
            if not watchers[key]:
                del watchers[key]
        client.watching.clear()
        client.watch_broken = False

    # Effects

    def call(self, client: Client, command: Command, args: list[bytes]) -> Reply:
        """Run it and replicate what it changed."""
        before = self.dirty
        self.effect = None
        reply = command.fn(client, args)
        if self.dirty != before and self.feeding and not command.flags & OWN_EFFECTS:
            for effect in [args] if self.effect is None else self.effect:
                self.propagate(client.db.index, effect)
        return reply

    def taken_effects(self) -> list[list[bytes]]:
        return self.effect or []

    def replicate_as(self, *effects: list[bytes]) -> None:
        """Called by a command whose effect differs from how it was sent."""
        self.effect = list(effects)

    def propagate(self, index: int, args: list[bytes]) -> None:
        if self.feeding and not self.is_replica:
            self.effects.append((index, args))

    def flush_effects(self) -> None:
        """Send what one command did to the replicas, as one transaction if it did more than one thing."""
        effects, self.effects = self.effects, []
        if not effects:
            return
        wire = []
        for index, args in effects if len(effects) == 1 else _wrapped(effects):
            wire.append(self.select_for_replicas(index) + encode_command(args))
        self.feed(b"".join(wire))

    def select_for_replicas(self, _index: int) -> bytes:
        """Hook: a SELECT, if the stream is in another database."""
        return b""

    def feed(self, data: bytes) -> None:
        """Hook: bytes for the replication stream."""

    # Blocking

    def block(self, client: Client, blocked: Blocked, timeout_ms: int) -> Reply:
        """Leave the client without an answer until something or the time-out (0: never) gives one."""
        client.blocked = blocked
        self.blocked[client] = None
        for key in blocked.keys:
            client.db.awaited[key] = client.db.awaited.get(key, 0) + 1
        if timeout_ms:
            blocked.deadline_ms = self.now_ms() + timeout_ms
            self.on_blocked(client, timeout_ms)
        return NOTHING

    def on_blocked(self, client: Client, timeout_ms: int) -> None:
        """Hook: start the clock."""

    def forget_blocked(self, client: Client) -> None:
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

    def unblock(self, client: Client, reply: Reply) -> None:
        """Hook: answer a blocked client."""

    def flush_unsent(self) -> None:
        """Hook: send what was written to clients."""

    def close_client(self, client: Client) -> None:
        """Hook: cut the connection."""

    def link_is_current(self, link: object) -> bool:
        return self.replication is not None and self.replication.link is link

    def rewrite_config(self) -> None:
        """Hook: make the present role survive a restart."""

    def replication_info(self) -> dict[str, object]:
        return dict(self.replication.describe())

    def refresh_guards(self) -> None:
        """Hook: the role or the configuration changed, and with them what may run."""

    def guard_write(self) -> None:
        """Hook: raise unless a write may run."""

    def good_replicas(self) -> int:
        """Hook: replicas that acknowledged within min-replicas-max-lag."""
        return 0


def _wrapped(effects: list[tuple[int, list[bytes]]]) -> list[tuple[int, list[bytes]]]:
    return [(effects[0][0], [b"MULTI"]), *effects, (effects[-1][0], [b"EXEC"])]
