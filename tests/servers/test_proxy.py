"""The proxy between clients and servers does what each fault says, and undoes it."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from harness.clusters.abilities.network import LinkShape
from harness.clusters.servers import links as links_module
from harness.clusters.servers.links import Address, LinkMethods, ProxyClient, ProxyError

PATIENCE_S = 60.0
"""A slow machine must not miss it."""
SOON_S = 0.4
"""Time in which nothing arrives."""


class Echo:
    """A server that answers each piece of data with the same data, and notes it."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address: Address = ("127.0.0.1", self.listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            try:
                while data := connection.recv(4096):
                    self.heard.append(data)
                    connection.sendall(data)
            except OSError:
                self.heard.append(b"<reset>")


class Links(LinkMethods):
    """The links of the client c0 to the server n1."""

    def __init__(self, echo: Echo) -> None:
        self._peers = {"n1": echo.address}
        self._hellos = {"n1": (b"x" * 64, False)}
        self._proxy = ProxyClient(["c0"], self._peers, 0)
        self.address = self._proxy.addresses["c0", "n1"]

    def close(self) -> None:
        self._proxy.close()

    def connect(self) -> socket.socket:
        connection = socket.create_connection(self.address, PATIENCE_S)
        connection.settimeout(PATIENCE_S)
        return connection


@pytest.fixture(scope="module")
def echo() -> Iterator[Echo]:
    server = Echo()
    yield server
    server.listener.close()


@pytest.fixture(scope="module")
def links(echo: Echo) -> Iterator[Links]:
    found = Links(echo)
    yield found
    found.close()


def nothing_comes(connection: socket.socket) -> bool:
    connection.settimeout(SOON_S)
    try:
        return connection.recv(100) == b"<never>"
    except TimeoutError:
        return True
    finally:
        connection.settimeout(PATIENCE_S)


def await_heard(echo: Echo, data: bytes) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while data not in echo.heard:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_data_goes_through(links: Links) -> None:
    with links.connect() as connection:
        connection.sendall(b"hello")
        assert connection.recv(100) == b"hello"
    assert links.reaches("c0", "n1", PATIENCE_S) is not None
    assert links.reaches("n1", "c0", PATIENCE_S) is not None


@pytest.mark.few(1)
@pytest.mark.parametrize("cut", [("c0", "n1"), ("n1", "c0")])
def test_a_cut_holds_data_until_it_is_healed(links: Links, echo: Echo, cut: tuple[str, str]) -> None:
    data = f"held on {cut}".encode()
    with links.connect() as connection:
        connection.sendall(b"first")
        assert connection.recv(100) == b"first"
        links.cut([cut])
        links.cut([cut])
        connection.sendall(data)
        assert nothing_comes(connection)
        assert (data in echo.heard) == (cut == ("n1", "c0"))
        assert links.reaches("c0", "n1", SOON_S) is None
        links.heal([cut])
        assert nothing_comes(connection), "cuts are counted"
        links.heal([cut])
        assert connection.recv(100) == data
    assert links.reaches("c0", "n1", PATIENCE_S) is not None


def test_a_request_held_by_a_cut_arrives_after_the_death_of_its_client(links: Links, echo: Echo) -> None:
    with links.connect() as connection:
        connection.sendall(b"alive")
        assert connection.recv(100) == b"alive"
        links.cut([("c0", "n1")])
        connection.sendall(b"the last will")
    time.sleep(0.1)
    assert b"the last will" not in echo.heard
    links.heal([("c0", "n1")])
    await_heard(echo, b"the last will")


def test_a_client_that_gives_up_connecting_to_a_cut_server_never_reaches_it(links: Links, echo: Echo) -> None:
    links.cut([("c0", "n1")])
    with links.connect() as connection:
        connection.sendall(b"too early")
    time.sleep(0.1)
    links.heal([("c0", "n1")])
    assert links.reaches("c0", "n1", PATIENCE_S) is not None
    assert b"too early" not in echo.heard


def test_latency_delays_both_the_request_and_the_reply(links: Links) -> None:
    undo = links.shape([("c0", "n1"), ("n1", "c0")], LinkShape(latency=0.15))
    trip = links.reaches("c0", "n1", PATIENCE_S)
    assert trip is not None
    assert trip >= 0.3
    undo()
    undo()
    trips = [links.reaches("c0", "n1", PATIENCE_S) or PATIENCE_S for _ in range(5)]
    assert min(trips) < 0.15


def test_a_slow_link_needs_time_for_each_byte(links: Links) -> None:
    undo = links.shape([("c0", "n1")], LinkShape(rate=640.0))
    trip = links.reaches("c0", "n1", PATIENCE_S)
    undo()
    assert trip is not None
    assert trip >= 0.1


def test_a_lost_packet_is_late_by_a_retransmission(links: Links) -> None:
    undo = links.shape([("c0", "n1")], LinkShape(loss=0.3))
    trips: list[float] = []
    while max(trips, default=0.0) < 0.2:
        assert len(trips) < 40, "all pass with a probability of 1e-6"
        trips.append(links.reaches("c0", "n1", PATIENCE_S) or 0.0)
    undo()


def test_a_lost_reply_is_lost_alone_and_silences_its_connection(links: Links, echo: Echo) -> None:
    trap = links.trap_message("n1", "c0", b"needle", None)
    with links.connect() as connection:
        connection.sendall(b"something else")
        assert connection.recv(100) == b"something else"
        assert not trap.used
        connection.sendall(b"a needle")
        await_heard(echo, b"a needle")
        assert nothing_comes(connection)
        assert trap.used
        connection.sendall(b"afterwards")
        await_heard(echo, b"afterwards")
        assert nothing_comes(connection)
    with links.connect() as connection:
        connection.sendall(b"another needle")
        assert connection.recv(100) == b"another needle"


def test_a_delayed_request_arrives_later(links: Links, echo: Echo) -> None:
    trap = links.trap_message("c0", "n1", b"", 0.5)
    with links.connect() as connection:
        began = time.monotonic()
        connection.sendall(b"slowly")
        assert connection.recv(100) == b"slowly"
        assert time.monotonic() - began >= 0.5
    assert trap.used


def test_a_cancelled_trap_catches_nothing(links: Links) -> None:
    trap = links.trap_message("c0", "n1", b"", None)
    trap.cancel()
    trap.cancel()
    with links.connect() as connection:
        connection.sendall(b"through")
        assert connection.recv(100) == b"through"
    assert not trap.used


def test_a_black_hole_loses_data_and_breaks_the_connections_that_lost_some(links: Links, echo: Echo) -> None:
    with links.connect() as used, links.connect() as idle:
        for connection in (used, idle):
            connection.sendall(b"before")
            assert connection.recv(100) == b"before"
        hole = links.black_hole("c0", "n1")
        assert not hole.used
        used.sendall(b"swallowed")
        assert nothing_comes(used)
        assert hole.used
        assert links.black_holed([("c0", "n1")]) == [True]
        hole.cancel()
        with pytest.raises(ConnectionResetError):
            used.recv(100)
        idle.sendall(b"still here")
        assert idle.recv(100) == b"still here"
    assert b"swallowed" not in echo.heard
    assert links.black_holed([("c0", "n1")]) == [False]


def test_streams_are_reset_and_counted(links: Links) -> None:
    links.break_streams("c0")  # those of other tests that the proxy has not seen end yet
    with links.connect() as one, links.connect() as two:
        for connection in (one, two):
            connection.sendall(b"open")
            assert connection.recv(100) == b"open"
        assert links.break_streams("c0") == 2
        for connection in (one, two):
            with pytest.raises(ConnectionResetError):
                connection.recv(100)
    assert links.break_streams("c0") == 0


def test_a_proxy_has_the_time_of_a_client_program_to_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links_module, "PREPARED", 0.001)
    with pytest.raises(ProxyError, match=r"no answer to 'open' within 0\.001 s"):
        ProxyClient(["c0"], {}, 0)


def test_a_server_that_refuses_resets_the_connection(links: Links) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = closed.getsockname()
    proxy = ProxyClient(["c0"], {"n1": address}, 0)
    try:
        # The reset may come before the connection is known to be open.
        opened = proxy.addresses["c0", "n1"]
        with pytest.raises(ConnectionResetError), socket.create_connection(opened, PATIENCE_S) as connection:
            connection.recv(100)
    finally:
        proxy.close()


def test_a_proxy_that_was_killed_is_an_error(echo: Echo) -> None:
    found = Links(echo)
    found.close()
    with pytest.raises(ProxyError, match="the proxy between clients and servers"):
        found.cut([("c0", "n1")])
