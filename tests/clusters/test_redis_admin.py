"""The harness's own connection to a Redis: replies of all kinds, and every failure in one exception."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from harness.clusters.redis_admin import RedisConnection, RedisUnanswered

ANSWER_S = 5.0


@contextmanager
def server(*replies: bytes, received: list[bytes] | None = None) -> Iterator[tuple[str, int]]:
    """A server that accepts one connection, answers SELECT, then sends each of the replies after a command."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            for reply in (b"+OK\r\n", *replies):
                data = connection.recv(1 << 16)
                if received is not None:
                    received.append(data)
                for byte in reply:  # in the smallest pieces
                    connection.sendall(bytes([byte]))

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listener.getsockname()
    finally:
        thread.join(ANSWER_S)
        listener.close()


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        (b"+PONG\r\n", b"PONG"),
        (b":-5\r\n", -5),
        (b"$4\r\na\r\nb\r\n", b"a\r\nb"),
        (b"$-1\r\n", None),
        (b"*2\r\n$1\r\n0\r\n*1\r\n:7\r\n", [b"0", [7]]),
    ],
)
def test_replies_are_read_in_any_split(reply: bytes, value: object) -> None:
    with server(reply) as (host, port), RedisConnection(host, port, database=15, answer_s=ANSWER_S) as ask:
        assert ask("PING") == value


def test_a_pipeline_is_sent_at_once_and_returns_error_replies() -> None:
    received: list[bytes] = []
    commands = [("SET", "k", b"v"), ("SET", "l", b"1")]
    with (
        server(b"+OK\r\n-OOM too much\r\n", received=received) as (host, port),
        RedisConnection(host, port, database=15, answer_s=ANSWER_S) as ask,
    ):
        done, refused = ask.pipeline(commands)
    assert done == b"OK"
    assert isinstance(refused, RedisUnanswered)
    assert received[0] == b"*2\r\n$6\r\nSELECT\r\n$2\r\n15\r\n"
    assert received[1].count(b"SET") == len(commands)


@pytest.mark.parametrize(
    ("reply", "message"),
    [(b"-ERR no\r\n", "ERR no"), (b"", "Connection closed"), (b"?\r\n", "reading")],
)
def test_a_refusal_a_close_and_nonsense_are_no_answer(reply: bytes, message: str) -> None:
    with (
        server(reply) as (host, port),
        RedisConnection(host, port, database=15, answer_s=ANSWER_S) as ask,
        pytest.raises(RedisUnanswered, match=message),
    ):
        ask("PING")


def test_a_refused_connection_is_no_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        host, port = listener.getsockname()
    with pytest.raises(RedisUnanswered, match=f"connecting to {host}:{port}"):
        RedisConnection(host, port, database=15, answer_s=ANSWER_S)
