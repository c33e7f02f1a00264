"""Simulated gRPC channels behave as grpcio's: statuses, deadlines, streams and reconnecting."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest

from harness.sim import grpc_wire
from harness.sim.grpc_channel import SimChannel
from harness.sim.grpc_wire import GrpcServer, MethodHandler, ServerCall
from harness.sim.kernel import SECOND
from harness.sim.links import Impairment
from harness.sim.service import ServiceHost
from tests.sim.world import TwoHostWorld

UNAVAILABLE, DEADLINE = grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED


class Arithmetic:
    """A service with methods of all kinds.

    ``/t/sum`` answers with the sum of all requests, ``/t/double`` doubles each, ``/t/square`` squares one, ``/t/count``
    counts up to one, and ``/t/never`` does not answer.
    """

    port = 50

    def __init__(self) -> None:
        self.sums: dict[ServerCall, int] = {}
        self.dropped_calls = 0
        self._server = GrpcServer(self._find)
        self.opened, self.received, self.closed = self._server.opened, self._server.received, self._server.closed

    def _find(self, path: str) -> MethodHandler | None:
        return None if path == "/t/unknown" else self

    def message(self, call: ServerCall, data: bytes) -> None:
        number = int(data)
        if call.path == "/t/sum":
            self.sums[call] = self.sums.get(call, 0) + number
        elif call.path == "/t/double":
            call.send(b"%d" % (2 * number))
        elif call.path == "/t/square":
            call.answer(b"%d" % (number * number))
        elif call.path == "/t/count":
            for each in range(number):
                call.send(b"%d" % each)
            call.end()

    def ended(self, call: ServerCall) -> None:
        if call.path == "/t/sum":
            call.answer(b"%d" % self.sums.pop(call, 0))
        else:
            call.end()

    def dropped(self, call: ServerCall) -> None:
        self.dropped_calls += 1

    def start(self, host: ServiceHost, *, wiped: bool) -> None: ...

    def stop(self) -> None: ...


class GrpcBench(TwoHostWorld):
    """Host ``b`` runs the service; clients run on ``a``."""

    def __init__(self) -> None:
        super().__init__()
        self.server = Arithmetic()
        self.b.install(self.server)

    def cut(self, by: int) -> None:
        self.network.link("a", "b").cuts += by
        self.network.link("b", "a").cuts += by


def channel(**options: int) -> Any:
    return grpc.insecure_channel("b:50", options=[(f"grpc.{name}", value) for name, value in options.items()])


def square(channel: Any, number: int = 3, **how: Any) -> Any:
    return channel.unary_unary("/t/square", lambda number: b"%d" % number, int)(number, **how)


def status(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except grpc.RpcError as error:
        return error.code()


def test_all_four_kinds_of_methods_return_responses_and_statuses() -> None:
    def main() -> list[Any]:
        encode, to = (lambda number: b"%d" % number), channel()
        doubled = to.stream_stream("/t/double", encode, int)(iter([1, 2, 3]))
        with_call = to.unary_unary("/t/square", encode, int).with_call(4)
        future = to.unary_unary("/t/square", encode, int).future(5)
        return [
            square(to),
            list(to.unary_stream("/t/count", encode, int)(4)),
            to.stream_unary("/t/sum", encode, int)(iter([1, 2, 3])),
            list(doubled), doubled.code(), with_call[0], with_call[1].code(), future.result(), future.done(),
            status(lambda: to.unary_unary("/t/unknown")(b"1")),
        ]  # fmt: skip

    ok = grpc.StatusCode.OK
    assert GrpcBench().run(main) == [
        [9, [0, 1, 2, 3], 6, [2, 4, 6], ok, 16, ok, 25, True, grpc.StatusCode.UNIMPLEMENTED]
    ]  # fmt: skip


def test_only_simulated_hosts_get_a_simulated_channel() -> None:
    with grpc.insecure_channel("localhost:1") as real:
        assert not isinstance(real, SimChannel)
    world = GrpcBench()

    def main() -> bool:
        with pytest.raises(NotImplementedError):
            grpc.secure_channel("b:50", None)
        return isinstance(channel(), SimChannel)

    assert world.run(main) == [True]


def test_a_deadline_ends_a_call_and_cancels_it_at_the_server() -> None:
    world = GrpcBench()

    def main() -> list[Any]:
        to, began = channel(), time.monotonic()
        unary = status(lambda: to.unary_unary("/t/never", bytes, bytes)(b"1", timeout=2))
        stream = status(lambda: list(to.stream_stream("/t/double", bytes, bytes)(forever(), timeout=3)))
        took = time.monotonic() - began
        time.sleep(0.1)
        return [unary, stream, took, square(to)]

    assert world.run(main) == [[DEADLINE, DEADLINE, 5.0, 9]]
    assert world.server.dropped_calls == 2


def forever() -> Iterator[bytes]:
    yield b"1"
    threading.Event().wait()


def test_a_request_iterator_is_read_in_its_own_thread() -> None:
    def main() -> list[Any]:
        def slowly() -> Iterator[bytes]:
            for number in range(3):
                time.sleep(1)
                yield b"%d" % number

        began, seen = time.monotonic(), []
        for answer in channel().stream_stream("/t/double", bytes, int)(slowly()):
            seen.append((answer, round(time.monotonic() - began, 2)))
        return seen

    assert GrpcBench().run(main) == [[(0, 1.0), (2, 2.0), (4, 3.0)]]


def test_an_exception_in_the_request_iterator_ends_the_call() -> None:
    def main() -> Any:
        def broken() -> Iterator[bytes]:
            yield b"1"
            raise ValueError("no more")

        return status(lambda: list(channel().stream_stream("/t/double", bytes, int)(broken())))

    assert GrpcBench().run(main) == [grpc.StatusCode.UNKNOWN]


def test_cancel_wakes_the_reader_of_responses() -> None:
    world = GrpcBench()

    def main() -> list[Any]:
        call = channel().stream_stream("/t/never", bytes, bytes)(forever())
        threading.Timer(2.0, call.cancel).start()
        return [status(lambda: list(call)), time.monotonic(), call.cancelled(), call.cancel()]

    assert world.run(main) == [[grpc.StatusCode.CANCELLED, 1002.0, True, False]]


def test_a_refused_call_fails_at_once_then_reconnects_after_back_off() -> None:
    """The first attempt fails at once. The next follows after 1 s with 20 % jitter, and the third 1.6 s later."""
    world = GrpcBench()

    def main() -> list[float]:
        world.b.kill()
        to, tried = channel(), []
        began = time.monotonic()
        assert status(lambda: square(to, timeout=30)) is UNAVAILABLE
        tried.append(time.monotonic() - began)
        world.b.start(wiped=False)
        while status(lambda: square(to)) is UNAVAILABLE:
            time.sleep(0.01)
        tried.append(time.monotonic() - began)
        return tried

    [(first, second)] = world.run(main)
    assert first < 0.01
    assert 0.8 <= second <= 1.25


def test_a_call_with_wait_for_ready_succeeds_when_the_server_returns() -> None:
    world = GrpcBench()

    def main() -> list[Any]:
        world.b.kill()
        to = channel(initial_reconnect_backoff_ms=100, max_reconnect_backoff_ms=200)
        threading.Timer(3.0, lambda: world.b.start(wiped=False)).start()
        began = time.monotonic()
        return [square(to, wait_for_ready=True), time.monotonic() - began]

    [(answer, took)] = world.run(main)
    assert answer == 9
    assert 3.0 < took < 3.3


def test_a_broken_connection_fails_its_calls_and_the_next_call_reconnects() -> None:
    world = GrpcBench()

    def main() -> list[Any]:
        to = channel()
        square(to)
        threading.Timer(1.0, lambda: world.b.break_streams({"a"})).start()
        return [status(lambda: to.unary_unary("/t/never", bytes)(b"1")), time.monotonic(), square(to)]

    [(code, when, answer)] = world.run(main)
    assert code is UNAVAILABLE
    assert when == pytest.approx(1001, abs=0.01)
    assert answer == 9


def test_a_paused_server_has_twenty_seconds_to_complete_the_connection() -> None:
    world = GrpcBench()

    def main() -> list[Any]:
        world.b.pause()
        began = time.monotonic()
        return [status(lambda: square(channel())), time.monotonic() - began]

    assert world.run(main) == [[UNAVAILABLE, 20.0]]


def test_a_call_behind_a_cut_waits_for_ever_unless_keep_alive_is_on() -> None:
    world = GrpcBench()

    def main() -> list[Any]:
        plain, alive = channel(), channel(keepalive_time_ms=2000, keepalive_timeout_ms=1000)
        square(plain), square(alive)
        world.cut(+1)
        began = time.monotonic()
        future = plain.unary_unary("/t/square", bytes, int).future(b"7")
        dead = status(lambda: square(alive)), time.monotonic() - began
        time.sleep(20)
        waiting = future.done()
        world.cut(-1)
        return [dead, waiting, future.result(timeout=60)]

    assert world.run(main) == [[(UNAVAILABLE, 3.0), False, 49]]


def test_a_call_that_fails_at_once_takes_virtual_time() -> None:
    """etcd3's watcher retries without a pause, so virtual time must advance in each call."""
    world = GrpcBench()

    def main() -> int:
        world.b.kill()
        to, count = channel(), 0
        deadline = time.monotonic() + 0.5
        while time.monotonic() < deadline:
            status(lambda: list(to.stream_stream("/t/double", bytes)(iter(()))))
            count += 1
        return count

    [count] = world.run(main)
    assert 100 < count <= 502


def test_a_closed_channel_cancels_calls_and_refuses_new_ones() -> None:
    def main() -> list[Any]:
        to = channel()
        square(to)
        future = to.unary_unary("/t/never", bytes).future(b"1")
        to.close()
        with pytest.raises(ValueError, match="closed"):
            square(to)
        return [future.cancelled(), status(future.response)]

    assert GrpcBench().run(main) == [[True, grpc.StatusCode.CANCELLED]]


def test_a_subscriber_receives_the_channels_state() -> None:
    def main() -> list[str]:
        to, seen = channel(), []
        grpc.channel_ready_future(to).result(timeout=5)
        to.subscribe(lambda state: seen.append(state.name))
        to.close()
        return seen

    assert GrpcBench().run(main) == [["READY"]]


def test_an_answer_received_during_a_pause_wins_over_an_expired_deadline() -> None:
    """An answer that arrived during the pause is read, although the deadline passed during it too."""
    world = GrpcBench()
    world.kernel.later(SECOND, None, world.a.pause)
    world.kernel.later(9 * SECOND, None, world.a.resume)

    def main() -> list[Any]:
        to = channel()
        square(to)
        world.network.link("b", "a").add_impairment(Impairment(latency_ns=SECOND // 10))
        time.sleep(0.95)
        return [square(to, timeout=3), time.monotonic()]

    [(answer, when)] = world.run(main)
    assert answer == 9
    assert when == pytest.approx(1009, abs=0.01)


def test_frames_are_parsed_from_any_split_of_the_data() -> None:
    frames = [(grpc_wire.MESSAGE, 7, b"abc"), (grpc_wire.STATUS, 7, b"\0"), (grpc_wire.HELLO, 0, b"")]
    data = b"".join(grpc_wire.frame(*frame) for frame in frames)
    assert grpc_wire.split(data) == (frames, b"")
    for cut in range(len(data)):
        first, rest = grpc_wire.split(data[:cut])
        second, left = grpc_wire.split(rest + data[cut:])
        assert (first + second, left) == (frames, b"")
    requests = grpc_wire.request(grpc_wire.REQUEST, 1, "/a/B", b"x") + grpc_wire.request(grpc_wire.END, 1, "/a/B")
    assert list(grpc_wire.requests(requests)) == ["/a/B"]
