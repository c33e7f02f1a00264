"""The proxy of the local testbed: which messages it loses, and how connections continue."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from harness.conformance.proxy import Proxy
from tests.conformance import server

REQUEST = b'["take", "%b", "me", 60]\n'


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    with server.running() as address:
        proxy = Proxy(address)
        yield proxy
        proxy.close()


def response(connection: socket.socket, key: bytes) -> bytes | None:
    """Return the answer, or None if none comes."""
    connection.settimeout(0.1)
    connection.sendall(REQUEST % key)
    try:
        return connection.recv(100)
    except TimeoutError:
        return None


def test_a_lost_request_has_no_effect_and_other_connections_continue(proxy: Proxy) -> None:
    with socket.create_connection(proxy.address) as used, socket.create_connection(proxy.address) as idle:
        assert response(used, b"a") == b"1\n"
        proxy.start_losing("everything")
        assert response(used, b"b") is None
        with socket.create_connection(proxy.address) as late:
            assert response(late, b"b") is None
        proxy.stop_losing()
        assert used.recv(1) == b""
        assert response(idle, b"b") == b"2\n"


def test_a_request_with_a_lost_answer_takes_effect(proxy: Proxy) -> None:
    with socket.create_connection(proxy.address) as used, socket.create_connection(proxy.address) as idle:
        proxy.start_losing("answers")
        assert response(used, b"a") is None
        proxy.stop_losing()
        assert response(idle, b"a") == b"null\n"
        assert response(idle, b"b") == b"2\n"


def test_a_silent_proxy_hides_the_end_of_its_server() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        proxy = Proxy(listener.getsockname())
        with socket.create_connection(proxy.address) as used:
            connection, _ = listener.accept()
            proxy.start_losing("everything")
            connection.close()
            assert response(used, b"a") is None
            proxy.stop_losing()
            assert used.recv(1) == b""
        proxy.close()
