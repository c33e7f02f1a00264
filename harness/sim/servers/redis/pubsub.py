"""Redis commands for publish and subscribe.

Source: https://redis.io/docs/latest/develop/interact/pubsub/. Not simulated: sharded channels and keyspace events.
"""

from __future__ import annotations

from .protocol import Push, Reply, ReplySequence
from .state import IN_PUBSUB, NO_SCRIPT, ClientState, RedisCommand, ServerState, container
from .values import glob

Register = dict[bytes, dict[ClientState, None]]


def deliver(engine: ServerState, channel: bytes, message: bytes) -> int:
    """Send a message to this server's subscribers and return their number."""
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


def publish(client: ClientState, args: list[bytes]) -> Reply:
    receivers = deliver(client.engine, args[1], args[2])
    client.engine.propagate(client.db.index, args)
    return receivers


def _count(client: ClientState) -> int:
    return len(client.channels) + len(client.patterns)


def _join(client: ClientState, names: list[bytes], verb: bytes, mine: dict[bytes, None], register: Register) -> Reply:
    replies = ReplySequence()
    for name in names:
        mine[name] = None
        register.setdefault(name, {})[client] = None
        replies.append(Push([verb, name, _count(client)]))
    return replies


def _leave(client: ClientState, names: list[bytes], verb: bytes, mine: dict[bytes, None], register: Register) -> Reply:
    replies = ReplySequence()
    for name in names or list(mine):
        if name in mine:
            del mine[name]
            del register[name][client]
            if not register[name]:
                del register[name]
        replies.append(Push([verb, name, _count(client)]))
    return replies or ReplySequence([Push([verb, None, _count(client)])])


def subscribe(client: ClientState, args: list[bytes]) -> Reply:
    return _join(client, args[1:], b"subscribe", client.channels, client.engine.channels)


def unsubscribe(client: ClientState, args: list[bytes]) -> Reply:
    return _leave(client, args[1:], b"unsubscribe", client.channels, client.engine.channels)


def psubscribe(client: ClientState, args: list[bytes]) -> Reply:
    return _join(client, args[1:], b"psubscribe", client.patterns, client.engine.patterns)


def punsubscribe(client: ClientState, args: list[bytes]) -> Reply:
    return _leave(client, args[1:], b"punsubscribe", client.patterns, client.engine.patterns)


def leave_all(client: ClientState) -> None:
    """Unsubscribe a client from everything, after RESET or when its connection ends."""
    _leave(client, [], b"", client.channels, client.engine.channels)
    _leave(client, [], b"", client.patterns, client.engine.patterns)


def channels(client: ClientState, args: list[bytes]) -> Reply:
    wanted = glob(args[2]) if len(args) > 2 else glob(b"*")
    return [name for name in client.engine.channels if wanted.fullmatch(name)]


def numsub(client: ClientState, args: list[bytes]) -> Reply:
    counted: list[Reply] = []
    for name in args[2:]:
        counted += [name, len(client.engine.channels.get(name, ()))]
    return counted  # a flat array in RESP3, too


def numpat(client: ClientState, _args: list[bytes]) -> Reply:
    return len(client.engine.patterns)


_FLAGS = NO_SCRIPT | IN_PUBSUB

COMMANDS = [
    RedisCommand(b"publish", publish, 3),
    RedisCommand(b"subscribe", subscribe, -2, _FLAGS),
    RedisCommand(b"unsubscribe", unsubscribe, -1, _FLAGS),
    RedisCommand(b"psubscribe", psubscribe, -2, _FLAGS),
    RedisCommand(b"punsubscribe", punsubscribe, -1, _FLAGS),
    container(
        b"pubsub",
        [
            RedisCommand(b"channels", channels, -2),
            RedisCommand(b"numsub", numsub, -2),
            RedisCommand(b"numpat", numpat, 2),
        ],
    ),
]
