"""Command dispatch of the simulated Redis: look a command up, check that it may run, evict keys, run it.

Corresponds to processCommand in server.c and to evict.c of Redis 7.0. No command is defined here: each family of
commands is a table of :class:`RedisCommand`, and :mod:`harness.sim.servers.redis.server` merges these tables.
"""

from __future__ import annotations

from .memory import Memory
from .protocol import (
    LOADING,
    NOREPLICAS,
    OOM,
    QUEUED,
    READONLY,
    ErrorReply,
    Reply,
    unknown_command,
    unknown_subcommand,
    wrong_arity,
)
from .state import DENY_OOM, IN_PUBSUB, UNQUEUED, WRITE, ClientState, RedisCommand, ServerState

RUN_WHILE_LOADING = frozenset(
    b"auth client command config discard echo exec hello info lastsave multi psubscribe publish punsubscribe quit"
    b" replconf reset role select slowlog subscribe time unsubscribe unwatch watch".split()
)
"""Commands that Redis 7.0 runs while it loads its data (flag ``loading`` of COMMAND INFO)."""


def runs_while_loading(command: RedisCommand) -> bool:
    """Return True if a command, or one that a subcommand belongs to, runs while the server loads its data."""
    return command.full_name.split(b"|")[0] in RUN_WHILE_LOADING


def _not_while_subscribed(command: RedisCommand) -> ErrorReply:
    return ErrorReply(
        b"ERR Can't execute '%b': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET"
        b" are allowed in this context" % command.full_name
    )


class Engine(ServerState):
    """Runs commands after checking arity, subscriptions, transactions, roles and memory."""

    # Running commands

    def lookup(self, client: ClientState, args: list[bytes]) -> RedisCommand:
        """Return the command or subcommand. Raises ErrorReply if it is unknown or has a wrong number of arguments."""
        command = self.commands.get(args[0]) or self.commands.get(args[0].lower())
        if command is None:
            self.note_unknown(client, args)
            raise unknown_command(args)
        if command.subcommands is not None and len(args) > 1:
            sub = command.subcommands.get(args[1].lower())
            if sub is None:
                self.note_unknown(client, args)
                raise unknown_subcommand(args[0], args[1])
            command = sub
        if not command.accepts(args):
            raise wrong_arity(command.full_name)
        return command

    def execute(self, client: ClientState, args: list[bytes]) -> Reply:
        """Run one command of a client and return its reply. Errors are returned as :class:`ErrorReply`."""
        self.commands_run += 1
        try:
            command = self.commands.get(args[0])
            if command is None or command.subcommands is not None or not command.accepts(args):
                command = self.lookup(client, args)
            if self.loading and not runs_while_loading(command):
                raise ErrorReply(LOADING)
            if self.guarded:
                self.guard(client, command)
            if (client.channels or client.patterns) and not client.resp3 and not command.flags & IN_PUBSUB:
                raise _not_while_subscribed(command)
        except ErrorReply as failure:
            return self._rejected(client, args, failure)
        if client.queued is not None and not command.flags & UNQUEUED:
            client.queued.append((command, args))
            return QUEUED
        try:
            return self.call(client, command, args)
        except ErrorReply as failure:
            self.count("total_error_replies")
            return failure

    def _rejected(self, client: ClientState, args: list[bytes], failure: ErrorReply) -> ErrorReply:
        """Return the reply to a command that was not run. It makes EXEC fail; errors of a command that ran do not."""
        self.count("total_error_replies")
        if args[0].lower() == b"exec":
            self.end_transaction(client)
            return ErrorReply(b"EXECABORT Transaction discarded because of: " + failure.text.removeprefix(b"ERR "))
        client.queue_broken = client.queued is not None
        return failure

    # Checks before a command runs

    def refresh_guards(self) -> None:
        """Recompute which command flags need a check by :meth:`guard`; 0 in the usual case."""
        limited = int(self.config.number("maxmemory") > 0)
        restricted = self.is_replica or self.needs_replicas()
        self.guarded = (DENY_OOM if limited else 0) | (WRITE if restricted else 0)
        if limited and self.memory is None:
            self.memory = Memory(self.databases, self.now_ms)
        elif not limited:
            self.memory = None

    def guard(self, client: ClientState, command: RedisCommand) -> None:
        """Raise ErrorReply if memory, the role or missing replicas forbid the command."""
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
                self.log_refusal()
                raise ErrorReply(OOM)
        if flags & WRITE:
            self.guard_write()

    def guard_write(self) -> None:
        if self.is_replica:
            if not self.applying and self.config["replica-read-only"] == "yes":
                raise ErrorReply(READONLY)
        elif self.needs_replicas() and self.config.number("min-replicas-to-write") > self.good_replicas():
            raise ErrorReply(NOREPLICAS)

    def needs_replicas(self) -> bool:
        """Return True if writes are refused for want of replicas: either limit turns that off with 0."""
        return self.config.number("min-replicas-to-write") > 0 and self.config.number("min-replicas-max-lag") > 0

    def make_room(self) -> bool:
        """Evict keys until the data fits into maxmemory. Return False if it cannot fit.

        A replica does not evict; its primary does.
        """
        assert self.memory is not None
        limit = self.config.number("maxmemory")
        while self.memory.used > limit and not self.is_replica:
            samples = self.config.number("maxmemory-samples")
            policy = self.config["maxmemory-policy"]
            where = self.memory.victim(policy, samples, self.host.rng)
            if where is None:
                return False
            db, key = where
            db.forget(key)
            db.signal(key)
            self.count("evicted_keys")
            name = key.decode(errors="backslashreplace")
            self.log_first("eviction", f"Evicted key '{name}' of db{db.index}, more than maxmemory in use ({policy})")
            self.propagate(db.index, [b"DEL", key])
        return True
