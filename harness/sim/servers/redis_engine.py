"""The command loop of a Redis: who may run what, what changed, and what has to be told to whom.

Stands for server.c and networking.c of Redis 7.0 (processCommand, call, propagate). It knows no command by itself:
families of commands are tables of :class:`Command`, and :mod:`harness.sim.servers.redis` puts them together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.sim.servers.redis_config import Config
from harness.sim.servers.redis_keyspace import Database
from harness.sim.servers.redis_memory import Memory
from harness.sim.servers.redis_protocol import (
    NOREPLICAS,
    NOTHING,
    OOM,
    QUEUED,
    READONLY,
    Failure,
    Reply,
    encode_command,
    unknown_command,
    unknown_subcommand,
    wrong_arity,
)
from harness.sim.servers.redis_session import (
    DENY_OOM,
    IN_PUBSUB,
    OWN_EFFECTS,
    UNQUEUED,
    WRITE,
    Blocked,
    Client,
    Command,
    Table,
)
from harness.sim.service import ServiceHost

DATABASES = 16
NS_PER_MS = 1_000_000


class Engine:
    """State and rules. The methods named ``on_*`` are hooks that the server overrides."""

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

    # Time

    def now_ms(self) -> int:
        if self.frozen_ms is not None:
            return self.frozen_ms
        return self.host.wall_ns() // NS_PER_MS

    def count(self, what: str, by: int = 1) -> None:
        self.stats[what] = self.stats.get(what, 0) + by

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

    # Running commands

    def lookup(self, args: list[bytes]) -> Command:
        """The command, or its subcommand, checked for the number of arguments."""
        command = self.commands.get(args[0]) or self.commands.get(args[0].lower())
        if command is None:
            raise unknown_command(args)
        name = command.name
        if command.subcommands is not None and len(args) > 1:
            sub = command.subcommands.get(args[1].lower())
            if sub is None:
                raise unknown_subcommand(args[0], args[1])
            command, name = sub, name + b"|" + sub.name
        if not command.accepts(args):
            raise wrong_arity(name)
        return command

    def execute(self, client: Client, args: list[bytes]) -> Reply:
        """One command of a client, to its reply."""
        self.commands_run += 1
        try:
            command = self.commands.get(args[0])
            if command is None or command.subcommands is not None or not command.accepts(args):
                command = self.lookup(args)
            if self.guarded:
                self.guard(client, command)
            if client.queued is not None or (client.channels or client.patterns):
                return self._restricted(client, command, args)
            return self.call(client, command, args)
        except Failure as failure:
            return self._rejected(client, args, failure)

    def _restricted(self, client: Client, command: Command, args: list[bytes]) -> Reply:
        if (client.channels or client.patterns) and not client.resp3 and not command.flags & IN_PUBSUB:
            raise Failure(
                b"ERR Can't execute '%b': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET"
                b" are allowed in this context" % command.name
            )
        if client.queued is not None and not command.flags & UNQUEUED:
            client.queued.append((command, args))
            return QUEUED
        return self.call(client, command, args)

    def _rejected(self, client: Client, args: list[bytes], failure: Failure) -> Failure:
        self.count("total_error_replies")
        name = args[0].lower()
        if name == b"exec" and (client.queued is not None or len(args) > 1):
            self.end_transaction(client)
            return Failure(b"EXECABORT Transaction discarded because of: " + failure.text.removeprefix(b"ERR "))
        if client.queued is None:
            return failure
        if name not in (b"multi", b"watch"):
            client.queue_broken = True
        return failure

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

    # Guards

    def refresh_guards(self) -> None:
        """Recompute which commands need a second look; zero in the usual case."""
        limited = int(self.config.number("maxmemory") > 0)
        wary = self.is_replica or self.config.number("min-replicas-to-write") > 0
        self.guarded = (DENY_OOM if limited else 0) | (WRITE if wary else 0)
        if limited and self.memory is None:
            self.memory = Memory(self.databases, self.now_ms)
        elif not limited:
            self.memory = None

    def guard(self, client: Client, command: Command) -> None:
        if self.applying:
            return
        flags = command.flags
        if command.name == b"exec" and client.queued:
            for queued, _ in client.queued:
                flags |= queued.flags & (WRITE | DENY_OOM)
        if self.memory is not None:
            self.out_of_memory = not self.make_room()
            in_multi = client.queued is not None and not command.flags & UNQUEUED
            if self.out_of_memory and (flags & DENY_OOM or in_multi):
                raise Failure(OOM)
        if flags & WRITE:
            self.guard_write()

    def guard_write(self) -> None:
        if self.is_replica:
            if not self.applying and self.config["replica-read-only"] == "yes":
                raise Failure(READONLY)
        elif 0 < self.config.number("min-replicas-to-write") > self.good_replicas():
            raise Failure(NOREPLICAS)

    def good_replicas(self) -> int:
        """Hook: replicas that acknowledged within min-replicas-max-lag."""
        return 0

    def make_room(self) -> bool:
        """Evict until the data fits; False if it cannot. A replica leaves eviction to its primary."""
        assert self.memory is not None
        limit = self.config.number("maxmemory")
        while self.memory.used > limit and not self.is_replica:
            samples = self.config.number("maxmemory-samples")
            where = self.memory.victim(self.config["maxmemory-policy"], samples, self.host.rng)
            if where is None:
                return False
            db, key = where
            db.forget(key)
            db.signal(key)
            self.count("evicted_keys")
            self.propagate(db.index, [b"DEL", key])
        return True

    # Transactions, replication

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


def _wrapped(effects: list[tuple[int, list[bytes]]]) -> list[tuple[int, list[bytes]]]:
    return [(effects[0][0], [b"MULTI"]), *effects, (effects[-1][0], [b"EXEC"])]
