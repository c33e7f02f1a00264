"""MULTI, EXEC, DISCARD, WATCH (https://redis.io/docs/latest/develop/interact/transactions/)."""

from __future__ import annotations

from harness.sim.servers.redis.protocol import NULL_ARRAY, OK, Failure, Reply
from harness.sim.servers.redis.state import (
    NO_SCRIPT,
    OWN_EFFECTS,
    UNQUEUED,
    Client,
    Command,
)


def multi(client: Client, _args: list[bytes]) -> Reply:
    if client.queued is not None:
        raise Failure(b"ERR MULTI calls can not be nested")
    client.queued = []
    return OK


def discard(client: Client, _args: list[bytes]) -> Reply:
    if client.queued is None:
        raise Failure(b"ERR DISCARD without MULTI")
    client.engine.end_transaction(client)
    return OK


def exec_command(client: Client, _args: list[bytes]) -> Reply:
    queued, engine = client.queued, client.engine
    if queued is None:
        raise Failure(b"ERR EXEC without MULTI")
    spoilt = client.watch_broken or _watched_expired(client)
    broken = client.queue_broken
    engine.end_transaction(client)
    if broken:
        raise Failure(b"EXECABORT Transaction discarded because of previous errors.")
    if spoilt:
        return NULL_ARRAY
    engine.frozen_ms = engine.now_ms()
    try:
        return [_run(client, command, args) for command, args in queued]
    finally:
        engine.frozen_ms = None


def _run(client: Client, command: Command, args: list[bytes]) -> Reply:
    try:
        return client.engine.call(client, command, args)
    except Failure as failure:
        client.engine.count("total_error_replies")
        return failure


def _watched_expired(client: Client) -> bool:
    """A key that expired since WATCH, though nobody has deleted it yet, counts as changed."""
    now = client.engine.now_ms()
    for index, key in client.watching:
        db = client.engine.databases[index]
        if not db.watchers[key][client] and now > db.expires.get(key, now):
            return True
    return False


def watch(client: Client, args: list[bytes]) -> Reply:
    if client.queued is not None:
        raise Failure(b"ERR WATCH inside MULTI is not allowed")
    now = client.engine.now_ms()
    for key in args[1:]:
        if (client.db.index, key) not in client.watching:
            client.watching[client.db.index, key] = None
            client.db.watchers.setdefault(key, {})[client] = now > client.db.expires.get(key, now)
    return OK


def unwatch(client: Client, _args: list[bytes]) -> Reply:
    client.engine.unwatch(client)
    return OK


COMMANDS = [
    Command(b"multi", multi, 1, NO_SCRIPT | UNQUEUED),
    Command(b"discard", discard, 1, NO_SCRIPT | UNQUEUED),
    Command(b"exec", exec_command, 1, NO_SCRIPT | UNQUEUED | OWN_EFFECTS),
    Command(b"watch", watch, -2, NO_SCRIPT | UNQUEUED, (1, -1, 1)),
    Command(b"unwatch", unwatch, 1, NO_SCRIPT),
]
