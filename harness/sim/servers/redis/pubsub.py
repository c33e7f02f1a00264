"""Publish and subscribe (https://redis.io/docs/latest/develop/interact/pubsub/); shards and keyspace events are
left out.
"""

from __future__ import annotations

from harness.sim.servers.redis.protocol import Many, Push, Reply
from harness.sim.servers.redis.state import (
    IN_PUBSUB,
    NO_SCRIPT,
    Client,
    Command,
    Server,
    container,
)
from harness.sim.servers.redis.values import glob

Register = dict[bytes, dict[Client, None]]


def deliver(engine: Server, channel: bytes, message: bytes) -> int:
    """Hand a message to everybody on this server who wants it."""
    receivers = 0
    for client in engine.channels.get(channel, ()):
        client.write(Push([b"message", channel, message]))
        receivers += 1
    for pattern, clients in engine.patterns.items():
        if glob(pattern).fullmatch(channel):
            for client in clients:
                client.write(Push([b"pmessage", pattern, channel, message]))
            receivers += len(clients)
    return receivers


def publish(client: Client, args: list[bytes]) -> Reply:
    receivers = deliver(client.engine, args[1], args[2])
    client.engine.propagate(client.db.index, args)
    return receivers


def _count(client: Client) -> int:
    return len(client.channels) + len(client.patterns)


def _join(client: Client, names: list[bytes], verb: bytes, mine: dict[bytes, None], register: Register) -> Reply:
    replies = Many()
    for name in names:
        mine[name] = None
        register.setdefault(name, {})[client] = None
        replies.append(Push([verb, name, _count(client)]))
    return replies


def _leave(client: Client, names: list[bytes], verb: bytes, mine: dict[bytes, None], register: Register) -> Reply:
    replies = Many()
    for name in names or list(mine):
        if name in mine:
            del mine[name]
            del register[name][client]
            if not register[name]:
                del register[name]
        replies.append(Push([verb, name, _count(client)]))
    return replies or Many([Push([verb, None, _count(client)])])


def subscribe(client: Client, args: list[bytes]) -> Reply:
    return _join(client, args[1:], b"subscribe", client.channels, client.engine.channels)


def unsubscribe(client: Client, args: list[bytes]) -> Reply:
    return _leave(client, args[1:], b"unsubscribe", client.channels, client.engine.channels)


def psubscribe(client: Client, args: list[bytes]) -> Reply:
    return _join(client, args[1:], b"psubscribe", client.patterns, client.engine.patterns)


def punsubscribe(client: Client, args: list[bytes]) -> Reply:
    return _leave(client, args[1:], b"punsubscribe", client.patterns, client.engine.patterns)


def leave_all(client: Client) -> None:
    """The connection is gone, or was RESET."""
    _leave(client, [], b"", client.channels, client.engine.channels)
    _leave(client, [], b"", client.patterns, client.engine.patterns)


def channels(client: Client, args: list[bytes]) -> Reply:
    wanted = glob(args[2]) if len(args) > 2 else glob(b"*")
    return [name for name in client.engine.channels if wanted.fullmatch(name)]


def numsub(client: Client, args: list[bytes]) -> Reply:
    counted: list[Reply] = []
    for name in args[2:]:
        counted += [name, len(client.engine.channels.get(name, ()))]
    return counted  # an array for clients of RESP3, too


def numpat(client: Client, _args: list[bytes]) -> Reply:
    return len(client.engine.patterns)


_FLAGS = NO_SCRIPT | IN_PUBSUB

COMMANDS = [
    Command(b"publish", publish, 3),
    Command(b"subscribe", subscribe, -2, _FLAGS),
    Command(b"unsubscribe", unsubscribe, -1, _FLAGS),
    Command(b"psubscribe", psubscribe, -2, _FLAGS),
    Command(b"punsubscribe", punsubscribe, -1, _FLAGS),
    container(
        b"pubsub", [Command(b"channels", channels, -2), Command(b"numsub", numsub, -2), Command(b"numpat", numpat, 2)]
    ),
]
