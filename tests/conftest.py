"""What many tests share: the choice of a part of the tests, real Redis servers, and one Chromium for all pages.

The Redis servers are for the lock programs in other languages: on the loopback (a machine without redis-server fails
those tests: ``.ci/setup`` installs it), and in containers where ``-m docker`` asks for them.
"""

from __future__ import annotations

import gc
import os
import zlib
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from harness.fidelity.processes import LOOPBACK, Place, ServerProcess, program_path

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# A loaded machine is slow: no example fails for the time that it takes.
settings.register_profile("any-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any-machine")

Address = tuple[str, int]
Servers = tuple[Address, ...]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--part", metavar="K/N", help="Run the K-th of N parts of the selected tests, K from 1 to N.")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One process more than cores for ``-n auto``: tests also wait for real servers, browsers and other processes."""
    return len(os.sched_getaffinity(0)) + 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Without ``--dist``, run neighbouring tests in one process, so that fewer processes make the same fixtures. A
    process without work takes tests from another one."""
    if config.getvalue("dist") != "load":
        return None
    return import_module("xdist.scheduler").WorkStealingScheduling(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep what the collection loads out of the garbage collector: to go through it took a fifth of all tests' time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the cases that ``few`` leaves out as slow, and keep the tests of the chosen part.

    A test is in the same part on every machine and whatever else is selected."""
    _leave_few(items)
    chosen: str | None = config.getoption("--part")
    if chosen is None:
        return
    part, _, parts = chosen.partition("/")
    if not (part.isdigit() and parts.isdigit() and 1 <= int(part) <= int(parts)):
        raise pytest.UsageError(f"--part: expected K/N with K from 1 to N, got {chosen!r}")
    kept = [item for item in items if part_of(item.nodeid, int(parts)) == int(part)]
    config.hook.pytest_deselected(items=[item for item in items if part_of(item.nodeid, int(parts)) != int(part)])
    items[:] = kept


def _leave_few(items: list[pytest.Item]) -> None:
    """Of the cases of each test marked with ``few(n)``, leave n that are spread evenly, and mark the others as slow."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("few") and not any(map(item.get_closest_marker, ("slow", "long", "docker"))):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for alike in cases.values():
        marker = alike[0].get_closest_marker("few")
        assert marker is not None
        wanted = min(marker.args[0], len(alike))  # a user may name one case
        for number, item in enumerate(alike):
            if number * wanted // len(alike) == (number - 1) * wanted // len(alike):
                item.add_marker(pytest.mark.slow)


def part_of(nodeid: str, parts: int) -> int:
    """Return the number of the part, from 1 on, that a test belongs to."""
    return zlib.crc32(nodeid.encode()) % parts + 1


@pytest.fixture(autouse=True)
def _no_engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests are the same whether this machine has a Docker engine or not; those that need one say so."""
    if all(request.node.get_closest_marker(name) is None for name in ("docker", "long")):
        monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")


def redis_command(place: Place) -> list[str]:
    """Return the command of a Redis server without persistence."""
    host, port = place.address
    return [program_path("redis-server"), "--port", str(port), "--bind", host, "--dir", str(place.folder), "--save", ""]


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run simulations in the process of the test, for tests that replace parts of them."""
    from harness.run.processes import workers

    class Here:
        def __init__(self, on_frame: workers.OnFrame) -> None:
            self.sent = 0
            self.send = on_frame

    def call(function: str, argument: bytes, on_frame: workers.OnFrame, **_options: object) -> bytes:
        module, _, name = function.partition(":")
        result: bytes = getattr(import_module(module), name)(argument, Here(on_frame))
        return result

    monkeypatch.setattr(workers, "call", call)


ANYWHERE = [LOOPBACK, pytest.param("container", marks=pytest.mark.docker)]


@contextmanager
def _in_containers(kind: str) -> Iterator[tuple[Address, ...]]:
    from tests.clusters.real import servers

    with servers(kind) as cluster:
        yield cluster.endpoints().addresses


@pytest.fixture(scope="session", params=ANYWHERE)
def real_redis(request: pytest.FixtureRequest) -> Iterator[Servers]:
    """Five independent servers."""
    with ExitStack() as stack:
        if request.param != LOOPBACK:
            yield stack.enter_context(_in_containers("redis-independent"))
            return
        servers = [stack.enter_context(ServerProcess("redis-server", redis_command)) for _ in range(5)]
        yield tuple(server.place.address for server in servers)


@pytest.fixture(scope="session")
def real_sentinel() -> Iterator[Servers]:
    """Three sentinels that watch a primary with two replicas, in containers."""
    with _in_containers("redis-sentinel") as sentinels:
        yield sentinels


@pytest.fixture(scope="session")
def real_cluster() -> Iterator[Servers]:
    """A Redis Cluster of three primaries and their replicas, in containers."""
    with _in_containers("redis-cluster") as nodes:
        yield nodes


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One for all: there cannot be two in one process."""
    from playwright.sync_api import expect, sync_playwright

    with sync_playwright() as playwright:
        path = os.environ.get("HARNESS_CHROMIUM", "/usr/bin/chromium")
        chromium = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        expect.set_options(timeout=60_000)  # the default of 5 s is too short for a busy machine
        yield chromium
        chromium.close()
