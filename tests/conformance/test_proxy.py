"""The proxy of the local bench: what it loses, and what goes on afterwards."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from harness.conformance.proxy import Proxy
from tests.conformance import server

ASK = b'["take", "%b", "me", 60]\n'


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    with server.running() as address:
        proxy = Proxy(address)
        yield proxy
        proxy.close()


def asked(connection: socket.socket, key: bytes) -> bytes | None:
    """The answer, None if none comes."""
    connection.settimeout(0.1)
    connection.sendall(ASK % key)
    try:
        return connection.recv(100)
    except TimeoutError:
        return None


def test_what_is_lost_in_silence_did_not_happen_and_others_go_on(proxy: Proxy) -> None:
    with socket.create_connection(proxy.address) as used, socket.create_connection(proxy.address) as idle:
        assert asked(used, b"a") == b"1\n"
        proxy.lose("everything")
        assert asked(used, b"b") is None
        with socket.create_connection(proxy.address) as late:
            assert asked(late, b"b") is None
        proxy.restore()
        assert used.recv(1) == b""
        assert asked(idle, b"b") == b"2\n"


def test_what_is_lost_of_answers_did_happen(proxy: Proxy) -> None:
    with socket.create_connection(proxy.address) as used, socket.create_connection(proxy.address) as idle:
        proxy.lose("answers")
        assert asked(used, b"a") is None
        proxy.restore()
        assert asked(idle, b"a") == b"null\n"
        assert asked(idle, b"b") == b"2\n"


def test_the_end_of_a_server_is_not_seen_in_silence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        proxy = Proxy(listener.getsockname())
        with socket.create_connection(proxy.address) as used:
            connection, _ = listener.accept()
            proxy.lose("everything")
            connection.close()
            assert asked(used, b"a") is None
            proxy.restore()
            assert used.recv(1) == b""
        proxy.close()
