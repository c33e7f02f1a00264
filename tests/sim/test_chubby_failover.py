"""Sessions, jeopardy and fail-overs of the simulated Chubby cell, after Burrows 2006, sections 2.8 and 2.9.

Each test tells a story; :mod:`tests.sim.test_chubby_mutants` tells it again to cells that break one rule."""

from __future__ import annotations

import time
from typing import Any

import pytest

from harness.clusters.base import Shape
from lock_impls.chubby_client import ChubbyError, Session, SessionExpired
from tests.sim.chubby_cell import (
    LEASE,
    NAME,
    REPLICAS,
    Cell,
    acquired,
    is_valid,
    opened,
    release,
    sequencer,
    soon,
    stat,
)


def state(session: Session) -> str:
    return session.state


def keep_alives_wait_at_the_master(cell: Cell) -> None:
    """A KeepAlive is answered when a third of the lease is left: 3 in 8 s. Meanwhile the local lease is never over."""
    heard: list[float] = []
    session = cell.session()
    original = session._heard
    session._heard = lambda reply, began: (heard.append(time.monotonic() - began), original(reply, began))  # type: ignore[assignment,func-returns-value]
    least = LEASE
    for _ in range(800):
        time.sleep(0.01)
        least = min(least, session.left())
    assert len(heard) == 3
    assert all(LEASE / 2 < waited < LEASE for waited in heard), heard
    assert LEASE / 4 < least < LEASE / 2


def a_short_failover_is_no_jeopardy(cell: Cell) -> None:
    events: list[str] = []
    session = cell.session(on_event=events.append)
    handle = opened(session)
    assert acquired(session, handle)
    shown = sequencer(session, handle)
    time.sleep(3.0)  # a KeepAlive has just been answered
    old, epoch = cell.kill_master(), session.epoch
    new = cell.master()
    assert new != old
    assert state(session) == "safe"
    time.sleep(1)
    assert events == ["failover"]
    assert session.epoch > epoch
    assert sequencer(session, handle) == shown, "the lock and the handle are known to the new master"
    assert is_valid(session, shown)
    release(session, handle)
    assert cell.raw(new, op="Release", session=session.id, epoch=epoch, handle=handle)["error"] == "stale-epoch"
    assert state(session) == "safe"


def calls_wait_in_jeopardy(cell: Cell) -> None:
    """Nobody is the master for longer than the lease: a call that is made in jeopardy is answered when one is."""
    events: list[tuple[str, float]] = []
    session = cell.session(on_event=lambda event: events.append((event, time.monotonic())))
    handle = opened(session)
    assert acquired(session, handle)
    for name in REPLICAS:
        cell.cluster.kill(name)
    killed = time.monotonic()
    while state(session) == "safe":
        time.sleep(0.01)
    assert 1 < time.monotonic() - killed <= LEASE
    assert session.left() == 0
    results = cell.on("c0", lambda: (session.call("GetSequencer", soon(20), handle=handle), time.monotonic()))
    time.sleep(3)
    assert not results, "a call was answered in jeopardy"
    for name in REPLICAS:
        cell.cluster.start(name, wiped=False)
    time.sleep(4)
    assert [event for event, _ in events] == ["jeopardy", "failover", "safe"]
    [(shown, answered)] = results
    assert shown["sequencer"] == f"1:exclusive:{NAME}"
    assert answered >= events[2][1]


def calls_wait_though_a_master_would_answer_them(cell: Cell) -> None:
    """Only the answers to KeepAlives are lost: the master is there, and the client must not count on it."""
    session = cell.session()
    handle = opened(session)
    assert acquired(session, handle)
    for _ in range(4):
        cell.cluster.swallow(cell.master(), "c0", b'"lease"', None)
    while state(session) == "safe":
        time.sleep(0.01)
    began = time.monotonic()
    assert sequencer(session, handle)
    assert time.monotonic() - began > 1.0
    assert state(session) == "safe"


def after_the_grace_period_all_is_lost(cell: Cell) -> None:
    events: list[str] = []
    session = cell.session(grace=3.0, on_event=events.append)
    handle = opened(session)
    for name in REPLICAS:
        cell.cluster.kill(name)
    began = time.monotonic()
    with pytest.raises(SessionExpired):
        session.call("GetSequencer", soon(60), handle=handle)
    assert 3.0 < time.monotonic() - began <= LEASE + 3.0 + 0.1
    assert state(session) == "expired"
    time.sleep(1)
    assert events == ["jeopardy", "expired"]


def within_the_grace_period_nothing_is_lost(cell: Cell) -> None:
    """Cut off for longer than its lease, but under a cell that cannot end sessions meanwhile either."""
    session = cell.session()
    handle = opened(session)
    assert acquired(session, handle)
    for name in REPLICAS:
        cell.cluster.pause(name)
    time.sleep(LEASE + 5)
    assert state(session) == "jeopardy"
    for name in REPLICAS:
        cell.cluster.resume(name)
    assert sequencer(session, handle) == f"1:exclusive:{NAME}"
    assert state(session) == "safe"


def the_local_lease_ends_before_the_masters(cell: Cell) -> None:
    """A holder loses the cell just after an answer, and somebody else gets the lock: never while the first believes
    that it is safe. Answers to its KeepAlives take long, and so do its requests."""
    other = cell.session()
    theirs = opened(other)
    made: list[Session] = []

    def hold() -> None:
        cell.cluster.shape([("c1", name) for name in REPLICAS], Shape(latency=0.05))
        cell.cluster.shape([(name, "c1") for name in REPLICAS], Shape(latency=0.35))
        session = cell.session()
        assert acquired(session, opened(session))
        made.append(session)

    cell.on("c1", hold)
    time.sleep(3)
    before = made[0].left()
    while made[0].left() <= before:
        before = made[0].left()
        time.sleep(0.01)
    cell.cut(["c1"], list(REPLICAS))
    assert acquired(other, theirs, wait=20)
    assert state(made[0]) == "jeopardy"
    time.sleep(15)
    assert state(made[0]) == "expired"


def no_lease_ends_early_after_a_failover(cell: Cell) -> None:
    """The new master does not know what the old one promised, and gives the longest lease there may be."""
    other = cell.session(lease=60)
    theirs = opened(other)
    made: list[Session] = []

    def hold() -> None:
        session = cell.session()
        assert acquired(session, opened(session))
        made.append(session)

    cell.on("c1", hold)
    time.sleep(2.9)
    assert made[0].left() > LEASE * 0.9, "it has just been answered"
    cell.kill_master()
    cell.cut(["c1"], list(REPLICAS))
    began = time.monotonic()
    assert acquired(other, theirs, wait=20)
    assert state(made[0]) != "safe"
    assert time.monotonic() - began > LEASE + 1


def a_new_master_waits_for_all_sessions(cell: Cell) -> None:
    """Until each has sent a KeepAlive or ended, calls are put off."""
    one = cell.session()
    handle = opened(one)
    made = cell.on("c1", cell.session)
    time.sleep(0.1)
    assert made
    time.sleep(2.8)
    cell.cluster.kill("c1")
    cell.kill_master()
    cell.master()
    began = time.monotonic()
    assert acquired(one, handle)
    assert LEASE - 0.2 < time.monotonic() - began < LEASE + 0.3
    assert state(one) == "safe"


def a_closed_handle_stays_closed_in_the_new_epoch(cell: Cell) -> None:
    session = cell.session()
    one, two = opened(session), opened(session, "/ls/cell/other")
    cell.kill_master()
    cell.master()
    assert acquired(session, one), "recreated"
    session.call("Close", soon(), handle=one)
    with pytest.raises(ChubbyError, match="bad-handle"):
        acquired(session, one)
    with pytest.raises(ChubbyError, match="bad-handle"):
        acquired(session, {**two, "id": two["id"] + "0", "epoch": session.epoch})
    assert acquired(session, two)


def ephemeral_files_wait_a_minute_for_their_handles(cell: Cell) -> None:
    session = cell.session()
    kept, lost = opened(session, "/ls/kept", ephemeral=True), opened(session, "/ls/lost", ephemeral=True)
    cell.kill_master()
    cell.master()
    assert stat(session, kept)
    time.sleep(55)
    assert cell.server(cell.master()).size() == 2
    time.sleep(10)
    assert cell.server(cell.master()).size() == 1
    assert stat(session, kept)
    with pytest.raises(ChubbyError, match="not-found"):
        stat(session, lost)


# The replicas.


def an_isolated_master_stops(cell: Cell) -> None:
    """Its clients still reach it, and it serves nobody after its lease; another is elected, and the session goes on."""
    session = cell.session()
    handle = opened(session)
    old = cell.master()
    mend = cell.cut([old], cell.others(old))
    began = time.monotonic()
    while cell.serving() == [old]:
        assert time.monotonic() - began < 1.1
        time.sleep(0.01)
    assert "error" in cell.raw(old, op="CreateSession", lease=None, lock_delay=None)
    new = cell.master()
    assert new != old
    assert time.monotonic() - began < 3
    assert acquired(session, handle)
    mend()
    time.sleep(3)
    assert cell.master() == new, "whoever comes back disturbs nobody"
    assert cell.raw(old, op="EndSession", session=session.id, epoch=session.epoch)["master"] == new


def a_master_that_stood_still_looks_at_the_clock(cell: Cell) -> None:
    """It goes on with what waits for it (a KeepAlive to answer, a request) when another is the master already."""
    session = cell.session(lease=60)
    handle = opened(session)
    old = cell.master()
    cell.cluster.pause(old)
    results = cell.on("c1", lambda: cell.raw(old, op="CreateSession", lease=None, lock_delay=None))
    time.sleep(3)
    new = cell.master()
    cell.cluster.resume(old)
    time.sleep(0.1)
    assert [result["error"] for result in results] == ["not-master"]
    assert cell.master() == new
    assert acquired(session, handle)


def a_minority_elects_nobody(cell: Cell) -> None:
    old = cell.master()
    cell.cut(cell.others(old)[:2], [old, *cell.others(old)[2:]])
    for name in cell.others(old)[2:]:
        cell.cluster.kill(name)
    time.sleep(5)
    assert cell.serving() == []


def an_old_database_is_not_elected(cell: Cell) -> None:
    """Two replicas have missed what the others agreed on; the master dies just when they are back."""
    session = cell.session(grace=30)
    handle = opened(session)
    old = cell.master()
    behind, informed = cell.others(old)[:2], cell.others(old)[2:]
    mend = cell.cut(behind, [old, *informed])
    time.sleep(0.1)
    assert acquired(session, handle)
    cell.cluster.kill(old)
    for name in informed:  # what binds their votes to the old master has passed when they come back
        cell.cluster.pause(name)
    time.sleep(2)
    mend()
    for name in informed:
        cell.cluster.resume(name)
    new = cell.master(8)
    assert new in informed
    assert sequencer(session, handle) == f"1:exclusive:{NAME}"


def all_that_was_granted_survives_a_kill_of_all(cell: Cell) -> None:
    session = cell.session()
    handle = opened(session)
    assert acquired(session, handle)
    shown = sequencer(session, handle)
    for name in REPLICAS:
        cell.cluster.kill(name)
    for name in REPLICAS:
        cell.cluster.start(name, wiped=False)
    began = time.monotonic()
    cell.master()
    assert time.monotonic() - began > 1.0, "nobody votes before a master's lease may be over"
    assert sequencer(session, handle) == shown


def a_replica_that_comes_back_does_not_vote_at_once(cell: Cell) -> None:
    """It may have promised its vote to a master, before it was killed."""
    old = cell.master()
    friends = cell.others(old)[:2]
    cell.cut([old], cell.others(old)[2:])
    for name in cell.others(old)[2:]:
        cell.cluster.pause(name)
    time.sleep(2)
    assert cell.serving() == [old], "with two others it has a majority"
    for name in friends:
        cell.cluster.kill(name)
        cell.cluster.start(name, wiped=False)
    cell.cut([old], friends)
    for name in cell.others(old)[2:]:
        cell.cluster.resume(name)
    killed = time.monotonic()
    while not set(cell.serving()) - {old}:
        assert time.monotonic() - killed < 5
        time.sleep(0.01)
    assert time.monotonic() - killed > 1.0


def a_lost_disk_is_filled(cell: Cell) -> None:
    session = cell.session()
    handle = opened(session)
    master = cell.master()
    wiped = cell.others(master)[0]
    cell.cluster.kill(wiped)
    cell.cluster.start(wiped, wiped=True)
    assert cell.server(wiped).size() == 0
    time.sleep(1)
    assert cell.server(wiped).size() == 1
    for name in cell.others(master, wiped)[:2]:
        cell.cluster.kill(name)
    time.sleep(1)
    assert acquired(session, handle), "it counts again"


def what_comes_late_takes_nothing_back(cell: Cell) -> None:
    """The master's database as it was, from a connection that was cut for a while."""
    session = cell.session()
    opened(session)
    master = cell.server(cell.master()).replica
    assert master is not None
    follower = cell.others(cell.master())[0]
    time.sleep(0.1)
    seen = (master.disk.seq, dict(master.disk.rows))
    opened(session, "/ls/cell/other")
    time.sleep(0.1)
    answer = cell.raw(follower, k="state", epoch=master.disk.epoch, seq=seen[0], rows=seen[1])
    assert answer["seq"] == master.disk.seq
    assert cell.server(follower).size() == 2


def a_majority_without_disks_elects_nobody(cell: Cell) -> None:
    session = cell.session()
    handle = opened(session)
    assert acquired(session, handle)
    master = cell.master()
    for name in [master, *cell.others(master)[:2]]:
        cell.cluster.kill(name)
        cell.cluster.start(name, wiped=True)
    time.sleep(10)
    assert cell.serving() == []


STORIES = [
    keep_alives_wait_at_the_master,
    a_short_failover_is_no_jeopardy,
    calls_wait_in_jeopardy,
    calls_wait_though_a_master_would_answer_them,
    after_the_grace_period_all_is_lost,
    within_the_grace_period_nothing_is_lost,
    the_local_lease_ends_before_the_masters,
    no_lease_ends_early_after_a_failover,
    a_new_master_waits_for_all_sessions,
    a_closed_handle_stays_closed_in_the_new_epoch,
    ephemeral_files_wait_a_minute_for_their_handles,
    an_isolated_master_stops,
    a_master_that_stood_still_looks_at_the_clock,
    a_minority_elects_nobody,
    an_old_database_is_not_elected,
    all_that_was_granted_survives_a_kill_of_all,
    a_replica_that_comes_back_does_not_vote_at_once,
    a_lost_disk_is_filled,
    what_comes_late_takes_nothing_back,
    a_majority_without_disks_elects_nobody,
]


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_story(story: Any) -> None:
    cell = Cell()
    cell.tell(story)
    assert not cell.two_masters
