"""TCP connections over one byte stream, with both of its ends in this process and real sockets on loopback."""

from __future__ import annotations

import errno
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest

from harness.clusters.docker.helper import multiplexer
from harness.clusters.docker.helper.multiplexer import BACKLOG, HEADER, WINDOW, BrokenCarrier, Connect, Multiplexer
from harness.clusters.docker.helper.relay import ProgramCarrier

GENEROUS_S = 60.0
CHUNK = b"x" * (1 << 16)
Handler = Callable[[socket.socket], object]


def connect_to(target: bytes) -> socket.socket:
    """The target of a stream is a port on loopback, or ``b"nowhere"``."""
    if target == b"nowhere":
        raise OSError(errno.ENETUNREACH, "no such network")
    sock = socket.socket()
    sock.setblocking(False)
    failed = sock.connect_ex(("127.0.0.1", int(target)))
    if failed not in (0, errno.EINPROGRESS):
        sock.close()
        raise OSError(failed, os.strerror(failed))
    return sock


class Ends:
    """Both ends, each served by a thread: ``near`` has the listeners, ``far`` connects."""

    def __init__(self, connect: Connect = connect_to) -> None:
        self._there, self._back = os.pipe(), os.pipe()
        self.near = Multiplexer(ProgramCarrier(self._back[0], self._there[1]))
        self.far = Multiplexer(ProgramCarrier(self._there[0], self._back[1]), connect)
        self.failed: list[Exception] = []
        self._threads = [threading.Thread(target=self._serve, args=(end,), daemon=True) for end in self._all]
        for thread in self._threads:
            thread.start()

    @property
    def _all(self) -> tuple[Multiplexer, Multiplexer]:
        return self.near, self.far

    def _serve(self, end: Multiplexer) -> None:
        try:
            end.serve()
        except BrokenCarrier as error:
            self.failed.append(error)

    def dial(self, target: object) -> socket.socket:
        address = self.near.listen(str(target).encode())
        return socket.create_connection(address, GENEROUS_S)

    def close(self) -> None:
        for end in self._all:
            end.stop()
        for thread in self._threads:
            thread.join(GENEROUS_S)
        for descriptor in (*self._there, *self._back):
            with suppress(OSError):
                os.close(descriptor)

    def end_far(self) -> None:
        """End the program at the far end, as a kill does."""
        self.far.stop()
        self._threads[1].join(GENEROUS_S)
        os.close(self._back[1])
        os.close(self._there[0])


@pytest.fixture
def ends() -> Iterator[Ends]:
    made = Ends()
    yield made
    made.close()


@contextmanager
def server(handle: Handler) -> Iterator[int]:
    """Serve each connection by ``handle`` in a thread of its own; yield the port."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=256)

    def serve(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            handle(connection)

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=serve, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(GENEROUS_S)


def echo(connection: socket.socket) -> None:
    while data := connection.recv(1 << 16):
        connection.sendall(data)


def never_reads(_: socket.socket) -> None:
    time.sleep(GENEROUS_S)


def send_for_ever(sock: socket.socket) -> None:
    while True:
        sock.sendall(CHUNK)


def until(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + GENEROUS_S
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def exchange(sock: socket.socket, data: bytes) -> bytes:
    """Send data and return as many bytes of the answer."""
    sender = threading.Thread(target=sock.sendall, args=(data,), daemon=True)
    sender.start()
    heard = bytearray()
    while len(heard) < len(data) and (piece := sock.recv(1 << 16)):
        heard += piece
    sender.join(GENEROUS_S)
    return bytes(heard)


def test_large_data_arrives_unchanged_in_both_directions(ends: Ends) -> None:
    data = os.urandom(5 * WINDOW + 123)
    with server(echo) as port, ends.dial(port) as sock:
        assert exchange(sock, data) == data


def test_many_connections_at_once_are_kept_apart(ends: Ends) -> None:
    with server(echo) as port, ExitStack() as stack:
        socks = [stack.enter_context(ends.dial(port)) for _ in range(100)]
        for number, sock in enumerate(socks):
            sock.sendall(b"%05d" % number)
        assert [sock.recv(5) for sock in socks] == [b"%05d" % number for number in range(100)]


def test_data_still_arrives_after_one_direction_has_ended(ends: Ends) -> None:
    def answers_late(connection: socket.socket) -> None:
        heard = b"".join(iter(lambda: connection.recv(4096), b""))
        connection.sendall(b"heard " + heard)

    with server(answers_late) as port, ends.dial(port) as sock:
        sock.sendall(b"all")
        sock.shutdown(socket.SHUT_WR)
        assert b"".join(iter(lambda: sock.recv(4096), b"")) == b"heard all"
    until(lambda: not ends.near._streams and not ends.far._streams)


@pytest.mark.parametrize("target", ["closed", "nowhere"])
def test_a_refused_connection_is_reset(ends: Ends, target: str) -> None:
    with server(echo) as port:
        pass  # nothing listens there any more
    with pytest.raises(ConnectionResetError), ends.dial(port if target == "closed" else target) as sock:
        sock.recv(1)
    assert not ends.near._streams
    with server(echo) as port, ends.dial(port) as sock:
        assert exchange(sock, b"goes on") == b"goes on"


def test_a_reset_of_the_server_arrives_as_one(ends: Ends) -> None:
    def resets(connection: socket.socket) -> None:
        connection.recv(1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, multiplexer.LINGER_NONE)

    with server(resets) as port, ends.dial(port) as sock:
        sock.sendall(b"?")
        with pytest.raises(ConnectionResetError):
            sock.recv(1)


def test_a_server_that_reads_nothing_blocks_no_other_stream_and_fills_no_buffer(ends: Ends) -> None:
    with server(never_reads) as frozen, server(echo) as port, ends.dial(frozen) as stuck, ends.dial(port) as sock:
        stuck.settimeout(0.5)
        with pytest.raises(TimeoutError):
            send_for_ever(stuck)
        assert exchange(sock, b"unharmed") == b"unharmed"
        (stream,) = [stream for stream in ends.far._streams.values() if stream.waiting]
        assert len(stream.waiting) <= WINDOW
        assert len(ends.near._outgoing) <= BACKLOG + WINDOW


def test_a_stream_without_a_window_would_fill_a_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multiplexer, "WINDOW", 1 << 40)
    ends = Ends()
    try:
        with server(never_reads) as frozen, ends.dial(frozen) as stuck:
            stuck.settimeout(0.5)
            with suppress(TimeoutError):
                for _ in range(400):
                    stuck.sendall(CHUNK)
            until(lambda: any(len(stream.waiting) > WINDOW for stream in ends.far._streams.values()))
    finally:
        ends.close()


def test_a_connection_that_was_given_up_is_forgotten_though_the_server_is_frozen(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(multiplexer, "HALF_CLOSED_S", 0.1)
    with server(never_reads) as frozen:
        ends.dial(frozen).close()
        until(lambda: ends.near._last)
        until(lambda: not ends.near._streams and not ends.far._streams)


def test_the_end_of_the_far_program_breaks_all_connections_and_refuses_new_ones(ends: Ends) -> None:
    with server(echo) as port, ends.dial(port) as sock:
        assert exchange(sock, b"works") == b"works"
        ends.end_far()
        with pytest.raises(ConnectionResetError):
            sock.recv(1)
        with pytest.raises(ConnectionError):
            ends.dial(port)


def test_bytes_that_are_no_frames_end_the_connection(ends: Ends) -> None:
    until(lambda: ends.near.ready.is_set() and ends.far.ready.is_set())
    os.write(ends._back[1], b"a message of the container's shell\n" * 3)
    until(lambda: ends.failed)
    assert "expected a frame" in str(ends.failed[0])
    with pytest.raises(ConnectionError):
        ends.dial(1)


def test_a_frame_for_an_unknown_stream_is_ignored(ends: Ends) -> None:
    until(lambda: ends.near.ready.is_set() and ends.far.ready.is_set())
    os.write(ends._back[1], HEADER.pack(multiplexer.DATA, 77, 4) + b"late")
    with server(echo) as port, ends.dial(port) as sock:
        assert exchange(sock, b"goes on") == b"goes on"
