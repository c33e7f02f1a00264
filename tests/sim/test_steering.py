"""A simulation that is told what happens next."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from harness.sim.kernel import BOOT, SECOND, Deadlock
from harness.sim.steering import Gate, Steering
from tests.sim.world import World

Act = Callable[[Steering], object]


class Steered(World):
    """Steers from the first moment on, by a list of acts; ends the steering after the last."""

    def __init__(self, *acts: Act, watched: tuple[str, ...] = ("a",)) -> None:
        super().__init__()
        self.acts = list(acts)
        self.saw: list[tuple[float, list[str], list[str]]] = []
        """Time since the start, messages under way, and who could wake up, at each decision."""
        self.kernel.ready.append((None, self._begin, (watched,)))

    def _begin(self, watched: tuple[str, ...]) -> None:
        self.steering = Steering(self.kernel, watched, self._decide)

    def _decide(self) -> None:
        steering = self.steering
        now = (self.kernel.now - BOOT) / SECOND
        self.saw.append((now, sorted(steering.messages()), sorted(steering.sleepers())))
        if self.acts:
            self.acts.pop(0)(steering)
        else:
            steering.end()

    def connected(self) -> socket.socket:
        return socket.create_connection(("b", 7), 60.0)


def deliver(wire: str) -> Act:
    return lambda steering: steering.deliver(wire)


def wake(sleeper: str) -> Act:
    return lambda steering: steering.wake(sleeper)


def pass_on(steering: Steering) -> None:
    until = steering.next_timer()
    assert until is not None
    steering.pass_to(until)


def test_messages_arrive_when_they_are_told_to_and_time_stands_still() -> None:
    world = Steered(deliver("a>b connect"), deliver("b>a accept"), deliver("a>b"), deliver("a>b"), deliver("b>a"))

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


def test_a_second_stream_has_wires_of_its_own() -> None:
    world = Steered(*[deliver(wire) for wire in ("a>b connect", "b>a accept") * 2], deliver("a>b#2"), deliver("b>a#2"))

    def main() -> bytes:
        one, two = world.connected(), world.connected()
        one.sendall(b"one")
        two.sendall(b"two")
        return two.recv(100)

    assert world.run(main) == [b"TWO"]
    assert world.saw[4][1] == ["a>b", "a>b#2"]


def test_sleepers_wake_when_they_are_told_to_and_each_by_itself() -> None:
    order: list[str] = []

    def sleeper(name: str, seconds: float) -> Callable[[], None]:
        def main() -> None:
            time.sleep(seconds)
            order.append(name)

        return main

    world = Steered(pass_on, wake("a wakes #2"), wake("a wakes"), pass_on, wake("a wakes"))
    world.run(sleeper("first", 1.0), sleeper("second", 1.0), sleeper("third", 2.0))
    assert order == ["second", "first", "third"]
    assert [(now, due) for now, _, due in world.saw] == [
        (0.0, []),
        (1.0, ["a wakes", "a wakes #2"]),
        (1.0, ["a wakes"]),
        (1.0, []),
        (2.0, ["a wakes"]),
    ]


def test_the_time_out_of_a_wait_that_is_over_is_nothing() -> None:
    """Both the timer that was taken back and the deadline of a wait that was ended."""
    world = Steered()
    nexts: list[int | None] = []
    done = threading.Event

    def main() -> None:
        event = done()
        threading.Thread(target=event.set).start()
        assert event.wait(5.0)
        world.kernel.later(3 * SECOND, world.a.life, print).cancel()
        time.sleep(7.0)

    world.acts = [lambda steering: nexts.append(steering.next_timer()), pass_on, wake("a wakes")]
    world.run(main)
    assert nexts == [BOOT + 7 * SECOND]


def test_what_others_wait_for_happens_on_the_way_and_stops_there_if_it_is_sent() -> None:
    world = Steered(pass_on, pass_on, wake("a wakes"))
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

    world.acts = [deliver("a>b connect"), deliver("b>a accept"), pass_on, pass_on, wake("a wakes")]
    world.run(main)
    assert [now for now, _, _ in world.saw] == [0.0, 0.0, 0.0, 2.0, 5.0]
    assert rang == [1.0, 2.0, 3.0]


def test_who_is_frozen_is_not_waited_for_and_wakes_after_the_thaw() -> None:
    world = Steered()
    freeze: Act = lambda _: world.a.pause()  # noqa: E731
    thaw: Act = lambda _: world.a.resume()  # noqa: E731
    nobody: Act = lambda steering: nexts.append(steering.next_timer())  # noqa: E731
    nexts: list[int | None] = []

    def main() -> float:
        time.sleep(1.0)
        return time.monotonic() - BOOT / SECOND

    world.acts = [freeze, nobody, lambda steering: steering.pass_to(BOOT + 9 * SECOND), thaw]
    assert world.run(main) == [9.0]
    assert nexts == [None]


def test_messages_wait_for_as_long_as_nobody_delivers_them() -> None:
    world = Steered()
    ages: list[int | None] = []

    def main() -> None:
        time.sleep(2.0)
        threading.Thread(target=world.connected).start()
        time.sleep(3.0)

    note: Act = lambda steering: ages.append(steering.oldest())  # noqa: E731
    world.acts = [note, pass_on, wake("a wakes"), note, lambda steering: steering.pass_to(BOOT + 5 * SECOND), note]
    world.run(main)
    assert ages == [None, BOOT + 2 * SECOND, BOOT + 2 * SECOND]
    assert world.saw[-1][1] == ["a>b connect"]


def test_gates_let_through_who_came_before_and_who_comes_after() -> None:
    world = World()
    gate = Gate()
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


def test_after_the_end_all_goes_its_own_way_again() -> None:
    world = Steered(deliver("a>b connect"))

    def main() -> tuple[bytes, float]:
        sock = world.connected()
        sock.sendall(b"one")
        answer = sock.recv(100)
        time.sleep(1.0)
        return answer, time.monotonic() - BOOT / SECOND

    [(answer, took)] = world.run(main)
    assert answer == b"ONE"
    assert 1.0 < took < 1.01
    with pytest.raises(Deadlock):
        World().run(Gate().wait)
