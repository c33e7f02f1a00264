"""Commands in the traffic of real servers: they have the names that the simulator gives them."""

from __future__ import annotations

import pytest

from harness.clusters.docker.commands import (
    CommandReader,
    MemcachedCommands,
    MysqlCommands,
    PostgresCommands,
    RedisCommands,
)

GET = b"*2\r\n$3\r\nget\r\n$2\r\nk0\r\n"
SUBSCRIBE = b"*3\r\n$9\r\nSUBSCRIBE\r\n$1\r\na\r\n$1\r\nb\r\n"
SUBSCRIBED = b"*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n*3\r\n$9\r\nsubscribe\r\n$1\r\nb\r\n:2\r\n"
PING = b"*1\r\n$4\r\nPING\r\n"
Step = tuple[str, bytes, list[str]]


def query(text: bytes, number: int = 0) -> bytes:
    return len(text).to_bytes(3, "little") + bytes([number]) + text


def message(kind: bytes, body: bytes) -> bytes:
    return kind + (len(body) + 4).to_bytes(4, "big") + body


CONVERSATIONS: dict[str, tuple[type[CommandReader], list[Step]]] = {
    "a pipeline has one reply for each command": (
        RedisCommands,
        [
            ("request", GET + PING, ["GET", "PING"]),
            ("reply", b"$1\r\na\r\n", ["GET"]),
            ("reply", b"+PONG\r\n", ["PING"]),
        ],
    ),
    "a reply counts where it begins, and once": (
        RedisCommands,
        [
            ("request", GET[:9], []),
            ("request", GET[9:], ["GET"]),
            ("reply", b"$10\r\nabc", ["GET"]),
            ("reply", b"defghij\r\n", []),
        ],
    ),
    "replies of RESP3 are nested": (
        RedisCommands,
        [
            ("request", PING + GET, ["PING", "GET"]),
            ("reply", b"%1\r\n$1\r\na\r\n*2\r\n:1\r\n_\r\n>2\r\n+message\r\n+x\r\n$-1\r\n", ["PING", "GET"]),
        ],
    ),
    "published messages are no replies": (
        RedisCommands,
        [
            ("request", SUBSCRIBE, ["SUBSCRIBE"]),
            ("reply", SUBSCRIBED, ["SUBSCRIBE", "SUBSCRIBE"]),
            ("reply", b"*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nx\r\n", []),
        ],
    ),
    "values of memcached may look like replies": (
        MemcachedCommands,
        [
            ("request", b"set k0 0 2 7\r\nget k1 \r\ngets k0\r\n", ["SET", "GETS"]),
            ("reply", b"STORED\r\n", ["SET"]),
            ("reply", b"VALUE k0 0 5 1\r\nEND\r\n", ["GETS"]),
            ("reply", b"\r\nEND\r\n", []),
        ],
    ),
    "a command without a reply has none": (
        MemcachedCommands,
        [("request", b"delete k0 noreply\r\nget k0\r\n", ["DELETE", "GET"]), ("reply", b"END\r\n", ["GET"])],
    ),
    "only queries of MySQL have a name": (
        MysqlCommands,
        [
            ("reply", b"greeting", []),
            ("request", query(b"\x8d\xa6\x0f\x00login", 1), []),
            ("reply", b"ok", []),
            ("request", query(b"\x03 insert INTO t")[:6], []),
            ("request", query(b"\x03 insert INTO t")[6:], ["INSERT"]),
            ("reply", b"ok", ["INSERT"]),
            ("request", query(b"\x0e"), []),
            ("reply", b"pong", []),
        ],
    ),
    "PostgreSQL's statements are queries or prepared": (
        PostgresCommands,
        [
            ("request", (8).to_bytes(4, "big") + (80877103).to_bytes(4, "big"), []),
            ("reply", b"N", []),
            ("request", message(b"", (196608).to_bytes(4, "big") + b"user\0a\0\0"), []),
            ("request", message(b"Q", b"begin\0"), ["BEGIN"]),
            ("reply", b"C", ["BEGIN"]),
            ("request", message(b"P", b"s1\0select 1\0\0\0") + message(b"S", b""), ["SELECT"]),
            ("reply", b"1", ["SELECT"]),
        ],
    ),
}


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_commands_and_replies_are_named(name: str) -> None:
    kind, steps = CONVERSATIONS[name]
    reader = kind()
    for direction, data, names in steps:
        assert (reader.requests(data) if direction == "request" else reader.replies(data)) == names, data
