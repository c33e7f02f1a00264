"""Redis commands on lists, including the blocking ones (https://redis.io/docs/latest/commands/?group=list)."""

from __future__ import annotations

from collections.abc import Callable

from .protocol import NO_REPLY, NULL_ARRAY, OK, SYNTAX, ErrorReply, Reply, is_no_reply
from .state import DENY_OOM, MAY_BLOCK, NO_SCRIPT, WRITE, Blocked, ClientState, RedisCommand
from .values import range_of, to_float, to_integer

List = list[bytes]


def _list(client: ClientState, key: bytes) -> List:
    return client.db.typed(key, list) or []


def _push(client: ClientState, key: bytes, items: List, left: bool) -> int:
    target: List = client.db.typed_or_new(key, list)
    if left:
        target[:0] = items[::-1]
    else:
        target.extend(items)
    client.db.touch(key)
    return len(target)


def lpush(client: ClientState, args: list[bytes]) -> Reply:
    return _push(client, args[1], args[2:], True)


def rpush(client: ClientState, args: list[bytes]) -> Reply:
    return _push(client, args[1], args[2:], False)


def lpushx(client: ClientState, args: list[bytes]) -> Reply:
    return _push(client, args[1], args[2:], True) if _list(client, args[1]) else 0


def rpushx(client: ClientState, args: list[bytes]) -> Reply:
    return _push(client, args[1], args[2:], False) if _list(client, args[1]) else 0


def _take(client: ClientState, key: bytes, target: List, left: bool) -> bytes:
    item = target.pop(0 if left else -1)
    client.db.delete_if_empty(key, target)
    return item


def _pop(client: ClientState, args: list[bytes], left: bool) -> Reply:
    if len(args) > 3:
        raise ErrorReply(b"ERR wrong number of arguments for '%b' command" % (b"lpop" if left else b"rpop"))
    count = None
    if len(args) == 3:
        count = to_integer(args[2], b"ERR value is out of range, must be positive")
        if count < 0:
            raise ErrorReply(b"ERR value is out of range, must be positive")
    target = _list(client, args[1])
    if not target:
        return None if count is None else NULL_ARRAY
    if count is None:
        return _take(client, args[1], target, left)
    return [_take(client, args[1], target, left) for _ in range(min(count, len(target)))]


def lpop(client: ClientState, args: list[bytes]) -> Reply:
    return _pop(client, args, True)


def rpop(client: ClientState, args: list[bytes]) -> Reply:
    return _pop(client, args, False)


def llen(client: ClientState, args: list[bytes]) -> Reply:
    return len(_list(client, args[1]))


def lrange(client: ClientState, args: list[bytes]) -> Reply:
    start, stop = to_integer(args[2]), to_integer(args[3])
    found = _list(client, args[1])
    chosen = range_of(len(found), start, stop)
    return found[chosen.start : chosen.stop] if chosen else []


def lindex(client: ClientState, args: list[bytes]) -> Reply:
    found = _list(client, args[1])
    if not found:
        return None
    index = to_integer(args[2])
    return found[index] if -len(found) <= index < len(found) else None


def lset(client: ClientState, args: list[bytes]) -> Reply:
    target = _list(client, args[1])
    if not target:
        raise ErrorReply(b"ERR no such key")
    index = to_integer(args[2])
    if not -len(target) <= index < len(target):
        raise ErrorReply(b"ERR index out of range")
    target[index] = args[3]
    client.db.touch(args[1])
    return OK


def lrem(client: ClientState, args: list[bytes]) -> Reply:
    count = to_integer(args[2])
    target = _list(client, args[1])
    order = range(len(target)) if count >= 0 else range(len(target) - 1, -1, -1)
    doomed = [index for index in order if target[index] == args[3]]
    if count:
        doomed = doomed[: abs(count)]
    for index in sorted(doomed, reverse=True):
        del target[index]
    if doomed:
        client.db.delete_if_empty(args[1], target)
    return len(doomed)


def ltrim(client: ClientState, args: list[bytes]) -> Reply:
    start, stop = to_integer(args[2]), to_integer(args[3])
    target = _list(client, args[1])
    if target:
        saved = range_of(len(target), start, stop)
        target[:] = target[saved.start : saved.stop] if saved else []
        client.db.delete_if_empty(args[1], target)
    return OK


def _move(client: ClientState, source: bytes, target: bytes, from_left: bool, to_left: bool) -> bytes | None:
    items = _list(client, source)
    if not items:
        return None
    client.db.typed(target, list)
    item = items.pop(0 if from_left else -1)
    if items or source == target:
        client.db.touch(source)
    else:
        client.db.delete_if_empty(source, items)
    _push(client, target, [item], to_left)
    side = (b"RIGHT", b"LEFT")
    client.engine.replicate_as([b"LMOVE", source, target, side[from_left], side[to_left]])
    return item


def rpoplpush(client: ClientState, args: list[bytes]) -> Reply:
    return _move(client, args[1], args[2], False, True)


def _side(word: bytes) -> bool:
    if word.upper() not in (b"LEFT", b"RIGHT"):
        raise ErrorReply(SYNTAX)
    return word.upper() == b"LEFT"


def lmove(client: ClientState, args: list[bytes]) -> Reply:
    return _move(client, args[1], args[2], _side(args[3]), _side(args[4]))


# Blocking


def _timeout_ms(text: bytes) -> int:
    seconds = to_float(text, b"ERR timeout is not a float or out of range")
    if not 0 <= seconds * 1000 < 1 << 63:
        raise ErrorReply(b"ERR timeout is negative")
    return int(-(-seconds * 1000 // 1))


def _wait(
    client: ClientState, args: list[bytes], keys: list[bytes], attempt: Callable[[bytes], Reply], none: Reply
) -> Reply:
    """Try each key at once; otherwise block the client until one of the keys gets an item, or the time-out.

    ``none`` is the reply where no client may wait, as in MULTI.
    """
    timeout_ms = _timeout_ms(args[-1])
    for key in keys:
        reply = attempt(key)
        if not is_no_reply(reply):
            return reply
    if client.conn is None or client.queued is not None or client.engine.frozen_ms is not None:
        return none
    blocked = Blocked(args, lambda: NULL_ARRAY)
    blocked.keys = list(dict.fromkeys(keys))
    blocked.try_again = attempt
    return client.engine.block(client, blocked, timeout_ms)


def _blocking_pop(client: ClientState, args: list[bytes], left: bool) -> Reply:
    def attempt(key: bytes) -> Reply:
        target = _list(client, key)
        if not target:
            return NO_REPLY
        client.engine.replicate_as([b"LPOP" if left else b"RPOP", key])
        return [key, _take(client, key, target, left)]

    return _wait(client, args, args[1:-1], attempt, NULL_ARRAY)


def blpop(client: ClientState, args: list[bytes]) -> Reply:
    return _blocking_pop(client, args, True)


def brpop(client: ClientState, args: list[bytes]) -> Reply:
    return _blocking_pop(client, args, False)


def _blocking_move(client: ClientState, args: list[bytes], from_left: bool, to_left: bool) -> Reply:
    def attempt(source: bytes) -> Reply:
        item = _move(client, source, args[2], from_left, to_left)
        return NO_REPLY if item is None else item

    return _wait(client, args, [args[1]], attempt, None)


def brpoplpush(client: ClientState, args: list[bytes]) -> Reply:
    return _blocking_move(client, args, False, True)


def blmove(client: ClientState, args: list[bytes]) -> Reply:
    return _blocking_move(client, args, _side(args[3]), _side(args[4]))


_KEY = (1, 1, 1)
_TWO = (1, 2, 1)
_BLOCK = WRITE | NO_SCRIPT | MAY_BLOCK

COMMANDS = [
    RedisCommand(b"lpush", lpush, -3, WRITE | DENY_OOM, _KEY),
    RedisCommand(b"rpush", rpush, -3, WRITE | DENY_OOM, _KEY),
    RedisCommand(b"lpushx", lpushx, -3, WRITE | DENY_OOM, _KEY),
    RedisCommand(b"rpushx", rpushx, -3, WRITE | DENY_OOM, _KEY),
    RedisCommand(b"lpop", lpop, -2, WRITE, _KEY),
    RedisCommand(b"rpop", rpop, -2, WRITE, _KEY),
    RedisCommand(b"llen", llen, 2, 0, _KEY),
    RedisCommand(b"lrange", lrange, 4, 0, _KEY),
    RedisCommand(b"lindex", lindex, 3, 0, _KEY),
    RedisCommand(b"lset", lset, 4, WRITE | DENY_OOM, _KEY),
    RedisCommand(b"lrem", lrem, 4, WRITE, _KEY),
    RedisCommand(b"ltrim", ltrim, 4, WRITE, _KEY),
    RedisCommand(b"rpoplpush", rpoplpush, 3, WRITE | DENY_OOM, _TWO),
    RedisCommand(b"lmove", lmove, 5, WRITE | DENY_OOM, _TWO),
    RedisCommand(b"blpop", blpop, -3, _BLOCK, (1, -2, 1)),
    RedisCommand(b"brpop", brpop, -3, _BLOCK, (1, -2, 1)),
    RedisCommand(b"brpoplpush", brpoplpush, 4, _BLOCK | DENY_OOM, _TWO),
    RedisCommand(b"blmove", blmove, 6, _BLOCK | DENY_OOM, _TWO),
]
