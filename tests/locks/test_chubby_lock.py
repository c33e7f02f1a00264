"""The Chubby lock: the conformance suite, and its behaviour on lost answers, fail-overs and jeopardy."""

from __future__ import annotations

import time
from typing import Any

import pytest

from harness.lock_impls import catalogue
from harness.lock_impls.base import Grant, Indeterminate, LockError
from harness.lock_impls.chubby import ChubbyLock
from harness.sim.servers.chubby.protocol import PORT
from tests.locks import conformance
from tests.locks.test_conformance_sim import on_a_simulated_client
from tests.sim.chubby_cell import REPLICAS, Cell

ADDRESSES = tuple((name, PORT) for name in REPLICAS)
TTL = 2.0


@pytest.mark.parametrize("prop", conformance.properties_of(catalogue.find("chubby")), ids=lambda prop: prop.__name__)
def test_lock(prop: conformance.Property) -> None:
    on_a_simulated_client(catalogue.find("chubby"), prop, "chubby")


def lock(**options: Any) -> ChubbyLock:
    return ChubbyLock(ADDRESSES, "k", TTL, **options)


def acquire(mine: ChubbyLock, timeout: float = 0.0) -> Grant:
    grant = mine.acquire(timeout)
    assert grant is not None
    return grant


def ttl_is_the_sum_of_lease_and_lock_delay(cell: Cell) -> None:
    other = lock()
    grant = acquire(lock())
    assert grant.fence == 1
    assert grant.valid_for is not None
    assert 1.5 < grant.valid_for < 1.6
    cell.on("c1", lambda: acquire(other, 60))
    cell.on("c1", lambda: acquire(ChubbyLock(ADDRESSES, "dead", TTL)))
    time.sleep(0.5)
    cell.cluster.kill("c1")
    began = time.monotonic()
    acquire(ChubbyLock(ADDRESSES, "dead", TTL), 5)
    assert TTL - 0.6 < time.monotonic() - began < TTL + 0.1


def lost_answer_is_requested_again(cell: Cell) -> None:
    """The request is executed once and its answer is kept, so the outcome is known."""
    mine = lock()
    acquire(mine)
    mine.release()
    trap = cell.cluster.trap_message(cell.master(), "c0", b'"held":true', None)
    assert acquire(mine).fence == 2
    assert trap.used
    trap = cell.cluster.trap_message(cell.master(), "c0", b'"ok":{}', None)
    mine.release()
    assert trap.used
    assert acquire(lock()).fence == 3


def still_valid_is_false_in_jeopardy(cell: Cell) -> None:
    mine = lock()
    fence = acquire(mine).fence
    assert mine.still_valid()
    for name in REPLICAS:
        cell.cluster.pause(name)
    time.sleep(2.5)
    assert not mine.still_valid()
    for name in REPLICAS:
        cell.cluster.resume(name)
    time.sleep(3)
    assert mine.still_valid(), "no other master could end the session meanwhile"
    mine.release()
    assert not mine.still_valid()
    assert acquire(mine).fence != fence


def lost_session_loses_the_lock(cell: Cell) -> None:
    mine = lock(grace=1.0)
    acquire(mine)
    heal = cell.cut(["c0"], list(REPLICAS))
    time.sleep(5)
    assert not mine.still_valid()
    with pytest.raises(LockError, match="expired"):
        mine.release()
    with pytest.raises(LockError):
        mine.acquire(0)
    heal()
    time.sleep(1)
    assert acquire(mine, 5).fence == 2


def acquire_with_unknown_outcome_is_not_kept_alive(cell: Cell) -> None:
    """The cell is paused after the acquire was sent: whatever it does later, the lock is free after a ttl."""
    mine, other = lock(), lock()
    acquire(mine)
    mine.release()
    acquire(other)
    other.release()
    for name in REPLICAS:
        cell.cluster.pause(name)
    with pytest.raises(Indeterminate):
        mine.acquire(0.2)
    for name in REPLICAS:
        cell.cluster.resume(name)
    time.sleep(2)
    acquire(other, TTL + 1)


def release_survives_a_failover(cell: Cell) -> None:
    mine, other = lock(), lock()
    acquire(mine)
    cell.kill_master()
    mine.release()
    acquire(other, 2)


STORIES = [
    ttl_is_the_sum_of_lease_and_lock_delay,
    lost_answer_is_requested_again,
    still_valid_is_false_in_jeopardy,
    lost_session_loses_the_lock,
    acquire_with_unknown_outcome_is_not_kept_alive,
    release_survives_a_failover,
]


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_story(story: Any) -> None:
    Cell(lease=None, grace=None, lock_delay=None).run(story)
