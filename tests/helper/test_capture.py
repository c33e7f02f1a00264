"""The helper's capture of a server's packets, on namespaces of our own."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from harness.clusters.docker.helper.capture import BLOCK_MS, RECORD, Capture
from harness.clusters.docker.helper.namespaces import Namespace
from harness.clusters.docker.wire import connections

from .hosts import network

pytestmark = pytest.mark.docker

PORT = 6_379


@pytest.fixture(scope="module")
def hosts() -> Iterator[list[tuple[Namespace, str]]]:
    with network(7, 2) as made, ExitStack() as stack:
        opened = [(Namespace(pid), address) for pid, address in made]
        for host, _ in opened:
            stack.callback(host.close)
        yield opened


def listen(address: str, port: int) -> socket.socket:
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind((address, port))
    server.listen()
    return server


def exchange(hosts: list[tuple[Namespace, str]], port: int, request: bytes, reply: bytes) -> None:
    """Send a request from the second host to the first one, and a reply back."""
    (server_host, address), (client_host, _) = hosts
    with server_host.call(lambda: listen(address, port)) as server, client_host.call(socket.socket) as client:
        client.connect((address, port))
        accepted, _ = server.accept()
        with accepted:
            client.sendall(request)
            assert accepted.recv(len(request), socket.MSG_WAITALL) == request
            accepted.sendall(reply)
            assert client.recv(len(reply), socket.MSG_WAITALL) == reply


def test_data_of_both_directions_is_captured_with_its_times(hosts: list[tuple[Namespace, str]]) -> None:
    began = time.monotonic_ns()
    capture = Capture(hosts[0][0], PORT)
    exchange(hosts, PORT, b"ask", b"a" * 200_000)
    facts = capture.stop()
    ended = time.monotonic_ns()
    assert (facts["lost"], facts["cut_ns"]) == (0, 0)
    events = list(connections(capture.part(0, facts["bytes"])))
    assert [event.what for event in events][:2] == ["open", "in"]
    assert events[0].peer.startswith(f"{hosts[1][1]}:")
    assert b"".join(event.data for event in events if event.what == "in") == b"ask"
    assert b"".join(event.data for event in events if event.what == "out") == b"a" * 200_000
    times = [event.time for event in events]
    assert began - 1_000_000 < min(times) <= max(times) < ended + 1_000_000
    assert {event.by for event in events if event.what == "end"} == {"client", "server"}


def test_packet_that_only_acknowledges_is_not_captured(hosts: list[tuple[Namespace, str]]) -> None:
    capture = Capture(hosts[0][0], PORT)
    exchange(hosts, PORT, b"ask", b"a" * 200_000)
    records, place, found = capture.part(0, capture.stop()["bytes"]), 0, []
    while place < len(records):
        *_, flags, size = RECORD.unpack_from(records, place)
        found.append((size > 0, flags > 0))
        place += RECORD.size + size
    assert (True, False) in found
    assert (False, False) not in found


def test_many_packets_wake_the_helper_seldom(hosts: list[tuple[Namespace, str]]) -> None:
    capture = Capture(hosts[0][0], PORT)
    thread = next(one for one in threading.enumerate() if one.name == f"capture-{hosts[0][0].pid}")
    before, began = switches(thread), time.monotonic()
    for _ in range(100):
        exchange(hosts, PORT, b"ask", b"answer")
    woken, took_s = switches(thread) - before, time.monotonic() - began
    facts = capture.stop()
    assert facts["bytes"] > 100 * (2 * RECORD.size + len(b"askanswer"))
    assert woken < 20 + 4 * took_s / (BLOCK_MS / 1e3)


def switches(thread: threading.Thread) -> int:
    """How often a thread of this process has given up its processor, to wait."""
    status = Path(f"/proc/self/task/{thread.native_id}/status").read_text(encoding="ascii")
    return int(status.split("voluntary_ctxt_switches:")[1].split()[0])


def test_memory_for_packets_is_used_again(hosts: list[tuple[Namespace, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.clusters.docker.helper.capture.BLOCKS", 8)
    capture = Capture(hosts[0][0], PORT)
    for number in range(20):
        exchange(hosts, PORT, b"ask", bytes([number]) * 200_000)
    facts = capture.stop()
    assert facts["lost"] == 0
    sent = [event.data for event in connections(capture.part(0, facts["bytes"])) if event.what == "out"]
    assert b"".join(sent) == b"".join(bytes([number]) * 200_000 for number in range(20))


def test_packets_of_the_beginning_and_of_the_end_do_not_count_as_lost(hosts: list[tuple[Namespace, str]]) -> None:
    """A server has traffic before its capture begins, and may have some until it ends."""
    ended = Event()

    def talk() -> None:
        while not ended.is_set():
            exchange(hosts, PORT, b"ask", b"answer")

    talking = Thread(target=talk)
    talking.start()
    try:
        lost = []
        for _ in range(15):
            capture = Capture(hosts[0][0], PORT)
            facts = capture.stop()
            lost.append(facts["lost"])
            assert facts["bytes"] > 0
    finally:
        ended.set()
        talking.join()
    assert lost == [0] * 15


def test_packets_without_memory_are_counted_as_lost(
    hosts: list[tuple[Namespace, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    may_take, take = Event(), Capture._take

    def take_late(capture: Capture, start: int) -> Any:
        may_take.wait(20)
        return take(capture, start)

    monkeypatch.setattr("harness.clusters.docker.helper.capture.BLOCKS", 2)
    monkeypatch.setattr(Capture, "_take", take_late)
    capture = Capture(hosts[0][0], PORT)
    for _ in range(5):
        exchange(hosts, PORT, b"ask", b"a" * 200_000)
    may_take.set()
    facts = capture.stop()
    assert facts["bytes"] > 0
    assert facts["lost"] > 0


def test_other_ports_are_not_captured(hosts: list[tuple[Namespace, str]]) -> None:
    capture = Capture(hosts[0][0], PORT)
    exchange(hosts, PORT + 1, b"ask", b"answer")
    assert capture.stop()["bytes"] == 0


def test_connection_of_the_server_to_another_one_is_not_captured(hosts: list[tuple[Namespace, str]]) -> None:
    capture = Capture(hosts[1][0], PORT)
    exchange(hosts, PORT, b"ask", b"answer")
    assert capture.stop()["bytes"] == 0


def test_capture_ends_at_its_size(hosts: list[tuple[Namespace, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.clusters.docker.helper.capture.MOST_BYTES", 100_000)
    capture = Capture(hosts[0][0], PORT)
    exchange(hosts, PORT, b"ask", b"a" * 300_000)
    facts = capture.stop()
    assert facts["bytes"] <= 110_000
    assert facts["cut_ns"] > 0


def test_capture_ends_while_the_server_goes_on_sending(hosts: list[tuple[Namespace, str]]) -> None:
    capture = Capture(hosts[0][0], PORT)
    ended = Event()

    def keep_sending() -> None:
        while not ended.wait(0.01):
            exchange(hosts, PORT, b"ask", b"answer")

    sender = Thread(target=keep_sending)
    sender.start()
    stopping = Thread(target=capture.stop, daemon=True)
    try:
        while not capture.part(0, 1):
            time.sleep(0.01)
        stopping.start()
        stopping.join(20)
        assert not stopping.is_alive()
        assert capture.stop()["lost"] == 0
    finally:
        ended.set()
        sender.join()
