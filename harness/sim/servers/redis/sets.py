"""Commands on sets (https://redis.io/docs/latest/commands/?group=set)."""

from __future__ import annotations

from harness.sim.servers.redis.protocol import Reply, SetReply
from harness.sim.servers.redis.state import (
    DENY_OOM,
    WRITE,
    Client,
    Command,
)
from harness.sim.servers.redis.values import Members


def _members(client: Client, key: bytes) -> Members:
    return client.db.typed(key, Members) or Members()


def sadd(client: Client, args: list[bytes]) -> Reply:
    target = client.db.typed_or_new(args[1], Members)
    before = len(target)
    target.update(dict.fromkeys(args[2:]))
    if len(target) != before:
        client.db.touch(args[1])
    return len(target) - before


def srem(client: Client, args: list[bytes]) -> Reply:
    target = _members(client, args[1])
    before = len(target)
    for member in args[2:]:
        target.pop(member, None)
    if len(target) != before:
        client.db.shrunk(args[1], target)
    return before - len(target)


def sismember(client: Client, args: list[bytes]) -> Reply:
    return int(args[2] in _members(client, args[1]))


def smismember(client: Client, args: list[bytes]) -> Reply:
    members = _members(client, args[1])
    return [int(member in members) for member in args[2:]]


def smembers(client: Client, args: list[bytes]) -> Reply:
    return SetReply(_members(client, args[1]))


def scard(client: Client, args: list[bytes]) -> Reply:
    return len(_members(client, args[1]))


_KEY = (1, 1, 1)

COMMANDS = [
    Command(b"sadd", sadd, -3, WRITE | DENY_OOM, _KEY),
    Command(b"srem", srem, -3, WRITE, _KEY),
    Command(b"sismember", sismember, 3, 0, _KEY),
    Command(b"smismember", smismember, -3, 0, _KEY),
    Command(b"smembers", smembers, 2, 0, _KEY),
    Command(b"scard", scard, 2, 0, _KEY),
]
