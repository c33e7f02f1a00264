"""Redis commands on sets (https://redis.io/docs/latest/commands/?group=set)."""

from __future__ import annotations

from .protocol import Reply, SetReply
from .state import DENY_OOM, WRITE, ClientState, RedisCommand
from .values import SetMembers


def _members(client: ClientState, key: bytes) -> SetMembers:
    return client.db.typed(key, SetMembers) or SetMembers()


def sadd(client: ClientState, args: list[bytes]) -> Reply:
    target = client.db.typed_or_new(args[1], SetMembers)
    before = len(target)
    target.update(dict.fromkeys(args[2:]))
    if len(target) != before:
        client.db.touch(args[1])
    return len(target) - before


def srem(client: ClientState, args: list[bytes]) -> Reply:
    target = _members(client, args[1])
    before = len(target)
    for member in args[2:]:
        target.pop(member, None)
    if len(target) != before:
        client.db.delete_if_empty(args[1], target)
    return before - len(target)


def sismember(client: ClientState, args: list[bytes]) -> Reply:
    return int(args[2] in _members(client, args[1]))


def smismember(client: ClientState, args: list[bytes]) -> Reply:
    members = _members(client, args[1])
    return [int(member in members) for member in args[2:]]


def smembers(client: ClientState, args: list[bytes]) -> Reply:
    return SetReply(_members(client, args[1]))


def scard(client: ClientState, args: list[bytes]) -> Reply:
    return len(_members(client, args[1]))


_KEY = (1, 1, 1)

COMMANDS = [
    RedisCommand(b"sadd", sadd, -3, WRITE | DENY_OOM, _KEY),
    RedisCommand(b"srem", srem, -3, WRITE, _KEY),
    RedisCommand(b"sismember", sismember, 3, 0, _KEY),
    RedisCommand(b"smismember", smismember, -3, 0, _KEY),
    RedisCommand(b"smembers", smembers, 2, 0, _KEY),
    RedisCommand(b"scard", scard, 2, 0, _KEY),
]
