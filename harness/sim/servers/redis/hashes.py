"""Redis commands on hashes (https://redis.io/docs/latest/commands/?group=hash)."""

from __future__ import annotations

from collections.abc import Iterable

from .protocol import INTEGER_RANGE, OK, ErrorReply, FlatMap, Reply, wrong_arity
from .state import DENY_OOM, WRITE, ClientState, RedisCommand
from .values import to_integer

Hash = dict[bytes, bytes]


def _hash(client: ClientState, key: bytes) -> Hash:
    return client.db.typed(key, dict) or {}


def _store(client: ClientState, args: list[bytes], name: bytes) -> int:
    if len(args) & 1:
        raise wrong_arity(name)
    target: Hash = client.db.typed_or_new(args[1], dict)
    before = len(target)
    target.update(zip(args[2::2], args[3::2], strict=True))
    client.db.touch(args[1])
    return len(target) - before


def hset(client: ClientState, args: list[bytes]) -> Reply:
    return _store(client, args, b"hset")


def hmset(client: ClientState, args: list[bytes]) -> Reply:
    _store(client, args, b"hmset")
    return OK


def hsetnx(client: ClientState, args: list[bytes]) -> Reply:
    if args[2] in _hash(client, args[1]):
        return 0
    return _store(client, args, b"hsetnx")


def hget(client: ClientState, args: list[bytes]) -> Reply:
    return _hash(client, args[1]).get(args[2])


def hmget(client: ClientState, args: list[bytes]) -> Reply:
    found = _hash(client, args[1])
    return [found.get(field) for field in args[2:]]


def _flat(pairs: Iterable[tuple[bytes, bytes]]) -> FlatMap:
    return FlatMap([text for pair in pairs for text in pair])


def hgetall(client: ClientState, args: list[bytes]) -> Reply:
    return _flat(_hash(client, args[1]).items())


def hkeys(client: ClientState, args: list[bytes]) -> Reply:
    return list(_hash(client, args[1]))


def hvals(client: ClientState, args: list[bytes]) -> Reply:
    return list(_hash(client, args[1]).values())


def hlen(client: ClientState, args: list[bytes]) -> Reply:
    return len(_hash(client, args[1]))


def hexists(client: ClientState, args: list[bytes]) -> Reply:
    return int(args[2] in _hash(client, args[1]))


def hstrlen(client: ClientState, args: list[bytes]) -> Reply:
    return len(_hash(client, args[1]).get(args[2], b""))


def hdel(client: ClientState, args: list[bytes]) -> Reply:
    found = _hash(client, args[1])
    removed = sum([found.pop(field, None) is not None for field in args[2:]])
    if removed:
        client.db.delete_if_empty(args[1], found)
    return removed


def hincrby(client: ClientState, args: list[bytes]) -> Reply:
    step = to_integer(args[3])
    current = _hash(client, args[1]).get(args[2], b"0")
    number = to_integer(current, b"ERR hash value is not an integer") + step
    if number not in INTEGER_RANGE:
        raise ErrorReply(b"ERR increment or decrement would overflow")
    target: Hash = client.db.typed_or_new(args[1], dict)
    target[args[2]] = b"%d" % number
    client.db.touch(args[1])
    return number


_KEY = (1, 1, 1)

COMMANDS = [
    RedisCommand(b"hset", hset, -4, WRITE | DENY_OOM, _KEY),
    RedisCommand(b"hmset", hmset, -4, WRITE | DENY_OOM, _KEY),
    RedisCommand(b"hsetnx", hsetnx, 4, WRITE | DENY_OOM, _KEY),
    RedisCommand(b"hget", hget, 3, 0, _KEY),
    RedisCommand(b"hmget", hmget, -3, 0, _KEY),
    RedisCommand(b"hgetall", hgetall, 2, 0, _KEY),
    RedisCommand(b"hkeys", hkeys, 2, 0, _KEY),
    RedisCommand(b"hvals", hvals, 2, 0, _KEY),
    RedisCommand(b"hlen", hlen, 2, 0, _KEY),
    RedisCommand(b"hexists", hexists, 3, 0, _KEY),
    RedisCommand(b"hstrlen", hstrlen, 3, 0, _KEY),
    RedisCommand(b"hdel", hdel, -3, WRITE, _KEY),
    RedisCommand(b"hincrby", hincrby, 4, WRITE | DENY_OOM, _KEY),
]
