"""The number of waiters that one release of a ZooKeeper lock wakes, on simulated and on real servers.

Scenarios cannot count wake-ups.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from harness.lock_impls import catalogue
from harness.lock_impls.base import Endpoints
from tests.locks.zookeeper_bench import RunStory, on_simulated_client, open_locks, real_servers

CLIENTS = 6


@pytest.fixture(scope="module")
def real() -> Iterator[Endpoints]:
    with real_servers() as where:
        yield where


@pytest.fixture(params=["sim", pytest.param("docker", marks=pytest.mark.long)])
def run_story(request: pytest.FixtureRequest) -> RunStory:
    if request.param == "sim":
        return on_simulated_client
    where: Endpoints = request.getfixturevalue("real")
    return lambda story: story(where)


@pytest.mark.parametrize(("name", "woken"), [("zookeeper-herd", CLIENTS - 1), ("zookeeper-sequential", 1)])
def test_release_wakes_all_waiters_of_a_herd_lock_and_one_of_a_queue(
    name: str, woken: int, run_story: RunStory
) -> None:

    def story(where: Endpoints) -> None:
        holder, *others = open_locks(catalogue.find(name), where, CLIENTS)
        holder.acquire(0)
        grants = []
        waiters = [threading.Thread(target=lambda lock=lock: grants.append(lock.acquire(20.0))) for lock in others]
        for waiter in waiters:
            waiter.start()
        until(lambda: all(lock.session.id is not None for lock in others))
        time.sleep(1.0)
        assert sum(lock.woken for lock in others) == 0
        holder.release()
        until(lambda: grants)
        time.sleep(0.5)
        assert len(grants) == 1
        assert sum(lock.woken for lock in others) == woken
        while waiters:
            for lock in others:
                if lock.held:
                    lock.release()
            waiters = [waiter for waiter in waiters if waiter.is_alive()]
            time.sleep(0.05)
        assert None not in grants

    run_story(story)


def until(condition: Callable[[], object], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
