"""The kernel: virtual time, tasks, paused and killed hosts, and the end of a simulation."""

from __future__ import annotations

import gc
import socket
import threading
import time

import pytest
from greenlet import getcurrent

from harness.sim.kernel import FROZEN, RUNNING, SECOND, Kernel, Life, SimulationClosed, SimulationDeadlock, Task
from tests.sim.world import TwoHostWorld


def test_virtual_time_advances_only_while_all_tasks_wait() -> None:
    world = TwoHostWorld()
    real = time.perf_counter()

    def main() -> tuple[float, float]:
        before = time.monotonic()
        sum(range(100_000))
        worked = time.monotonic() - before
        time.sleep(3600)
        return worked, time.monotonic() - before

    [(worked, slept)] = world.run(main)
    assert worked == 0
    assert slept == 3600
    assert time.perf_counter() - real < 5


def test_a_loop_that_only_reads_the_clock_terminates() -> None:
    world = TwoHostWorld()

    def main() -> float:
        began = time.monotonic()
        while time.monotonic() - began < 1.0:
            pass
        return time.monotonic() - began

    [waited] = world.run(main)
    assert 1.0 <= waited < 1.1


def test_a_pause_freezes_all_threads_of_a_host_and_timers_fire_late() -> None:
    world = TwoHostWorld()
    ticks: list[float] = []

    def watchdog() -> None:
        while True:
            time.sleep(0.1)
            ticks.append(time.monotonic() - 1000)

    def main() -> float:
        threading.Thread(target=watchdog, daemon=True).start()
        world.kernel.later(250_000_000, None, world.a.pause)
        world.kernel.later(1_250_000_000, None, world.a.resume)
        time.sleep(0.3)
        woke = time.monotonic() - 1000
        time.sleep(0.05)
        return woke

    [woke] = world.run(main)
    assert woke == 1.25
    assert [round(tick, 3) for tick in ticks] == [0.1, 0.2, 1.25]


def test_after_a_resume_received_data_is_handled_before_an_expired_timeout() -> None:
    """While a process is frozen, its kernel receives data: poll(2) returns it although the time-out has passed."""
    import socket

    world = TwoHostWorld()

    def main() -> bytes:
        sock = socket.create_connection(("b", 7), timeout=0.5)
        sock.sendall(b"x")
        world.a.pause()
        world.kernel.later(2_000_000_000, None, world.a.resume)
        return sock.recv(10)

    assert world.run(main) == [b"X"]


def test_a_killed_host_does_not_run_finally_blocks() -> None:
    world = TwoHostWorld()
    after: list[str] = []

    def victim() -> None:
        try:
            time.sleep(10)
        finally:
            if not world.kernel.closing:
                after.append("finally")

    def main() -> None:
        world.b.spawn(victim)
        time.sleep(1)
        world.b.kill()
        time.sleep(20)

    world.run(main)
    assert after == []


def test_an_exception_in_a_task_ends_the_simulation_and_is_raised() -> None:
    def main() -> None:
        raise ZeroDivisionError("in a task")

    with pytest.raises(ZeroDivisionError, match="in a task"):
        TwoHostWorld().run(main)


def test_a_wait_that_no_event_can_end_raises_deadlock() -> None:
    lock = []

    def main() -> None:
        lock.append(threading.Lock())
        lock[0].acquire()
        lock[0].acquire()

    with pytest.raises(SimulationDeadlock):
        TwoHostWorld().run(main)


def test_remaining_tasks_are_unwound_when_the_simulation_ends() -> None:
    before = threading.active_count()
    world = TwoHostWorld()
    ends: list[str] = []

    def main() -> None:
        def other() -> None:
            try:
                threading.Event().wait()
            except SimulationClosed:
                ends.append("closed")
                raise

        threading.Thread(target=other).start()
        time.sleep(0.1)

    world.run(main)
    assert ends == ["closed"]
    assert threading.active_count() <= before


def test_destructors_of_what_tasks_have_left_run_in_the_simulation() -> None:
    """As that of a lock that releases itself. The real network does not know the simulated servers."""
    began: list[type] = []
    connected: list[str] = []

    class Lock:
        def __init__(self) -> None:
            self.itself = self

        def __del__(self) -> None:
            began.append(type(getcurrent()))
            socket.create_connection(("b", 7)).close()
            connected.append("b")

    def main() -> None:
        Lock()

    TwoHostWorld().run(main)
    assert gc.isenabled()
    gc.collect()
    assert (began, connected) == ([Task], [])


def test_generators_of_different_names_are_independent_and_seeded() -> None:
    assert Kernel(1).rng("x").random() == Kernel(1).rng("x").random()
    assert Kernel(1).rng("x").random() != Kernel(1).rng("y").random()
    assert Kernel(1).rng("x").random() != Kernel(2).rng("x").random()


def test_calls_pending_when_a_host_freezes_again_keep_their_order() -> None:
    """Two pieces of data wait for a thaw. Handling the first freezes the host again, and a third arrives meanwhile."""
    kernel = Kernel(1)
    life = Life("n1", kernel.rng("x"))
    log: list[str] = []

    def receive(what: str) -> None:
        log.append(what)
        if what == "first":
            kernel.freeze(life)

    def later() -> None:
        life.inbox.append((receive, ("third",)))
        kernel.thaw(life)
        kernel.later(1, None, kernel.finish)

    kernel.freeze(life)
    life.inbox += [(receive, ("first",)), (receive, ("second",))]
    kernel.thaw(life)
    kernel.later(10, None, later)
    kernel.run()
    kernel.close()
    assert log == ["first", "second", "third"]


def test_an_interrupt_is_raised_although_other_tasks_have_not_started() -> None:
    world = TwoHostWorld()

    def main() -> None:
        world.a.spawn(lambda: None)
        world.kernel.crash(KeyboardInterrupt())

    with pytest.raises(KeyboardInterrupt):
        world.run(main)


def test_a_host_runs_again_after_as_many_resumes_and_starts_as_pauses_and_kills() -> None:
    world = TwoHostWorld()
    world.b.pause()
    world.b.pause()
    world.b.resume()
    assert world.b.life.state == FROZEN
    world.b.resume()
    assert world.b.life.state == RUNNING
    world.b.kill()
    world.b.kill()
    world.b.start(wiped=True)
    assert not world.b.alive
    world.b.start(wiped=False)
    assert world.b.alive
    assert world.echo.events[-1] == ("start", True), "one of the two starts wiped the disk"


def test_an_interrupted_task_gets_the_exception_where_it_waits() -> None:
    world = TwoHostWorld()

    def main() -> list[float]:
        sleeping = getcurrent()
        assert isinstance(sleeping, Task)
        world.kernel.later(SECOND, None, lambda: sleeping.interrupt(KeyboardInterrupt("now")))
        began, times = time.monotonic(), []
        with pytest.raises(KeyboardInterrupt, match="now"):
            time.sleep(10)
        times.append(time.monotonic() - began)
        time.sleep(10)
        return [*times, time.monotonic() - began]

    assert world.run(main) == [[1.0, 11.0]]


def test_a_task_that_is_interrupted_while_it_waits_for_a_lock_no_longer_waits_for_it() -> None:
    world = TwoHostWorld()
    log: list[str] = []

    def main() -> None:
        lock = threading.Lock()
        lock.acquire()

        def wait(name: str) -> None:
            try:
                lock.acquire()
            except KeyboardInterrupt:
                name += " interrupted"
            log.append(name)

        tasks = [world.a.spawn(wait, name) for name in ("first", "second")]
        time.sleep(1)
        world.kernel.later(0, None, lambda: tasks[0].interrupt(KeyboardInterrupt()))
        time.sleep(1)
        lock.release()
        time.sleep(1)
        assert [task.dead for task in tasks] == [True, True]

    world.run(main)
    assert sorted(log) == ["first interrupted", "second"]
