"""What a command is and what Redis remembers of a connection (struct redisCommand and struct client of server.h)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from harness.sim.servers.redis_protocol import Reply, encode, unknown_subcommand
from harness.sim.service import Conn, Timer

if TYPE_CHECKING:
    from harness.sim.servers.redis_engine import Engine

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

    def __init__(self, engine: Engine, conn: Conn | None, number: int) -> None:
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
