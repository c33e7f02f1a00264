"""Shaped packets: the arithmetic of a line, and packets through a real queue."""

from __future__ import annotations

import hashlib
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from random import Random

import pytest

from harness.clusters.docker.helper.network import Network
from harness.clusters.docker.helper.nfqueue import CHAIN, NUMBER, PacketLine, PacketQueue, PacketShape, QueueError

from .hosts import network, run

pytestmark = pytest.mark.docker

GENEROUS = 60.0
"""Seconds in which what is to arrive does, on a loaded machine too."""
LONG = 600.0
"""Seconds that no test lasts."""
Host = tuple[Network, str]


@pytest.fixture(scope="module")
def connected_hosts() -> Iterator[list[Host]]:
    with network(2, 3) as made, ExitStack() as stack:
        opened = [(Network(pid), address) for pid, address in made]
        for host, _ in opened:
            stack.callback(host.close)
        yield opened


@pytest.fixture
def hosts(connected_hosts: list[Host]) -> Iterator[list[Host]]:
    yield connected_hosts
    for host, _ in connected_hosts:
        host.shape({}, 0)


class Wire:
    """Numbered datagrams from one host to another."""

    def __init__(self, sender: Network, receiver: Network, to: str) -> None:
        self._out = sender.namespace.call(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        self._in = receiver.namespace.call(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        self._in.setsockopt(socket.SOL_SOCKET, 33, 1 << 23)  # SO_RCVBUFFORCE: nothing is lost for want of room
        self._in.bind((to, 7000))
        self._to = (to, 7000)

    def send(self, count: int) -> None:
        for number in range(count):
            self._out.sendto(struct.pack(">I", number) + bytes(96), self._to)

    def receive(self, count: int, within: float = GENEROUS) -> list[int]:
        """Return the numbers of ``count`` datagrams, or of those that arrived within the time (seconds)."""
        deadline = time.monotonic() + within
        numbers: list[int] = []
        while len(numbers) < count and (left := deadline - time.monotonic()) > 0:
            self._in.settimeout(left)
            try:
                numbers.append(struct.unpack_from(">I", self._in.recv(200))[0])
            except TimeoutError:
                break
        return numbers

    def close(self) -> None:
        self._out.close()
        self._in.close()


@pytest.fixture
def wire(hosts: list[Host]) -> Iterator[Wire]:
    made = Wire(hosts[0][0], hosts[1][0], hosts[1][1])
    yield made
    made.close()


def test_a_line_without_a_shape_is_no_delay() -> None:
    assert PacketLine(PacketShape(), Random(0)).due(5.0, 100) == 5.0


def test_a_rate_lets_packets_follow_one_another() -> None:
    line = PacketLine(PacketShape(delay=1.0, rate=1000), Random(0))
    assert [line.due(0.0, 500), line.due(0.1, 500), line.due(10.0, 500)] == [1.5, 2.0, 11.5]


def test_jitter_keeps_the_order_unless_reordering_is_requested() -> None:
    def dues(*, reorder: bool) -> list[float]:
        line = PacketLine(PacketShape(delay=1.0, jitter=0.5, reorder=reorder), Random(0))
        found = [line.due(number / 1000, 100) for number in range(100)]
        return [due for due in found if due is not None]

    assert dues(reorder=False) == sorted(dues(reorder=False))
    assert dues(reorder=True) != sorted(dues(reorder=True))
    assert all(1.0 <= due - number / 1000 <= 1.5 for number, due in enumerate(dues(reorder=True)))


def test_loss_follows_from_the_seed() -> None:
    def lost(seed: int) -> list[bool]:
        line = PacketLine(PacketShape(loss=0.3), Random(seed))
        return [line.due(0.0, 100) is None for _ in range(1000)]

    assert lost(1) == lost(1) != lost(2)
    assert 200 < sum(lost(1)) < 400


@pytest.mark.parametrize(
    "wrong", [{"delay": -1.0}, {"jitter": 1e9}, {"loss": 1.1}, {"loss": float("nan")}, {"rate": 0}]
)
def test_impossible_shapes_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(QueueError, match=next(iter(wrong))):
        PacketShape(**wrong)  # type: ignore[arg-type]


def test_packets_from_a_source_are_late_and_others_are_not(hosts: list[Host]) -> None:
    (a, to_a), (b, to_b), (c, _) = hosts
    b.shape({to_a: PacketShape(delay=0.3)}, 0)
    late = a.ping(to_b, GENEROUS)
    assert late is not None
    assert late >= 0.3
    back = b.ping(to_a, GENEROUS)
    assert back is not None
    assert back >= 0.3, "the answer comes from the source too"
    b.shape({to_a: PacketShape(delay=LONG)}, 0)
    assert c.ping(to_b, GENEROUS) is not None
    assert a.ping(to_b, 0.2) is None


def test_the_seed_decides_which_packets_are_lost(hosts: list[Host], wire: Wire) -> None:
    (_, to_a), (b, _), _ = hosts
    shape = PacketShape(loss=0.3)
    line = PacketLine(shape, Random(f"7/{to_a}"))
    expected = [number for number in range(300) if line.due(0.0, 128) is not None]
    b.shape({to_a: shape}, 7)
    wire.send(300)
    assert wire.receive(len(expected)) == expected
    assert wire.receive(1, 0.1) == []


def test_datagrams_keep_their_order_under_jitter(hosts: list[Host], wire: Wire) -> None:
    (_, to_a), (b, _), _ = hosts
    b.shape({to_a: PacketShape(jitter=0.1)}, 1)
    wire.send(200)
    assert wire.receive(200) == list(range(200))


def test_datagrams_overtake_one_another_if_requested(hosts: list[Host], wire: Wire) -> None:
    (_, to_a), (b, _), _ = hosts
    b.shape({to_a: PacketShape(jitter=0.1, reorder=True)}, 1)
    wire.send(200)
    got = wire.receive(200)
    assert sorted(got) == list(range(200))
    assert got != sorted(got)


def _digest_of_what_comes(server: socket.socket, into: list[str]) -> None:
    sock, _ = server.accept()
    digest = hashlib.sha256()
    with sock:
        while some := sock.recv(1 << 16):
            digest.update(some)
    into.append(digest.hexdigest())


@pytest.mark.parametrize(
    "shape",
    [
        PacketShape(),
        PacketShape(delay=0.002, jitter=0.003),
        PacketShape(jitter=0.003, loss=0.01, reorder=True),
        PacketShape(rate=4_000_000),
    ],
)
def test_streams_arrive_whole(hosts: list[Host], shape: PacketShape) -> None:
    (a, to_a), (b, to_b), _ = hosts
    b.shape({to_a: shape}, 3)
    a.shape({to_b: shape}, 4)
    data = os.urandom(1_000_000)
    came: list[str] = []
    with b.namespace.call(lambda: socket.create_server((to_b, 7001))) as server:
        reader = threading.Thread(target=_digest_of_what_comes, args=(server, came))
        reader.start()
        start = time.monotonic()
        with a.namespace.call(socket.socket) as sock:
            sock.connect((to_b, 7001))
            sock.sendall(data)
        reader.join()
    assert came == [hashlib.sha256(data).hexdigest()]
    if shape.rate is not None:
        assert time.monotonic() - start >= len(data) / shape.rate


def _stop(b: Network, _: str) -> None:
    b.shape({}, 0)


def _shape_another(b: Network, _: str) -> None:
    b.shape({"10.77.2.99": PacketShape(delay=LONG)}, 0)


def _shorten(b: Network, source: str) -> None:
    b.shape({source: PacketShape(delay=0.01)}, 0)


@pytest.mark.parametrize("change", [_stop, _shape_another, _shorten])
def test_held_packets_go_on_in_order_when_they_are_no_longer_held(
    hosts: list[Host], wire: Wire, change: Callable[[Network, str], None]
) -> None:
    (_, to_a), (b, _), _ = hosts
    b.shape({to_a: PacketShape(delay=LONG)}, 0)
    wire.send(100)
    assert wire.receive(1, 0.1) == []
    change(b, to_a)
    wire.send(100)
    assert wire.receive(200) == [*range(100), *range(100)]


def test_packets_that_are_still_to_be_late_stay(hosts: list[Host], wire: Wire) -> None:
    (_, to_a), (b, _), _ = hosts
    b.shape({to_a: PacketShape(delay=LONG)}, 0)
    wire.send(10)
    b.shape({to_a: PacketShape(delay=LONG, loss=1.0)}, 0)
    assert wire.receive(1, 0.2) == []


def test_rules_are_gone_after_the_last_source(hosts: list[Host]) -> None:
    (_, to_a), (b, _), _ = hosts
    for sources in ({to_a: PacketShape()}, {to_a: PacketShape(), "10.77.2.99": PacketShape()}):
        b.shape(sources, 0)
        listed = run(b.namespace.pid, "iptables", "-t", "mangle", "-S").splitlines()
        assert [f"-A INPUT -j {CHAIN}"] == [line for line in listed if "INPUT" in line and "-A" in line]
        assert {line.split()[3] for line in listed if f"--queue-num {NUMBER} --queue-bypass" in line} == {
            f"{source}/32" for source in sources
        }
    b.shape({}, 0)
    assert CHAIN not in run(b.namespace.pid, "iptables", "-t", "mangle", "-S")
    b.shape({}, 0)


def test_tables_that_change_under_traffic_lose_nothing(hosts: list[Host], wire: Wire) -> None:
    (_, to_a), (b, _), _ = hosts
    sender = threading.Thread(target=wire.send, args=(3000,))
    b.shape({to_a: PacketShape(jitter=0.002)}, 0)
    sender.start()
    for number in range(100):
        b.shape({to_a: PacketShape(delay=0.001 * (number % 3), jitter=0.002)}, number)
    sender.join()
    assert wire.receive(3000) == list(range(3000))


def test_a_queue_in_use_is_refused(hosts: list[Host]) -> None:
    (_, to_a), (b, _), _ = hosts
    b.shape({to_a: PacketShape()}, 0)
    with pytest.raises(QueueError, match="another program has it"):
        PacketQueue(b.namespace)
