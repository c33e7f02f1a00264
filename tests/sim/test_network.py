"""Streams: order, latency, cuts in either direction, loss, resets, refusals; each fault's absence is tested too."""

from __future__ import annotations

import socket
import time
from random import Random

import pytest

from harness.sim.network import LOST, Link, Snare, Weight
from tests.sim.world import World


def exchange(timeout: float = 5.0) -> tuple[bytes, float]:
    """One round trip on a fresh connection: the answer, and how long it took."""
    with socket.create_connection(("b", 7), timeout=timeout) as sock:
        began = time.monotonic()
        sock.sendall(b"ping")
        answer, took = sock.recv(100), time.monotonic() - began
    time.sleep(0.01)
    return answer, took


def test_a_round_trip_takes_the_latency_of_both_ways() -> None:
    world = World()
    [(answer, took)] = world.run(exchange)
    assert answer == b"PING"
    assert 0.0002 <= took <= 0.0003
    assert world.echo.events == [("start", True), ("opened", "a"), b"ping", ("closed", "a")]


def test_extra_latency_is_added_one_way() -> None:
    world = World()
    world.network.link("a", "b").burden(Weight(latency_ns=50_000_000))
    [(_, took)] = world.run(exchange)
    assert 0.0502 <= took <= 0.0503


def test_a_thousand_messages_arrive_in_order_whatever_the_jitter() -> None:
    world = World()
    world.network.link("a", "b").burden(Weight(jitter_ns=20_000_000))

    def main() -> bytes:
        with socket.create_connection(("b", 7)) as sock:
            for number in range(1000):
                sock.sendall(b"%04d" % number)
                time.sleep(0.001)
            data = b""
            while len(data) < 4000:
                data += sock.recv(65536)
            return data

    assert world.run(main) == [b"".join(b"%04d" % number for number in range(1000))]


def test_refused_where_nobody_listens_and_unknown_where_nobody_is() -> None:
    def refused() -> str:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("b", 8), timeout=1)
        with pytest.raises(socket.gaierror):
            socket.create_connection(("nowhere", 8), timeout=1)
        return "ok"

    assert World().run(refused) == ["ok"]


@pytest.mark.parametrize(("source", "target", "executed"), [("a", "b", False), ("b", "a", True)])
def test_a_cut_in_one_direction_stalls_and_heals(source: str, target: str, executed: bool) -> None:
    """Requests lost: not executed until the heal. Answers lost: executed at once, and nobody hears of it."""
    world = World()

    def main() -> tuple[bool, bytes, float]:
        sock = socket.create_connection(("b", 7), timeout=0.5)
        link = world.network.link(source, target)
        link.cuts += 1
        sock.sendall(b"x")
        with pytest.raises(TimeoutError):
            sock.recv(10)
        seen = b"x" in world.echo.events
        time.sleep(0.5)
        link.cuts -= 1
        healed = time.monotonic()
        sock.settimeout(10)
        return seen, sock.recv(10), time.monotonic() - healed

    [(seen, answer, after)] = world.run(main)
    assert seen is executed
    assert answer == b"X"
    assert 0.3 < after < 0.5, "TCP sends again 0.2, 0.6 and 1.4 s after the first time; the heal came at 1.0 s"


def test_connecting_across_a_cut_times_out() -> None:
    world = World()
    world.network.link("b", "a").cuts += 1

    def main() -> float:
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            socket.create_connection(("b", 7), timeout=2)
        return time.monotonic() - began

    assert world.run(main) == [2.0]


def test_lost_packets_are_sent_again_and_come_late() -> None:
    world = World(seed=3)
    world.network.link("a", "b").burden(Weight(loss=0.5))

    def main() -> list[float]:
        return [exchange(60)[1] for _ in range(50)]

    [trips] = world.run(main)
    late = [trip for trip in trips if trip > 0.19]
    assert 10 <= len(late) <= 40
    assert all(trip < 0.001 or trip > 0.2 for trip in trips)


def test_a_slow_link_takes_time_by_the_byte() -> None:
    world = World()
    world.network.link("a", "b").burden(Weight(bytes_per_second=1000.0))

    def main() -> float:
        with socket.create_connection(("b", 7)) as sock:
            began = time.monotonic()
            sock.sendall(b"x" * 500)
            sock.recv(1000)
            return time.monotonic() - began

    [took] = world.run(main)
    assert 0.5 < took < 0.502


def test_weights_add_up_and_each_is_taken_away_by_itself() -> None:
    link = Link(Random(1))
    fast = link.delay(0)
    first, second = Weight(latency_ns=10**9), Weight(latency_ns=10**9, bytes_per_second=1000)
    link.burden(first)
    link.burden(second)
    assert 3 * 10**9 <= link.delay(1000) < 3.1 * 10**9
    link.relieve(first)
    link.relieve(first)
    assert 2 * 10**9 <= link.delay(1000) < 2.1 * 10**9
    link.relieve(second)
    assert abs(link.delay(1000) - fast) < 100_000


def test_a_killed_server_resets_its_streams_and_refuses_new_ones() -> None:
    world = World()

    def main() -> str:
        sock = socket.create_connection(("b", 7), timeout=1)
        world.b.kill()
        with pytest.raises(ConnectionResetError):
            sock.recv(10)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("b", 7), timeout=1)
        world.b.start(wiped=False)
        return exchange()[0].decode()

    assert world.run(main) == ["PING"]
    assert [event for event in world.echo.events if event == "stop" or event[0] == "start"] == [
        ("start", True),
        "stop",
        ("start", False),
    ]


def test_a_paused_server_accepts_and_answers_late() -> None:
    world = World()

    def main() -> tuple[bytes, float]:
        world.b.pause()
        world.kernel.later(1_000_000_000, None, world.b.resume)
        return exchange()

    [(answer, took)] = world.run(main)
    assert answer == b"PING"
    assert 0.99 < took < 1.01


def test_a_swallowed_message_is_lost_once() -> None:
    world = World()
    world.network.link("b", "a").snares.append(Snare(b"PING", LOST))

    def main() -> bytes:
        with pytest.raises(TimeoutError):
            exchange(0.5)
        return exchange(0.5)[0]

    assert world.run(main) == [b"PING"]
    assert world.echo.events.count(b"ping") == 2


def test_breaking_streams_resets_both_ends() -> None:
    world = World()

    def main() -> int:
        sock = socket.create_connection(("b", 7), timeout=1)
        broken = world.a.break_streams({"b"})
        with pytest.raises(ConnectionResetError):
            sock.recv(10)
        time.sleep(0.1)
        return broken

    assert world.run(main) == [1]
    assert world.echo.events[-1] == ("closed", "a")


# A cut that comes while something is on its way.


@pytest.mark.parametrize(("source", "target", "executed"), [("a", "b", False), ("b", "a", True)])
def test_what_is_on_its_way_when_a_cut_comes_is_lost_and_sent_again(source: str, target: str, executed: bool) -> None:
    world = World()
    link = world.network.link(source, target)
    link.burden(Weight(latency_ns=50_000_000))

    def main() -> tuple[bool, bytes, float]:
        sock = socket.create_connection(("b", 7), timeout=10)
        sock.sendall(b"x")
        time.sleep(0.02)
        link.cuts += 1
        time.sleep(0.1)
        seen = b"x" in world.echo.events
        link.cuts -= 1
        healed = time.monotonic()
        return seen, sock.recv(10), time.monotonic() - healed

    [(seen, answer, after)] = world.run(main)
    assert (seen, answer) == (executed, b"X")
    assert 0.1 < after < 0.3, "sent again 0.2 s after it was lost"


def test_order_is_kept_across_losses_and_what_follows_them() -> None:
    """Some packets are lost on their way, others sent during the cut, and others overtake the ones sent again."""
    world = World(seed=5)
    link = world.network.link("a", "b")
    link.burden(Weight(latency_ns=30_000_000, jitter_ns=10_000_000))

    def main() -> bytes:
        with socket.create_connection(("b", 7)) as sock:
            for number in range(300):
                if number % 50 == 20:
                    link.cuts += 1
                if number % 50 == 40:
                    link.cuts -= 1
                sock.sendall(b"%04d" % number)
                time.sleep(0.007)
            data = b""
            while len(data) < 1200:
                data += sock.recv(65536)
            return data

    assert world.run(main) == [b"".join(b"%04d" % number for number in range(300))]


def test_a_ping_on_its_way_does_not_pass_a_cut() -> None:
    world = World()
    world.network.link("b", "a").burden(Weight(latency_ns=50_000_000))
    answers: list[str] = []

    def main() -> None:
        for cut in (False, True):
            world.network.ping("a", "b", lambda: answers.append("pong"))
            time.sleep(0.02)
            world.network.link("b", "a").cuts += cut
            time.sleep(0.2)

    world.run(main)
    assert answers == ["pong"]


def test_connecting_whose_knock_or_answer_is_lost_on_its_way_knocks_again() -> None:
    for source, target in (("a", "b"), ("b", "a")):
        world = World()
        link = world.network.link(source, target)
        link.burden(Weight(latency_ns=50_000_000))

        def main(world: World = world, link: Link = link) -> float:
            def flicker() -> None:
                link.cuts += 1
                world.kernel.later(100_000_000, None, setattr, link, "cuts", 0)

            world.kernel.later(20_000_000, None, flicker)
            began = time.monotonic()
            socket.create_connection(("b", 7), timeout=5).close()
            return time.monotonic() - began

        [took] = world.run(main)
        assert 1.0 < took < 1.2, "the first knock is repeated after a second"


# Connections that are over.


def test_a_connect_that_timed_out_knocks_no_more() -> None:
    world = World()
    link = world.network.link("a", "b")
    link.cuts += 1

    def main() -> None:
        with pytest.raises(TimeoutError):
            socket.create_connection(("b", 7), timeout=0.5)
        waiting = socket.socket()
        waiting.setblocking(False)
        with pytest.raises(BlockingIOError):
            waiting.connect(("b", 7))
        waiting.close()
        link.cuts -= 1
        time.sleep(10)

    world.run(main)
    assert world.echo.events == [("start", True)], "nobody hears of clients that have given up"


def test_sending_after_a_reset_fails() -> None:
    """As on Linux: the first call says so, later ones find a broken pipe, and readers the end."""
    world = World()

    def main() -> list[str]:
        said = []
        for reader in (False, True):
            sock = socket.create_connection(("b", 7), timeout=1)
            world.b.break_streams({"a"})
            time.sleep(0.01)
            if reader:
                with pytest.raises(ConnectionResetError):
                    sock.recv(10)
            for _ in range(2):
                try:
                    sock.sendall(b"lost")
                    said.append("sent")
                except OSError as error:
                    said.append(type(error).__name__)
            assert sock.recv(10) == b""
        return said

    assert world.run(main) == [["ConnectionResetError", "BrokenPipeError", "BrokenPipeError", "BrokenPipeError"]]
    assert b"lost" not in world.echo.events


def test_sending_to_an_end_that_has_closed_is_answered_with_a_reset() -> None:
    world = World()

    def main() -> list[str]:
        sock = socket.create_connection(("b", 7), timeout=1)
        time.sleep(0.01)
        next(iter(world.b.peers)).close()
        time.sleep(0.01)
        said = [repr(sock.recv(10))]
        sock.sendall(b"into the void")
        time.sleep(0.01)
        with pytest.raises(BrokenPipeError):
            sock.sendall(b"again")
        return [*said, repr(sock.recv(10))]

    assert world.run(main) == [["b''", "b''"]]
