"""Redis commands about the connection, such as PING, HELLO, AUTH and CLIENT.

Source: https://redis.io/docs/latest/commands/?group=connection. There are no users or passwords. CLIENT TRACKING is
refused, although Redis 7.0 has it, because client-side caching is not simulated.
"""

from __future__ import annotations

from .protocol import NO_REPLY, OK, PONG, SYNTAX, ErrorReply, FlatMap, Reply, StatusReply, Verbatim
from .pubsub import leave_all
from .state import IN_PUBSUB, NO_SCRIPT, UNQUEUED, ClientState, RedisCommand, container
from .values import to_integer

VERSION = b"7.0.15"
_WRONGPASS = b"WRONGPASS invalid username-password pair or user is disabled."


def ping(client: ClientState, args: list[bytes]) -> Reply:
    if len(args) > 2:
        raise ErrorReply(b"ERR wrong number of arguments for 'ping' command")
    if (client.channels or client.patterns) and not client.resp3:
        return [b"pong", args[1] if len(args) == 2 else b""]
    return args[1] if len(args) == 2 else PONG


def echo(_client: ClientState, args: list[bytes]) -> Reply:
    return args[1]


def select(client: ClientState, args: list[bytes]) -> Reply:
    index = to_integer(args[1])
    if not 0 <= index < len(client.engine.databases):
        raise ErrorReply(b"ERR DB index is out of range")
    client.db = client.engine.databases[index]
    return OK


def quit_command(client: ClientState, _args: list[bytes]) -> Reply:
    client.closing = True
    return OK


def reset(client: ClientState, _args: list[bytes]) -> Reply:
    client.engine.end_transaction(client)
    leave_all(client)
    client.db = client.engine.databases[0]
    client.resp3 = client.muted = False
    client.name = b""
    return StatusReply(b"RESET")


def auth(_client: ClientState, args: list[bytes]) -> Reply:
    if len(args) > 3:
        raise ErrorReply(SYNTAX)
    if len(args) == 2:
        raise ErrorReply(
            b"ERR AUTH <password> called without any password configured for the default user."
            b" Are you sure your configuration is correct?"
        )
    return _login(args[1])


def _login(user: bytes) -> Reply:
    if user != b"default":
        raise ErrorReply(_WRONGPASS)
    return OK


def _check_name(name: bytes) -> None:
    if any(char < 0x21 or char > 0x7E for char in name):
        raise ErrorReply(b"ERR Client names cannot contain spaces, newlines or special characters.")


def hello(client: ClientState, args: list[bytes]) -> Reply:
    resp3 = client.resp3
    if len(args) > 1:
        version = to_integer(args[1], b"ERR Protocol version is not an integer or out of range")
        if version not in (2, 3):
            raise ErrorReply(b"NOPROTO unsupported protocol version")
        resp3 = version == 3
        _hello_options(client, args)
    client.resp3 = resp3
    return hello_reply(client, b"standalone", b"replica" if client.engine.is_replica else b"master")


def hello_reply(client: ClientState, mode: bytes, role: bytes | None) -> Reply:
    fields: list[Reply] = [b"server", b"redis", b"version", VERSION, b"proto", 3 if client.resp3 else 2]
    fields += [b"id", client.number, b"mode", mode]
    if role is not None:
        fields += [b"role", role]
    return FlatMap([*fields, b"modules", []])


def _hello_options(client: ClientState, args: list[bytes]) -> None:
    at, name = 2, None
    while at < len(args):
        word = args[at].upper()
        if word == b"AUTH" and at + 2 < len(args):
            _login(args[at + 1])
            at += 3
        elif word == b"SETNAME" and at + 1 < len(args):
            name = args[at + 1]
            _check_name(name)
            at += 2
        else:
            raise ErrorReply(b"ERR Syntax error in HELLO option '%b'" % args[at])
    if name is not None:
        client.name = name


# CLIENT


def client_id(client: ClientState, _args: list[bytes]) -> Reply:
    return client.number


def setname(client: ClientState, args: list[bytes]) -> Reply:
    _check_name(args[2])
    client.name = args[2]
    return OK


def getname(client: ClientState, _args: list[bytes]) -> Reply:
    return client.name or None


def _on_off(args: list[bytes]) -> bool:
    word = args[2].lower()
    if word not in (b"on", b"off"):
        raise ErrorReply(SYNTAX)
    return word == b"on"


def no_evict(_client: ClientState, args: list[bytes]) -> Reply:
    _on_off(args)
    return OK


def client_reply(client: ClientState, args: list[bytes]) -> Reply:
    word = args[2].lower()
    if word == b"on":
        client.muted = False
        return OK
    if word == b"off":
        client.muted = True
    elif word == b"skip":
        client.skip_replies = 0 if client.muted else 2
    else:
        raise ErrorReply(SYNTAX)
    return NO_REPLY


def tracking(client: ClientState, args: list[bytes]) -> Reply:
    if _on_off(args):
        client.engine.lacks(client, "the Redis command CLIENT TRACKING")
        raise ErrorReply(b"ERR Client tracking is not available in the simulator")
    return OK


def address(client: ClientState) -> bytes:
    """Return the client's host and a made-up port that is unique to the connection."""
    peer = client.conn.peer.encode() if client.conn is not None else b"?"
    return b"%b:%d" % (peer, 30000 + client.number)


def _line(client: ClientState) -> bytes:
    engine = client.engine
    flags = {b"replica": b"S", b"pubsub": b"P"}.get(client.kind, b"")
    flags += (b"x" if client.queued is not None else b"") + (b"b" if client.blocked is not None else b"")
    fields: dict[bytes, bytes | int] = {
        b"id": client.number,
        b"addr": address(client),
        b"laddr": b"%b:%b" % (engine.host.name.encode(), engine.config["port"].encode()),
        b"fd": client.number + 7,
        b"name": client.name,
        b"age": max(0, engine.now_ms() - client.since_ms) // 1000,
        b"idle": 0,
        b"flags": flags or b"N",
        b"db": client.db.index,
        b"sub": len(client.channels),
        b"psub": len(client.patterns),
        b"ssub": 0,
        b"multi": -1 if client.queued is None else len(client.queued),
        b"cmd": client.last_command,
        b"user": b"default",
        b"resp": 3 if client.resp3 else 2,
    }
    return b" ".join([b"%b=%b" % (k, v if isinstance(v, bytes) else b"%d" % v) for k, v in fields.items()])


def client_info(client: ClientState, _args: list[bytes]) -> Reply:
    client.last_command = b"client|info"
    return Verbatim(_line(client) + b"\n")


def client_list(client: ClientState, args: list[bytes]) -> Reply:
    client.last_command = b"client|list"
    chosen = list(client.engine.clients.values())
    if len(args) > 3 and args[2].upper() == b"TYPE":
        chosen = [other for other in chosen if other.kind == _kind(args[3])]
    elif len(args) > 3 and args[2].upper() == b"ID":
        numbers = [to_integer(text, b"ERR Invalid client ID") for text in args[3:]]
        chosen = [other for other in chosen if other.number in numbers]
    elif len(args) > 2:
        raise ErrorReply(SYNTAX)
    return Verbatim(b"".join([_line(other) + b"\n" for other in chosen]))


def _kind(word: bytes) -> bytes:
    kind = {b"slave": b"replica"}.get(word.lower(), word.lower())
    if kind not in (b"normal", b"replica", b"pubsub", b"master"):
        raise ErrorReply(b"ERR Unknown client type '%b'" % word)
    return kind


def _kill_filters(args: list[bytes]) -> tuple[dict[bytes, bytes], bool]:
    filters, skip_me = {}, True
    if not len(args) & 1:
        for word, value in zip(args[2::2], args[3::2], strict=True):
            if word.upper() == b"SKIPME" and value.lower() in (b"yes", b"no"):
                skip_me = value.lower() == b"yes"
            elif word.upper() in (b"ID", b"ADDR", b"LADDR", b"TYPE", b"USER"):
                filters[word.upper()] = value
            else:
                raise ErrorReply(SYNTAX)
        return filters, skip_me
    raise ErrorReply(SYNTAX)


def _matches(client: ClientState, filters: dict[bytes, bytes]) -> bool:
    for word, value in filters.items():
        if word == b"ID" and to_integer(value, b"ERR client-id should be greater than 0") != client.number:
            return False
        if word == b"ADDR" and value != address(client):
            return False
        if word == b"TYPE" and _kind(value) != client.kind:
            return False
    return True


def client_kill(client: ClientState, args: list[bytes]) -> Reply:
    engine = client.engine
    all_clients = list(engine.clients.values())
    if len(args) == 3:
        found = [other for other in all_clients if address(other) == args[2]]
        if not found:
            raise ErrorReply(b"ERR No such client")
        _kill(client, found)
        return OK
    filters, skip_me = _kill_filters(args)
    targets = [other for other in all_clients if _matches(other, filters) and not (skip_me and other is client)]
    _kill(client, targets)
    return len(targets)


def _kill(client: ClientState, targets: list[ClientState]) -> None:
    for other in targets:
        if other is client:
            client.closing = True
        else:
            client.engine.close_client(other)


def time(client: ClientState, _args: list[bytes]) -> Reply:
    micros = client.engine.host.wall_ns() // 1000
    return [b"%d" % (micros // 1_000_000), b"%d" % (micros % 1_000_000)]


COMMANDS = [
    RedisCommand(b"ping", ping, -1, IN_PUBSUB),
    RedisCommand(b"echo", echo, 2),
    RedisCommand(b"select", select, 2),
    RedisCommand(b"quit", quit_command, -1, NO_SCRIPT | IN_PUBSUB | UNQUEUED),
    RedisCommand(b"reset", reset, 1, NO_SCRIPT | IN_PUBSUB | UNQUEUED),
    RedisCommand(b"auth", auth, -2, NO_SCRIPT),
    RedisCommand(b"hello", hello, -1, NO_SCRIPT),
    RedisCommand(b"time", time, 1),
    container(
        b"client",
        [
            RedisCommand(b"id", client_id, 2, NO_SCRIPT),
            RedisCommand(b"setname", setname, 3, NO_SCRIPT),
            RedisCommand(b"getname", getname, 2, NO_SCRIPT),
            RedisCommand(b"no-evict", no_evict, 3, NO_SCRIPT),
            RedisCommand(b"reply", client_reply, 3, NO_SCRIPT),
            RedisCommand(b"tracking", tracking, -3, NO_SCRIPT),
            RedisCommand(b"info", client_info, 2, NO_SCRIPT),
            RedisCommand(b"list", client_list, -2, NO_SCRIPT),
            RedisCommand(b"kill", client_kill, -3, NO_SCRIPT),
        ],
    ),
]
