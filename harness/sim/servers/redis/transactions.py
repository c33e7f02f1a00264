"""Redis commands for transactions: MULTI, EXEC, DISCARD, WATCH and UNWATCH.

Source: https://redis.io/docs/latest/develop/interact/transactions/.
"""

from __future__ import annotations

from .protocol import NULL_ARRAY, OK, ErrorReply, Reply
from .state import NO_SCRIPT, OWN_EFFECTS, UNQUEUED, ClientState, RedisCommand


def multi(client: ClientState, _args: list[bytes]) -> Reply:
    if client.queued is not None:
        raise ErrorReply(b"ERR MULTI calls can not be nested")
    client.queued = []
    return OK


def discard(client: ClientState, _args: list[bytes]) -> Reply:
    if client.queued is None:
        raise ErrorReply(b"ERR DISCARD without MULTI")
    client.engine.end_transaction(client)
    return OK


def exec_command(client: ClientState, _args: list[bytes]) -> Reply:
    queued, engine = client.queued, client.engine
    if queued is None:
        raise ErrorReply(b"ERR EXEC without MULTI")
    watched_changed = client.watch_broken or _watched_expired(client)
    broken = client.queue_broken
    engine.end_transaction(client)
    if broken:
        raise ErrorReply(b"EXECABORT Transaction discarded because of previous errors.")
    if watched_changed:
        return NULL_ARRAY
    engine.frozen_ms = engine.now_ms()
    try:
        return [_run(client, command, args) for command, args in queued]
    finally:
        engine.frozen_ms = None


def _run(client: ClientState, command: RedisCommand, args: list[bytes]) -> Reply:
    try:
        return client.engine.call(client, command, args)
    except ErrorReply as failure:
        client.engine.count("total_error_replies")
        return failure


def _watched_expired(client: ClientState) -> bool:
    """Return True if a watched key has expired since WATCH. It counts as changed even if it is not deleted yet."""
    now = client.engine.now_ms()
    for index, key in client.watching:
        db = client.engine.databases[index]
        if not db.watchers[key][client] and now > db.expires.get(key, now):
            return True
    return False


def watch(client: ClientState, args: list[bytes]) -> Reply:
    if client.queued is not None:
        raise ErrorReply(b"ERR WATCH inside MULTI is not allowed")
    now = client.engine.now_ms()
    for key in args[1:]:
        if (client.db.index, key) not in client.watching:
            client.watching[client.db.index, key] = None
            client.db.watchers.setdefault(key, {})[client] = now > client.db.expires.get(key, now)
    return OK


def unwatch(client: ClientState, _args: list[bytes]) -> Reply:
    client.engine.unwatch(client)
    return OK


COMMANDS = [
    RedisCommand(b"multi", multi, 1, NO_SCRIPT | UNQUEUED),
    RedisCommand(b"discard", discard, 1, NO_SCRIPT | UNQUEUED),
    RedisCommand(b"exec", exec_command, 1, NO_SCRIPT | UNQUEUED | OWN_EFFECTS),
    RedisCommand(b"watch", watch, -2, NO_SCRIPT | UNQUEUED, (1, -1, 1)),
    RedisCommand(b"unwatch", unwatch, 1, NO_SCRIPT),
]
