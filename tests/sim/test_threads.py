"""Threads of simulated hosts behave as ``threading`` documents, and leave no trace outside the simulation."""

from __future__ import annotations

import _thread
import re
import selectors
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import pytest

import harness.sim
from tests.sim.world import TwoHostWorld


def test_simulator_uses_nothing_private_of_threading() -> None:
    lines = [line for file in Path(harness.sim.__file__).parent.rglob("*.py") for line in file.read_text().splitlines()]
    assert [line for line in lines if re.search(r"\b(threading|_thread)\._", line)] == []


def test_unnamed_threads_are_numbered_from_1_in_each_simulation() -> None:
    def work() -> None: ...

    def main() -> list[str]:
        task = threading.current_thread().name
        unnamed, named, timer = threading.Thread(), threading.Thread(name="mine"), threading.Timer(1, work)
        return [task, unnamed.name, named.name, timer.name, threading.Thread(target=work).name]

    expected = [["Dummy-1", "Thread-2", "mine", "Thread-3", "Thread-4 (work)"]]
    assert TwoHostWorld().run(main) == TwoHostWorld().run(main) == expected


def test_a_process_sees_its_own_threads_only() -> None:
    world = TwoHostWorld()

    def main() -> tuple[list[str], int]:
        world.b.spawn(lambda: threading.Thread(target=time.sleep, args=(5,), name="of b").start())
        ended, running = (threading.Thread(target=time.sleep, args=(s,), name=f"{s} s") for s in (1, 5))
        ended.start()
        running.start()
        time.sleep(2)
        return [thread.name for thread in threading.enumerate()], threading.active_count()

    assert world.run(main) == [(["Dummy-1", "5 s"], 2)]


def test_a_thread_is_alive_from_start_to_end_and_knows_itself() -> None:
    seen: list[Any] = []

    class Worker(threading.Thread):
        def run(self) -> None:
            seen.append(threading.current_thread() is self)
            seen.append((self.ident, self.native_id) == (threading.get_ident(), threading.get_native_id()))
            time.sleep(1)

    def main() -> list[Any]:
        worker = Worker(name="w")
        states = [worker.is_alive(), worker.ident, repr(worker)]
        worker.start()
        states += [worker.is_alive(), worker.ident is not None]
        states.append(repr(worker) == f"<Worker(w, started daemon {worker.ident})>")
        worker.join(0.5)
        states.append(worker.is_alive())
        worker.join()
        return [*states, worker.is_alive(), repr(worker) == f"<Worker(w, stopped daemon {worker.ident})>"]

    states = [False, None, "<Worker(w, initial daemon)>", True, True, True, True, False, True]
    assert TwoHostWorld().run(main) == [states]
    assert seen == [True, True]


def test_mistakes_raise_as_they_do_outside() -> None:
    def main() -> list[str]:
        raised: list[str] = []

        def attempt(action: Any) -> None:
            try:
                action()
            except RuntimeError as error:
                raised.append(str(error))

        def join_itself() -> None:
            attempt(threading.current_thread().join)

        thread = threading.Thread(target=join_itself)
        attempt(thread.join)
        thread.start()
        attempt(thread.start)
        attempt(lambda: setattr(thread, "daemon", True))
        thread.join()
        return raised

    assert TwoHostWorld().run(main) == [
        [
            "cannot join thread before it is started",
            "cannot join current thread",
            "threads can only be started once",
            "cannot set daemon status of active thread",
        ]
    ]


def test_a_reentrant_lock_counts_how_often_its_owner_holds_it() -> None:
    """multiprocessing asks for it."""

    def main() -> list[int]:
        lock: Any = threading.RLock()
        counts = [lock._recursion_count()]
        with lock, lock:
            counts.append(lock._recursion_count())
            other = threading.Thread(target=lambda: counts.append(lock._recursion_count()))
            other.start()
            other.join()
        return [*counts, lock._recursion_count()]

    assert TwoHostWorld().run(main) == [[0, 2, 0, 0]]


@pytest.mark.parametrize(
    ("module", "kind", "attribute", "noted"),
    [
        (threading, "Lock", "acquire_lock", True),
        (selectors, "DefaultSelector", "fileno", True),
        (threading, "Lock", "nope", False),
        (threading, "Lock", "_release_save", False),
        (threading, "RLock", "__len__", False),
    ],
)
def test_an_attribute_that_only_the_standard_object_has_is_noted(
    module: Any, kind: str, attribute: str, noted: bool
) -> None:
    world = TwoHostWorld()

    def main() -> bool:
        return hasattr(getattr(module, kind)(), attribute)

    assert world.run(main) == [False]
    assert list(world.kernel.unsupported) == ([f"{module.__name__}.{kind}.{attribute}"] if noted else [])


def test_a_lock_can_be_referred_to_weakly() -> None:
    def main() -> list[bool]:
        locks = [threading.Lock(), threading.RLock()]
        return [weakref.ref(lock)() is lock for lock in locks]

    assert TwoHostWorld().run(main) == [[True, True]]


def test_an_uncaught_exception_ends_its_thread_only(monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: reported.append((args.exc_value, args.thread.name)))
    error = ValueError("broken")

    def fail() -> None:
        raise error

    def main() -> bool:
        thread = threading.Thread(target=fail, name="failing")
        thread.start()
        thread.join()
        return thread.is_alive()

    assert TwoHostWorld().run(main) == [False]
    assert reported == [(error, "failing")]


def test_threads_that_end_with_the_simulation_report_no_exception(capsys: pytest.CaptureFixture[str]) -> None:
    assert TwoHostWorld().run(lambda: threading.Thread(target=time.sleep, args=(60,)).start()) == [None]
    assert capsys.readouterr().err == ""


def test_a_simulation_leaves_no_threads_behind() -> None:
    before, name = threading.enumerate(), threading.Thread().name
    TwoHostWorld().run(lambda: threading.Thread(target=time.sleep, args=(60,)).start())
    assert threading.enumerate() == before
    assert int(threading.Thread().name.split("-")[1]) == int(name.split("-")[1]) + 1


def test_locks_of_simulated_hosts_pass_as_instances_where_lock_is_a_class() -> None:
    def main() -> bool:
        return isinstance(threading.Lock(), threading.Lock) if isinstance(threading.Lock, type) else True

    assert TwoHostWorld().run(main) == [True]


def test_a_low_level_thread_runs_on_the_host_that_starts_it() -> None:
    def main() -> list[Any]:
        seen: list[Any] = []

        def work(first: int, *, second: int) -> None:
            time.sleep(1)
            seen.append((first, second, _thread.get_ident()))

        ident = _thread.start_new_thread(work, (1,), {"second": 2})
        time.sleep(2)
        return [*seen, seen[0][2] == ident]

    [[(first, second, _), same]] = TwoHostWorld().run(main)
    assert (first, second, same) == (1, 2, True)
