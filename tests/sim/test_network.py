"""The simulated network: order, latency, cuts in each direction, loss, resets and refusals, with and without faults."""

from __future__ import annotations

import socket
import time
from random import Random

import pytest

from harness.sim.network import LOST, Impairment, SimLink, SimMessageTrap
from tests.sim.world import TwoHostWorld


def exchange(timeout: float = 5.0) -> tuple[bytes, float]:
    """Do one round trip on a new connection; return the answer and its duration in seconds."""
    with socket.create_connection(("b", 7), timeout=timeout) as sock:
        began = time.monotonic()
        sock.sendall(b"ping")
        answer, took = sock.recv(100), time.monotonic() - began
    time.sleep(0.01)
    return answer, took


def test_a_round_trip_takes_the_latency_of_both_ways() -> None:
    world = TwoHostWorld()
    [(answer, took)] = world.run(exchange)
    assert answer == b"PING"
    assert 0.0002 <= took <= 0.0003
    assert world.echo.events == [("start", True), ("opened", "a"), b"ping", ("closed", "a")]


def test_extra_latency_applies_to_one_direction() -> None:
    world = TwoHostWorld()
    world.network.link("a", "b").add_impairment(Impairment(latency_ns=50_000_000))
    [(_, took)] = world.run(exchange)
    assert 0.0502 <= took <= 0.0503


def test_a_thousand_messages_arrive_in_order_despite_jitter() -> None:
    world = TwoHostWorld()
    world.network.link("a", "b").add_impairment(Impairment(jitter_ns=20_000_000))

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


def test_a_closed_port_refuses_and_an_unknown_host_is_a_resolver_error() -> None:
    def refused() -> str:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("b", 8), timeout=1)
        with pytest.raises(socket.gaierror):
            socket.create_connection(("nowhere", 8), timeout=1)
        return "ok"

    assert TwoHostWorld().run(refused) == ["ok"]


@pytest.mark.parametrize(("source", "target", "executed"), [("a", "b", False), ("b", "a", True)])
def test_a_cut_in_one_direction_stalls_the_stream_until_healed(source: str, target: str, executed: bool) -> None:
    """A lost request is executed after the heal. With a lost answer it is executed at once, but the client waits."""
    world = TwoHostWorld()

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
    assert 0.3 < after < 0.5, "TCP sends again 0.2, 0.6 and 1.4 s after the first attempt; the link healed at 1.0 s"


def test_connecting_across_a_cut_times_out() -> None:
    world = TwoHostWorld()
    world.network.link("b", "a").cuts += 1

    def main() -> float:
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            socket.create_connection(("b", 7), timeout=2)
        return time.monotonic() - began

    assert world.run(main) == [2.0]


@pytest.mark.parametrize("timeout", [2.3e-13, 0.9e-9, 1.1e-9])
def test_a_receive_with_less_than_a_nanosecond_left_times_out(timeout: float) -> None:
    """Clients subtract times from deadlines, and rounding leaves such differences."""

    def main() -> None:
        sock = socket.create_connection(("b", 7), timeout=1)
        sock.settimeout(timeout)
        with pytest.raises(TimeoutError):
            sock.recv(10)

    TwoHostWorld().run(main)


def test_lost_packets_are_resent_and_arrive_late() -> None:
    world = TwoHostWorld(seed=3)
    world.network.link("a", "b").add_impairment(Impairment(loss=0.5))

    def main() -> list[float]:
        return [exchange(60)[1] for _ in range(50)]

    [trips] = world.run(main)
    late = [trip for trip in trips if trip > 0.19]
    assert 10 <= len(late) <= 40
    assert all(trip < 0.001 or trip > 0.2 for trip in trips)


def test_a_rate_limit_delays_data_by_its_size() -> None:
    world = TwoHostWorld()
    world.network.link("a", "b").add_impairment(Impairment(bytes_per_second=1000.0))

    def main() -> float:
        with socket.create_connection(("b", 7)) as sock:
            began = time.monotonic()
            sock.sendall(b"x" * 500)
            sock.recv(1000)
            return time.monotonic() - began

    [took] = world.run(main)
    assert 0.5 < took < 0.502


def test_impairments_add_up_and_are_removed_one_by_one() -> None:
    link = SimLink(Random(1))
    fast = link.delay(0)
    first, second = Impairment(latency_ns=10**9), Impairment(latency_ns=10**9, bytes_per_second=1000)
    link.add_impairment(first)
    link.add_impairment(second)
    assert 3 * 10**9 <= link.delay(1000) < 3.1 * 10**9
    link.remove_impairment(first)
    link.remove_impairment(first)
    assert 2 * 10**9 <= link.delay(1000) < 2.1 * 10**9
    link.remove_impairment(second)
    assert abs(link.delay(1000) - fast) < 100_000


def test_a_killed_server_resets_its_streams_and_refuses_new_ones() -> None:
    world = TwoHostWorld()

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


def test_a_paused_server_accepts_connections_and_answers_after_the_pause() -> None:
    world = TwoHostWorld()

    def main() -> tuple[bytes, float]:
        world.b.pause()
        world.kernel.later(1_000_000_000, None, world.b.resume)
        return exchange()

    [(answer, took)] = world.run(main)
    assert answer == b"PING"
    assert 0.99 < took < 1.01


def test_a_message_trap_drops_one_message() -> None:
    world = TwoHostWorld()
    world.network.link("b", "a").traps.append(SimMessageTrap(b"PING", LOST))

    def main() -> bytes:
        with pytest.raises(TimeoutError):
            exchange(0.5)
        return exchange(0.5)[0]

    assert world.run(main) == [b"PING"]
    assert world.echo.events.count(b"ping") == 2


def test_break_streams_resets_both_ends() -> None:
    world = TwoHostWorld()

    def main() -> int:
        sock = socket.create_connection(("b", 7), timeout=1)
        broken = world.a.break_streams({"b"})
        with pytest.raises(ConnectionResetError):
            sock.recv(10)
        time.sleep(0.1)
        return broken

    assert world.run(main) == [1]
    assert world.echo.events[-1] == ("closed", "a")


# Cuts while a packet is on its way.


@pytest.mark.parametrize(("source", "target", "executed"), [("a", "b", False), ("b", "a", True)])
def test_a_packet_in_flight_during_a_cut_is_lost_and_resent(source: str, target: str, executed: bool) -> None:
    world = TwoHostWorld()
    link = world.network.link(source, target)
    link.add_impairment(Impairment(latency_ns=50_000_000))

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


def test_data_stays_in_order_when_packets_are_lost_and_resent() -> None:
    """Some packets are lost on their way, some are sent during the cut, and some overtake resent ones."""
    world = TwoHostWorld(seed=5)
    link = world.network.link("a", "b")
    link.add_impairment(Impairment(latency_ns=30_000_000, jitter_ns=10_000_000))

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


def test_a_ping_in_flight_is_lost_in_a_cut() -> None:
    world = TwoHostWorld()
    world.network.link("b", "a").add_impairment(Impairment(latency_ns=50_000_000))
    answers: list[str] = []

    def main() -> None:
        for cut in (False, True):
            world.network.ping("a", "b", lambda: answers.append("pong"))
            time.sleep(0.02)
            world.network.link("b", "a").cuts += cut
            time.sleep(0.2)

    world.run(main)
    assert answers == ["pong"]


def test_a_connection_request_is_repeated_when_it_or_its_answer_is_lost() -> None:
    for source, target in (("a", "b"), ("b", "a")):
        world = TwoHostWorld()
        link = world.network.link(source, target)
        link.add_impairment(Impairment(latency_ns=50_000_000))

        def main(world: TwoHostWorld = world, link: SimLink = link) -> float:
            def flicker() -> None:
                link.cuts += 1
                world.kernel.later(100_000_000, None, setattr, link, "cuts", 0)

            world.kernel.later(20_000_000, None, flicker)
            began = time.monotonic()
            socket.create_connection(("b", 7), timeout=5).close()
            return time.monotonic() - began

        [took] = world.run(main)
        assert 1.0 < took < 1.2, "the first request is repeated after one second"


# Connections that have ended.


def test_a_connect_that_timed_out_sends_no_more_requests() -> None:
    world = TwoHostWorld()
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
    assert world.echo.events == [("start", True)], "the server never sees clients that have given up"


def test_sending_after_a_reset_raises() -> None:
    """As on Linux, the first send raises a reset, later ones a broken pipe, and reads return the end of the stream."""
    world = TwoHostWorld()

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


def test_sending_to_a_closed_end_is_answered_with_a_reset() -> None:
    world = TwoHostWorld()

    def main() -> list[str]:
        sock = socket.create_connection(("b", 7), timeout=1)
        time.sleep(0.01)
        next(iter(world.b.connections)).close()
        time.sleep(0.01)
        said = [repr(sock.recv(10))]
        sock.sendall(b"into the void")
        time.sleep(0.01)
        with pytest.raises(BrokenPipeError):
            sock.sendall(b"again")
        return [*said, repr(sock.recv(10))]

    assert world.run(main) == [["b''", "b''"]]
