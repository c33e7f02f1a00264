"""Traffic of NATS, Hazelcast and MySQL's newer logins is decoded into requests with their replies."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Sequence

import pytest
from hazelcast.protocol import RaftGroupId
from hazelcast.protocol.codec import cp_session_create_session_codec, fenced_lock_try_lock_codec

from harness.protocols import hazelcast
from harness.protocols.messages import Unreadable
from harness.sim.servers.mysql import protocol as mysql
from harness.trace.decoding import Exchange, decode
from harness.trace.streams import Connection, Piece
from harness.trace.texts import NOTIFICATION, texts_of

Data = tuple[bool, bytes]
"""Whether the client sent it, and what."""


def decoded(service: str, data: Sequence[Data], size: int) -> list[tuple[str, str]]:
    """Return requests and replies as texts, if the data arrives in pieces of this size."""
    pieces = [(to_server, part[at : at + size]) for to_server, part in data for at in range(0, len(part), size)]
    connection = Connection("c0>n1", "c0", "n1")
    connection.pieces = [Piece(at, part, to_server, arrived=at) for at, (to_server, part) in enumerate(pieces, 1)]
    found = decode([connection], service, simulated=False)
    assert found.undecoded == []
    return [shown(service, one) for one in found.exchanges]


def shown(service: str, exchange: Exchange) -> tuple[str, str]:
    texts = texts_of(service)
    name = NOTIFICATION if exchange.request is None else texts.name(exchange.request)
    request = "" if exchange.request is None else texts.request(exchange.request, {})
    return request, ", ".join(texts.reply(name, one) for one in exchange.replies)


NATS = (
    (False, b'INFO {"server_name": "n1", "jetstream": true}\r\n'),
    (True, b'CONNECT {"verbose": false}\r\nPING\r\n'),
    (False, b"PONG\r\n"),
    (True, b"SUB inbox.*  1\r\nHPUB $KV.b.k inbox.1 25 30\r\nNATS/1.0\r\nExpected: 0\r\n\r\ntoken\r\n"),
    (False, b"PING\r\nHMSG inbox.1 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n"),
    (True, b"PONG\r\nPUB $KV.b.k inbox.2 7\r\na\r\nPING\r\npub other 0\r\n\r\n"),
    (False, b"MSG inbox.3 1 2\r\nno\r\nMSG inbox.2 1 11\r\n{\"seq\": 1}\n\r\n-ERR 'Slow Consumer'\r\n"),
)  # fmt: skip


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_nats_replies_have_the_subject_that_the_request_names(size: int) -> None:
    assert sorted(decoded("nats", NATS, size)) == sorted(
        [
            ("", 'INFO {"server_name": "n1", "jetstream": true}'),
            ('CONNECT {"verbose": false}', ""),
            ("PING", "PONG"),
            ("SUB inbox.*  1", ""),
            ("HPUB $KV.b.k inbox.1 [Expected: 0] token", "HMSG inbox.1 1 [503] "),
            ("", "PING"),
            ("PONG", ""),
            ("PUB $KV.b.k inbox.2 a\r\nPING", 'MSG inbox.2 1 {"seq": 1}\n'),
            ("PUB other ", ""),
            ("", "MSG inbox.3 1 no"),
            ("", "-ERR 'Slow Consumer'"),
        ]
    )


@pytest.mark.parametrize("data", [b"PUB k much\r\n", b"HPUB k 1\r\n", b"\x00\x01\r\n", b"GET / HTTP/1.1\r\n"])
def test_what_is_not_nats_is_named(data: bytes) -> None:
    connection = Connection("c0>n1", "c0", "n1", [Piece(1, data, True, arrived=1)])
    assert decode([connection], "nats", simulated=False).undecoded == ["c0>n1: not a message of NATS"]


GROUP = RaftGroupId("default", 0, 1)
TRY_LOCK = fenced_lock_try_lock_codec.encode_request(GROUP, "k0", 3, 7, uuid.UUID(int=1), 2000)  # type: ignore[no-untyped-call]
CREATE = cp_session_create_session_codec.encode_request(GROUP, "client")  # type: ignore[no-untyped-call]


def asked(request: object, number: int) -> bytes:
    request.set_correlation_id(number)  # type: ignore[attr-defined]
    return bytes(request.buf)  # type: ignore[attr-defined]


def answer(type_: int, number: int, fields: bytes, flags: int = 0xE000) -> bytes:
    body = struct.pack("<iqb", type_, number, 0) + fields
    return struct.pack("<iH", 6 + len(body), flags) + body


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_hazelcast_replies_have_the_number_of_their_request(size: int) -> None:
    data = (
        (True, hazelcast.PREAMBLE + asked(TRY_LOCK, 1) + asked(CREATE, 2)),
        (False, answer(0x1F0101, 2, struct.pack("<qqq", 9, 5000, 1000))),
        (False, answer(0x000302, 1, b"", 0xE200)),
        (False, answer(0x070201, 1, struct.pack("<q", 44))),
    )
    assert sorted(decoded("hazelcast", data, size)) == [
        ("", "event 0x000302"),
        ("CPSession.CreateSession default client", "session=9 ttl_ms=5000 heartbeat_ms=1000"),
        (
            f"FencedLock.TryLock default k0 session=3 thread=7 invocation={uuid.UUID(int=1)} timeout_ms=2000",
            "fence=44",
        ),
    ]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"GET /hazelcast/health HTTP/1.1\r\n", "not a client of Hazelcast"),
        (hazelcast.PREAMBLE + b"\1\0\0\0\0\0", "not a message of Hazelcast"),
        (hazelcast.PREAMBLE + answer(1, 1, b"", 0x8000), "a message of Hazelcast in fragments"),
    ],
)
def test_what_is_not_hazelcast_is_named(data: bytes, reason: str) -> None:
    connection = Connection("c0>n1", "c0", "n1", [Piece(1, data, True, arrived=1)])
    assert decode([connection], "hazelcast", simulated=False).undecoded == [f"c0>n1: {reason}"]


def test_a_request_of_hazelcast_without_a_known_form_has_its_type_as_name() -> None:
    with pytest.raises(Unreadable):
        hazelcast.HazelcastParser().requests(1, b"HZC")
    parser = hazelcast.HazelcastParser()
    (found,) = parser.requests(1, hazelcast.PREAMBLE + answer(0x010100, 5, b"\0\0\0"))
    assert found.words == (b"0x010100",)
    assert hazelcast.shown_request(found) == "0x010100"


def test_a_login_of_mysql_with_another_proof_of_the_password_has_one_reply() -> None:
    greeting = b"\x0a9.7.4\0" + struct.pack("<I", 14) + b"saltsalt\0" + b"\0" * 18 + b"restofsalt12\0"
    login = struct.pack("<IIB", 1 << 9, 1 << 24, 45) + b"\0" * 23 + b"harness\0\0"
    ok = b"\0\0\0\x02\0\0\0"
    data = (
        (False, mysql.frame(greeting, 0)),
        (True, mysql.frame(login, 1)),
        (False, mysql.frame(b"\xfecaching_sha2_password\0salt", 2)),
        (True, mysql.frame(b"proof", 3)),
        (False, mysql.frame(b"\x01\x03", 4) + mysql.frame(ok, 5)),
        (True, mysql.frame(b"\x03COMMIT", 0)),
        (False, mysql.frame(b"\0\2\0\x02\0\0\0", 1)),
    )
    assert decoded("mysql", data, 1000) == [
        ("login as harness", "OK, rows 0, id 0 (autocommit)"),
        ("COMMIT", "OK, rows 2, id 0 (autocommit)"),
    ]
