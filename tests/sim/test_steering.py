"""Steering: a callback decides which message is delivered, which task wakes, and when time passes."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from harness.sim.kernel import BOOT, SECOND, SimulationDeadlock
from harness.sim.steering import Steering, TaskGate
from tests.sim.world import TwoHostWorld

Step = Callable[[Steering], object]


class SteeredWorld(TwoHostWorld):
    """A world steered from the start by a list of steps; steering ends after the last step."""

    def __init__(self, *steps: Step, watched: tuple[str, ...] = ("a",)) -> None:
        super().__init__()
        self.steps = list(steps)
        self.saw: list[tuple[float, list[str], list[str]]] = []
        """For each decision: seconds since the start, wires with messages, and tasks that could wake up."""
        self.kernel.ready.append((None, self._begin, (watched,)))

    def _begin(self, watched: tuple[str, ...]) -> None:
        self.steering = Steering(self.kernel, watched, self._decide)

    def _decide(self) -> None:
        steering = self.steering
        now = (self.kernel.now - BOOT) / SECOND
        self.saw.append((now, sorted(steering.messages()), sorted(steering.sleepers())))
        if self.steps:
            self.steps.pop(0)(steering)
        else:
            steering.end()

    def connected(self) -> socket.socket:
        return socket.create_connection(("b", 7), 60.0)


def deliver(wire: str) -> Step:
    return lambda steering: steering.deliver(wire)


def wake(sleeper: str) -> Step:
    return lambda steering: steering.wake(sleeper)


def advance(steering: Steering) -> None:
    until = steering.next_timer()
    assert until is not None
    steering.advance_to(until)


def test_messages_arrive_only_when_delivered_and_time_stands_still() -> None:
    world = SteeredWorld(deliver("a>b connect"), deliver("b>a accept"), deliver("a>b"), deliver("a>b"), deliver("b>a"))

    def main() -> bytes:
        sock = world.connected()
        sock.sendall(b"one")
        sock.sendall(b"two")
        return sock.recv(100)

    assert world.run(main) == [b"ONE"]
    assert [messages for _, messages, _ in world.saw] == [
        ["a>b connect"],
        ["b>a accept"],
        ["a>b"],
        ["a>b", "b>a"],
        ["b>a"],
    ]
    assert {now for now, _, _ in world.saw} == {0.0}


def test_a_second_stream_has_separate_wires() -> None:
    world = SteeredWorld(
        *[deliver(wire) for wire in ("a>b connect", "b>a accept") * 2], deliver("a>b#2"), deliver("b>a#2")
    )

    def main() -> bytes:
        one, two = world.connected(), world.connected()
        one.sendall(b"one")
        two.sendall(b"two")
        return two.recv(100)

    assert world.run(main) == [b"TWO"]
    assert world.saw[4][1] == ["a>b", "a>b#2"]


def test_sleeping_tasks_wake_one_at_a_time_on_request() -> None:
    order: list[str] = []

    def sleeper(name: str, seconds: float) -> Callable[[], None]:
        def main() -> None:
            time.sleep(seconds)
            order.append(name)

        return main

    world = SteeredWorld(advance, wake("a wakes #2"), wake("a wakes"), advance, wake("a wakes"))
    world.run(sleeper("first", 1.0), sleeper("second", 1.0), sleeper("third", 2.0))
    assert order == ["second", "first", "third"]
    assert [(now, due) for now, _, due in world.saw] == [
        (0.0, []),
        (1.0, ["a wakes", "a wakes #2"]),
        (1.0, ["a wakes"]),
        (1.0, []),
        (2.0, ["a wakes"]),
    ]


def test_the_timeout_of_a_finished_wait_is_ignored() -> None:
    """This holds for a cancelled timer and for the deadline of a wait that has ended."""
    world = SteeredWorld()
    nexts: list[int | None] = []
    done = threading.Event

    def main() -> None:
        event = done()
        threading.Thread(target=event.set).start()
        assert event.wait(5.0)
        world.kernel.later(3 * SECOND, world.a.life, print).cancel()
        time.sleep(7.0)

    world.steps = [lambda steering: nexts.append(steering.next_timer()), advance, wake("a wakes")]
    world.run(main)
    assert nexts == [BOOT + 7 * SECOND]


def test_timers_of_unwatched_hosts_fire_and_a_sent_message_stops_the_clock() -> None:
    world = SteeredWorld(advance, advance, wake("a wakes"))
    rang: list[float] = []
    conn: list[Any] = []
    world.echo.opened = conn.append  # type: ignore[method-assign, assignment]

    def later() -> None:
        rang.append((world.kernel.now - BOOT) / SECOND)
        if len(rang) == 2:
            conn[0].send(b"news")

    def main() -> None:
        world.connected()
        for seconds in (1, 2, 3):
            world.b.call_later(seconds * SECOND, later)
        time.sleep(5.0)

    world.steps = [
        deliver("a>b connect"),
        deliver("b>a accept"),
        advance,
        advance,
        wake("a wakes"),
    ]
    world.run(main)
    assert [now for now, _, _ in world.saw] == [0.0, 0.0, 0.0, 2.0, 5.0]
    assert rang == [1.0, 2.0, 3.0]


def test_timers_of_a_frozen_host_are_skipped_until_it_thaws() -> None:
    world = SteeredWorld()
    freeze: Step = lambda _: world.a.pause()  # noqa: E731
    thaw: Step = lambda _: world.a.resume()  # noqa: E731
    record_next_timer: Step = lambda steering: nexts.append(steering.next_timer())  # noqa: E731
    nexts: list[int | None] = []

    def main() -> float:
        time.sleep(1.0)
        return time.monotonic() - BOOT / SECOND

    world.steps = [freeze, record_next_timer, lambda steering: steering.advance_to(BOOT + 9 * SECOND), thaw]
    assert world.run(main) == [9.0]
    assert nexts == [None]


def test_an_undelivered_message_waits_while_time_passes() -> None:
    world = SteeredWorld()
    ages: list[int | None] = []

    def main() -> None:
        time.sleep(2.0)
        threading.Thread(target=world.connected).start()
        time.sleep(3.0)

    note: Step = lambda steering: ages.append(steering.oldest_sent_ns())  # noqa: E731
    world.steps = [
        note,
        advance,
        wake("a wakes"),
        note,
        lambda steering: steering.advance_to(BOOT + 5 * SECOND),
        note,
    ]
    world.run(main)
    assert ages == [None, BOOT + 2 * SECOND, BOOT + 2 * SECOND]
    assert world.saw[-1][1] == ["a>b connect"]


def test_an_open_gate_lets_earlier_and_later_waiters_pass() -> None:
    world = TwoHostWorld()
    gate = TaskGate()
    passed: list[str] = []

    def waits() -> None:
        gate.wait()
        passed.append("waited")

    def opens() -> None:
        time.sleep(1.0)
        gate.open()
        gate.wait()
        passed.append("late")

    world.run(waits, opens)
    assert sorted(passed) == ["late", "waited"]


def test_after_steering_ends_the_simulation_runs_by_itself() -> None:
    world = SteeredWorld(deliver("a>b connect"))

    def main() -> tuple[bytes, float]:
        sock = world.connected()
        sock.sendall(b"one")
        answer = sock.recv(100)
        time.sleep(1.0)
        return answer, time.monotonic() - BOOT / SECOND

    [(answer, took)] = world.run(main)
    assert answer == b"ONE"
    assert 1.0 < took < 1.01
    with pytest.raises(SimulationDeadlock):
        TwoHostWorld().run(TaskGate().wait)
