"""The patches: the standard library is simulated on a simulated host and unchanged everywhere else."""

from __future__ import annotations

import concurrent.futures
import copy
import datetime
import os
import pickle
import platform
import queue
import random
import re
import secrets
import select
import selectors
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
import uuid
from datetime import datetime as datetime_by_name
from pathlib import Path
from time import monotonic as monotonic_by_name
from time import sleep as sleep_by_name
from typing import Any

import pytest

from harness.errors import EnvironmentLacking
from harness.plan import Plan
from harness.run.plans.completion import complete
from harness.sim.patches import TESTED, virtual, why_unsupported
from harness.sim.select import SimSelector
from tests.sim.world import TwoHostWorld


def test_all_clock_functions_read_the_hosts_clocks() -> None:
    world = TwoHostWorld()
    world.a.set_clock(3600_000_000_000)

    def main() -> list[Any]:
        sleep_by_name(5)
        return [
            time.monotonic(), time.monotonic_ns(), monotonic_by_name(), time.perf_counter(),
            time.time(), time.time_ns() // 1_000_000_000, time.clock_gettime(time.CLOCK_REALTIME),
            datetime.datetime.now(datetime.UTC).isoformat(), datetime_by_name.now(datetime.UTC).isoformat(),
            datetime.date.today().isoformat(), time.gmtime().tm_hour, time.strftime("%Y"),
        ]  # fmt: skip

    [seen] = world.run(main)
    wall = 1_767_225_600 + 3600 + 5
    assert seen == [
        1005.0, 1_005_000_000_000, 1005.0, 1005.0, wall, wall, wall,
        "2026-01-01T01:00:05+00:00", "2026-01-01T01:00:05+00:00", "2026-01-01", 1, "2026",
    ]  # fmt: skip


def test_drift_changes_the_wall_clock_but_not_the_monotonic_clock() -> None:
    world = TwoHostWorld()
    world.a.set_clock(0, rate=0.1)

    def main() -> tuple[float, float]:
        before = time.monotonic(), time.time()
        time.sleep(100)
        return time.monotonic() - before[0], time.time() - before[1]

    [(monotonic, wall)] = world.run(main)
    assert monotonic == 100
    assert wall == pytest.approx(110, abs=1e-6)


class ClassWithFunctions:
    """Holds built-in functions, a bound method and a class, as one does to replace them in tests."""

    clock, wall, sleep = time.monotonic, time.time, time.sleep
    pick = random.randint
    new_selector: Any = selectors.DefaultSelector


def test_functions_held_in_a_class_get_no_instance_and_are_simulated() -> None:
    def main() -> list[Any]:
        class ClassOfTheSimulation:
            clock, wall, sleep = time.monotonic, time.time, time.sleep
            pick = random.randint
            new_selector: Any = selectors.DefaultSelector

        log: list[Any] = []
        holders: list[Any] = [ClassWithFunctions(), ClassOfTheSimulation()]
        for it in holders:
            it.sleep(1.5)
            log += [it.clock(), it.wall() - 1_767_225_600, it.pick(1, 1), isinstance(it.new_selector(), SimSelector)]
        return log

    assert TwoHostWorld().run(main) == [[1001.5, 1.5, 1, True, 1003.0, 3.0, 1, True]]
    assert vars(ClassWithFunctions)["clock"] is time.monotonic, "the class has the real function again"


def test_functions_of_the_simulation_are_copied_and_serialised_as_real_ones() -> None:
    def main() -> list[bool]:
        return [copy.deepcopy(time.sleep) is time.sleep, pickle.loads(pickle.dumps(time.sleep)) is time.sleep]

    assert TwoHostWorld().run(main) == [[True, True]]


def random_values() -> list[Any]:
    unseeded = random.Random()
    return [
        random.random(), random.randint(0, 9**9), random.choice(range(9**9)), unseeded.random(), secrets.token_hex(),
        os.urandom(8), getattr(os, "getrandom", os.urandom)(8), uuid.uuid4(), uuid.uuid1(), uuid.uuid1(), os.getpid(),
        socket.gethostname(), uuid.getnode(), random.SystemRandom().random(),
    ]  # fmt: skip


def test_random_values_depend_on_the_seed_and_the_host() -> None:
    def draw(seed: int, on: str) -> list[Any]:
        world = TwoHostWorld(seed)
        return world.run(random_values, on=world.network.hosts[on])[0]  # type: ignore[arg-type,no-any-return]

    first = draw(1, "a")
    assert first == draw(1, "a")
    assert first[8] != first[9], "two uuid1 in one instant differ"
    for other in (draw(2, "a"), draw(1, "b")):
        assert all(x != y for x, y in zip(first[:8], other[:8], strict=True))


def test_each_process_has_an_environment_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock that keeps the name of its owner there would otherwise take other clients for itself."""
    monkeypatch.setenv("OF_ALL", "real")
    monkeypatch.delenv("OWNER", raising=False)
    world = TwoHostWorld()

    def main() -> list[str | None]:
        os.environ.setdefault("OWNER", socket.gethostname())
        before = os.environ.pop("OF_ALL")
        return [before, os.getenv("OF_ALL"), os.environ["OWNER"], os.environ.copy()["OWNER"]]

    def other() -> list[str | None]:
        time.sleep(1)
        before = os.getenv("OWNER")
        return [before, *main()]

    tasks = [world.a.spawn(lambda: world.results.append(main()))]
    assert [*world.run(other, on=world.b), *tasks]
    assert world.results == [["real", None, "a", "a"], [None, "real", None, "b", "b"]]
    assert (os.environ["OF_ALL"], os.getenv("OWNER")) == ("real", None)
    child = [sys.executable, "-c", "import os; print(os.environ['OF_ALL'])"]
    assert subprocess.run(child, capture_output=True, check=True).stdout.strip() == b"real", (
        "the variables of C programs were not changed"
    )


def test_each_host_has_a_name_and_a_hardware_address_of_its_own() -> None:
    """A lock whose owner is machine:pid would otherwise take the holds of other machines for its own."""

    def main() -> tuple[set[str], int, int, int]:
        names = {socket.gethostname(), platform.node(), platform.uname().node}
        if hasattr(os, "uname"):
            names.add(os.uname().nodename)
        return names, uuid.getnode(), uuid.uuid1().node, os.getppid()

    real = platform.uname()
    [one] = TwoHostWorld().run(main)
    other = TwoHostWorld()
    [two] = other.run(main, on=other.b)
    assert (one[0], two[0]) == ({"a"}, {"b"})
    assert one[1] == one[2] != two[1] == two[2]
    assert all(address >> 40 == 0b10 for address in (one[1], two[1])), "locally administered, and of one machine"
    assert one[3] == two[3] == 4241
    assert platform.uname() == real, "the real name was not replaced"


def test_names_and_addresses_are_those_of_simulated_hosts() -> None:
    def main() -> list[object]:
        name, service = socket.getnameinfo(("b", 7), 0)
        return [socket.getfqdn(), socket.gethostbyaddr("b"), socket.gethostbyname_ex("b"), name, service]

    assert TwoHostWorld().run(main) == [["a", ("b", [], ["b"]), ("b", [], ["b"]), "b", "7"]]


def test_an_explicitly_seeded_generator_is_unchanged() -> None:
    def main() -> tuple[float, float]:
        return random.Random(5).random(), random.Random(5).random()

    [(one, two)] = TwoHostWorld().run(main)
    assert one == two == random.Random(5).random()


def sleep_and_return(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def test_threads_events_conditions_timers_queues_and_pools_use_virtual_time() -> None:
    def main() -> list[Any]:
        log: list[Any] = []
        event, condition, results = threading.Event(), threading.Condition(), queue.Queue[int]()
        timer = threading.Timer(2.0, event.set)
        timer.start()
        log.append((event.wait(1.0), time.monotonic()))
        log.append((event.wait(), time.monotonic()))

        def produce() -> None:
            for number in range(3):
                time.sleep(1)
                results.put(number)
            with condition:
                condition.notify_all()

        thread = threading.Thread(target=produce)
        with condition:
            thread.start()
            condition.wait()
        log.append([results.get() for _ in range(3)])
        thread.join()
        log.append((thread.is_alive(), time.monotonic()))
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            log.append(list(pool.map(sleep_and_return, [0.3, 0.2, 0.1])))
        log.append(round(time.monotonic(), 6))
        return log

    [log] = TwoHostWorld().run(main)
    assert log == [(False, 1001.0), (True, 1002.0), [0, 1, 2], (False, 1005.0), [0.3, 0.2, 0.1], 1005.3]


def test_locks_exclude_each_other_time_out_and_are_granted_in_order() -> None:
    def main() -> list[Any]:
        lock = threading.Lock()
        log: list[Any] = []
        rlock = threading.RLock()
        with rlock, rlock:
            log.append(rlock.acquire(blocking=False))
            rlock.release()

        def worker(number: int) -> None:
            with lock:
                log.append(number)
                time.sleep(1)

        workers = [threading.Thread(target=worker, args=(number,)) for number in range(3)]
        for thread in workers:
            thread.start()
        time.sleep(0.5)
        log.append(lock.acquire(timeout=0.1))
        log.append(lock.acquire(blocking=False))
        for thread in workers:
            thread.join()
        return [*log, time.monotonic()]

    assert TwoHostWorld().run(main) == [[True, 0, False, False, 1, 2, 1003.0]]


def test_thread_locals_are_per_thread() -> None:
    def main() -> list[Any]:
        local, seen = threading.local(), []
        local.token = "main"

        def other() -> None:
            seen.append(hasattr(local, "token"))
            local.token = "other"

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        return [*seen, local.token, isinstance(local, threading.local)]

    assert TwoHostWorld().run(main) == [[False, "main", True]]


@pytest.mark.parametrize("how", ["select", "poll", "epoll", "selector", "SelectSelector", "PollSelector"])
def test_select_poll_and_selectors_wait_for_a_readable_socket(how: str) -> None:
    def ready(sock: socket.socket, timeout: float) -> bool:
        if how == "select":
            return bool(select.select([sock], [], [], timeout)[0])
        if how == "poll":
            poller = select.poll()
            poller.register(sock, select.POLLIN)
            return bool(poller.poll(timeout * 1000))
        if how == "epoll":
            with select.epoll() as waiter:
                waiter.register(sock.fileno(), select.EPOLLIN | select.EPOLLPRI)
                return waiter.poll(timeout) == [(sock.fileno(), select.EPOLLIN)]
        with getattr(selectors, "DefaultSelector" if how == "selector" else how)() as selector:
            selector.register(sock, selectors.EVENT_READ)
            return bool(selector.select(timeout))

    def main() -> list[Any]:
        sock = socket.create_connection(("b", 7))
        sock.setblocking(False)
        with pytest.raises(BlockingIOError):
            sock.recv(1)
        log: list[Any] = [ready(sock, 0.5), time.monotonic() - 1000 > 0.5]
        sock.sendall(b"x")
        return [*log, ready(sock, 0.5), sock.recv(1), isinstance(sock, socket.socket)]

    assert TwoHostWorld().run(main) == [[False, True, True, b"X", True]]


def test_the_output_of_a_real_program_is_read_on_a_simulated_host() -> None:
    """``subprocess`` polls its pipes, which are descriptors of the real machine."""

    def main() -> bytes:
        return subprocess.run([sys.executable, "-S", "-c", "print(5)"], capture_output=True, check=True).stdout

    assert TwoHostWorld().run(main) == [b"5\n"]


def test_epoll_of_a_simulated_host_refuses_what_it_does_not_do() -> None:
    def main() -> list[Any]:
        sock = socket.create_connection(("b", 7))
        waiter = select.epoll()
        with pytest.raises(NotImplementedError, match="edge-triggered"):
            waiter.register(sock, select.EPOLLIN | select.EPOLLET)
        waiter.close()
        with pytest.raises(ValueError, match="closed"):
            waiter.poll(0)
        return [isinstance(waiter, select.epoll)]

    assert TwoHostWorld().run(main) == [[True]]
    with virtual(), select.epoll() as waiter:
        assert waiter.fileno() >= 0, "outside the simulation epoll must be the real one"


def test_fstat_says_that_a_simulated_descriptor_is_a_socket() -> None:
    def main() -> list[Any]:
        sock = socket.create_connection(("b", 7))
        number = sock.fileno()
        log: list[Any] = [stat.S_ISSOCK(os.fstat(number).st_mode)]
        sock.close()
        with pytest.raises(OSError, match="not a simulated socket"):
            os.fstat(number)
        return log

    with tempfile.TemporaryFile() as file:
        assert TwoHostWorld().run(lambda: [*main(), os.fstat(file.fileno()).st_size]) == [[True, 0]]


def test_other_threads_use_the_real_functions_while_a_simulation_runs() -> None:
    seen: dict[str, Any] = {}

    def real_thread() -> None:
        began = time.perf_counter()
        time.sleep(0.05)
        seen["slept"] = time.perf_counter() - began
        seen["wall"] = time.time()
        seen["pid"] = os.getpid()
        seen["lock"] = type(threading.Lock())
        with socket.socket() as sock:
            seen["socket"] = type(sock)

    real_lock, real_socket, wall, pid = type(threading.Lock()), socket.socket, time.time(), os.getpid()
    with virtual():
        thread = threading.Thread(target=real_thread)
        thread.start()
        TwoHostWorld().run(lambda: time.sleep(100_000))
        thread.join()
    assert 0.05 <= seen["slept"] < 5
    assert abs(seen["wall"] - wall) < 60
    assert seen["pid"] == pid
    assert (seen["lock"], seen["socket"]) == (real_lock, real_socket)


def test_all_patches_are_undone_at_the_end() -> None:
    before = {name: getattr(time, name) for name in ("time", "sleep", "monotonic")}
    others = (socket.socket, threading.Lock, datetime.datetime, random.random, os.urandom, sleep_by_name, uuid.uuid4)
    TwoHostWorld().run(lambda: None)
    assert before == {name: getattr(time, name) for name in before}
    assert others == (
        socket.socket, threading.Lock, datetime.datetime, random.random, os.urandom, sleep_by_name, uuid.uuid4,
    )  # fmt: skip
    assert "__hash__" not in vars(concurrent.futures.Future), "it is inherited again"


def test_the_tested_versions_of_python_are_the_declared_ones() -> None:
    root = Path(__file__).parents[2]
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    *others, last = re.findall(r"Python :: (3\.\d+)", " ".join(project["classifiers"]))
    versions = f"{', '.join(others)} or {last}"
    assert versions == TESTED
    assert f"CPython {versions}" in " ".join((root / "README.md").read_text().split())
    assert project["requires-python"] == f">={others[0]}"


def test_a_python_that_lacks_a_replaced_part_is_refused_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(queue, "_PySimpleQueue")
    why_unsupported.cache_clear()
    try:
        with pytest.raises(EnvironmentLacking) as refusal:
            complete(Plan(lock="redlock"))
    finally:
        why_unsupported.cache_clear()
    assert str(refusal.value) == (
        f"the simulator does not work on CPython {platform.python_version()}: module 'queue' has no attribute "
        "'_PySimpleQueue', and the simulator replaces it; use CPython 3.11, 3.12 or 3.13, or --cluster docker"
    )
