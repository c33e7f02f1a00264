"""The end of a simulated process: what CPython's interpreter does, in the same order."""

from __future__ import annotations

import atexit
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest

from harness.sim import exits
from harness.sim.kernel import SECOND, Task
from tests.sim.world import TwoHostWorld


def program(note: Callable[[str], object], slower: float = 1.0) -> None:
    """Start all that an interpreter waits for, and end. All times are ``slower`` times as long."""

    def noted(what: str, seconds: float) -> Callable[[], None]:
        def work() -> None:
            time.sleep(seconds * slower)
            note(f"{what} after {'' if threading.main_thread().is_alive() else 'the end of '}the main thread")

        return work

    pool = ThreadPoolExecutor(1)
    pool.submit(noted("pool", 0.2))
    threading.Thread(target=noted("thread", 0.4)).start()
    threading.Thread(target=noted("early thread", 0.05)).start()
    threading.Thread(target=noted("daemon", 0.1), daemon=True).start()
    threading.Thread(target=noted("late daemon", 30), daemon=True).start()
    atexit.register(note, "first registered")
    atexit.register(lambda: 1 / 0)
    forgotten = cast("Callable[[], None]", atexit.register(noted("forgotten", 0)))
    atexit.register(note, "last registered")
    atexit.unregister(forgotten)
    time.sleep(0.075 * slower)


EXPECTED = [
    "early thread after the main thread",
    "daemon after the main thread",
    "pool after the main thread",
    "thread after the end of the main thread",
    "last registered",
    "first registered",
]


def ended(*, cleans_up: bool) -> tuple[list[str], TwoHostWorld]:
    world, noted = TwoHostWorld(), list[str]()

    def main() -> None:
        program(noted.append)
        exits.end_process(task, cleans_up=cleans_up)

    task: Task = world.a.spawn(main)
    world.a.life.main = task
    world.run(lambda: time.sleep(60), on=world.b)
    return noted, world


def test_a_process_ends_as_the_interpreter_ends_it() -> None:
    noted, world = ended(cleans_up=True)
    assert noted == EXPECTED
    assert not world.a.alive
    texts = [text for _, _, text in world.a.lines]
    assert texts == ["a function of atexit raised ZeroDivisionError: division by zero", "# exited"]


@pytest.mark.slow
def test_the_real_interpreter_does_the_same() -> None:
    path = f"import sys; sys.path[:] = {sys.path!r}"
    code = f"{path}; from tests.sim.test_exits import program; program(lambda said: print(said, flush=True), 20)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == EXPECTED, done.stderr
    assert "ZeroDivisionError" in done.stderr


def test_a_process_that_a_signal_kills_does_nothing_more() -> None:
    noted, world = ended(cleans_up=False)
    assert noted == EXPECTED[:1]
    assert not world.a.alive


@pytest.mark.parametrize("daemon", [True, False])
def test_a_thread_keeps_a_process_unless_it_is_a_daemon(daemon: bool) -> None:
    world = TwoHostWorld()

    def main() -> None:
        threading.Thread(target=time.sleep, args=(1000,), daemon=daemon).start()
        exits.end_process(task, cleans_up=True)

    task: Task = world.a.spawn(main)
    states: list[Any] = []
    for after in (10, 999, 1001):
        world.kernel.later(after * SECOND, None, lambda: states.append(world.a.alive))
    world.run(lambda: time.sleep(1002), on=world.b)
    assert states == ([False] * 3 if daemon else [True, True, False])


def test_the_system_closes_the_connections_of_a_process_that_exited() -> None:
    world = TwoHostWorld()

    def main() -> None:
        connection = socket.create_connection(("b", 7))
        connection.sendall(b"x")
        connection.recv(1)
        exits.end_process(task, cleans_up=True)

    task: Task = world.a.spawn(main)
    world.run(lambda: time.sleep(5), on=world.b)
    assert world.echo.events[-1] == ("closed", "a")
