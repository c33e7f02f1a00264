"""Commands on hashes (https://redis.io/docs/latest/commands/?group=hash)."""

from __future__ import annotations

from collections.abc import Iterable

from harness.sim.servers.redis.protocol import INTEGER_RANGE, OK, Failure, FlatMap, Reply, wrong_arity
from harness.sim.servers.redis.state import (
    DENY_OOM,
    WRITE,
    Client,
    Command,
)
from harness.sim.servers.redis.values import to_integer

Hash = dict[bytes, bytes]


def _hash(client: Client, key: bytes) -> Hash:
    return client.db.typed(key, dict) or {}


def _store(client: Client, args: list[bytes], name: bytes) -> int:
    if len(args) & 1:
        raise wrong_arity(name)
    target: Hash = client.db.typed_or_new(args[1], dict)
    before = len(target)
    target.update(zip(args[2::2], args[3::2], strict=True))
    client.db.touch(args[1])
    return len(target) - before


def hset(client: Client, args: list[bytes]) -> Reply:
    return _store(client, args, b"hset")


def hmset(client: Client, args: list[bytes]) -> Reply:
    _store(client, args, b"hmset")
    return OK


def hsetnx(client: Client, args: list[bytes]) -> Reply:
    if args[2] in _hash(client, args[1]):
        return 0
    return _store(client, args, b"hsetnx")


def hget(client: Client, args: list[bytes]) -> Reply:
    return _hash(client, args[1]).get(args[2])


def hmget(client: Client, args: list[bytes]) -> Reply:
    found = _hash(client, args[1])
    return [found.get(field) for field in args[2:]]


def _flat(pairs: Iterable[tuple[bytes, bytes]]) -> FlatMap:
    return FlatMap([text for pair in pairs for text in pair])


def hgetall(client: Client, args: list[bytes]) -> Reply:
    return _flat(_hash(client, args[1]).items())


def hkeys(client: Client, args: list[bytes]) -> Reply:
    return list(_hash(client, args[1]))


def hvals(client: Client, args: list[bytes]) -> Reply:
    return list(_hash(client, args[1]).values())


def hlen(client: Client, args: list[bytes]) -> Reply:
    return len(_hash(client, args[1]))


def hexists(client: Client, args: list[bytes]) -> Reply:
    return int(args[2] in _hash(client, args[1]))


def hstrlen(client: Client, args: list[bytes]) -> Reply:
    return len(_hash(client, args[1]).get(args[2], b""))


def hdel(client: Client, args: list[bytes]) -> Reply:
    found = _hash(client, args[1])
    removed = sum([found.pop(field, None) is not None for field in args[2:]])
    if removed:
        client.db.shrunk(args[1], found)
    return removed


def hincrby(client: Client, args: list[bytes]) -> Reply:
    step = to_integer(args[3])
    current = _hash(client, args[1]).get(args[2], b"0")
    number = to_integer(current, b"ERR hash value is not an integer") + step
    if number not in INTEGER_RANGE:
        raise Failure(b"ERR increment or decrement would overflow")
    target: Hash = client.db.typed_or_new(args[1], dict)
    target[args[2]] = b"%d" % number
    client.db.touch(args[1])
    return number


_KEY = (1, 1, 1)

COMMANDS = [
    Command(b"hset", hset, -4, WRITE | DENY_OOM, _KEY),
    Command(b"hmset", hmset, -4, WRITE | DENY_OOM, _KEY),
    Command(b"hsetnx", hsetnx, 4, WRITE | DENY_OOM, _KEY),
    Command(b"hget", hget, 3, 0, _KEY),
    Command(b"hmget", hmget, -3, 0, _KEY),
    Command(b"hgetall", hgetall, 2, 0, _KEY),
    Command(b"hkeys", hkeys, 2, 0, _KEY),
    Command(b"hvals", hvals, 2, 0, _KEY),
    Command(b"hlen", hlen, 2, 0, _KEY),
    Command(b"hexists", hexists, 3, 0, _KEY),
    Command(b"hstrlen", hstrlen, 3, 0, _KEY),
    Command(b"hdel", hdel, -3, WRITE, _KEY),
    Command(b"hincrby", hincrby, 4, WRITE | DENY_OOM, _KEY),
]
