"""Sessions, jeopardy and fail-overs of the simulated Chubby cell, after Burrows 2006, sections 2.8 and 2.9.

Each function of :data:`BEHAVIOURS` is a test. :mod:`tests.sim.test_chubby_mutants` runs it again on cells that break
one rule."""

from __future__ import annotations

import time
from typing import Any

import pytest

from harness.clusters.abilities.network import LinkShape
from harness.lock_impls.chubby_client import ChubbyError, ChubbySession, SessionExpired
from tests.sim.chubby_cell import (
    LEASE,
    NAME,
    REPLICAS,
    Cell,
    acquire,
    deadline_in,
    is_valid,
    open_file,
    release,
    sequencer,
    stat,
)


def state(session: ChubbySession) -> str:
    return session.state


def keep_alives_are_held_back_by_the_master(cell: Cell) -> None:
    """A KeepAlive is answered when a third of the lease is left: 3 in 8 s. Meanwhile the local lease never ends."""
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


def short_failover_causes_no_jeopardy(cell: Cell) -> None:
    events: list[str] = []
    session = cell.session(on_event=events.append)
    handle = open_file(session)
    assert acquire(session, handle)
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
    """Without a master for longer than the lease, a call made in jeopardy is answered once there is a master."""
    events: list[tuple[str, float]] = []
    session = cell.session(on_event=lambda event: events.append((event, time.monotonic())))
    handle = open_file(session)
    assert acquire(session, handle)
    for name in REPLICAS:
        cell.cluster.kill(name)
    killed = time.monotonic()
    while state(session) == "safe":
        time.sleep(0.01)
    assert 1 < time.monotonic() - killed <= LEASE
    assert session.left() == 0
    results = cell.on("c0", lambda: (session.call("GetSequencer", deadline_in(20), handle=handle), time.monotonic()))
    time.sleep(3)
    assert not results, "a call was answered in jeopardy"
    for name in REPLICAS:
        cell.cluster.start(name, wiped=False)
    time.sleep(4)
    assert [event for event, _ in events] == ["jeopardy", "failover", "safe"]
    [(shown, answered)] = results
    assert shown["sequencer"] == f"1:exclusive:{NAME}"
    assert answered >= events[2][1]


def calls_wait_in_jeopardy_even_if_a_master_is_reachable(cell: Cell) -> None:
    """Only the answers to KeepAlives are lost: the master is reachable, but the client must not rely on it."""
    session = cell.session()
    handle = open_file(session)
    assert acquire(session, handle)
    for _ in range(4):
        cell.cluster.trap_message(cell.master(), "c0", b'"lease"', None)
    while state(session) == "safe":
        time.sleep(0.01)
    began = time.monotonic()
    assert sequencer(session, handle)
    assert time.monotonic() - began > 1.0
    assert state(session) == "safe"


def session_expires_after_the_grace_period(cell: Cell) -> None:
    events: list[str] = []
    session = cell.session(grace=3.0, on_event=events.append)
    handle = open_file(session)
    for name in REPLICAS:
        cell.cluster.kill(name)
    began = time.monotonic()
    with pytest.raises(SessionExpired):
        session.call("GetSequencer", deadline_in(60), handle=handle)
    assert 3.0 < time.monotonic() - began <= LEASE + 3.0 + 0.1
    assert state(session) == "expired"
    time.sleep(1)
    assert events == ["jeopardy", "expired"]


def session_survives_within_the_grace_period(cell: Cell) -> None:
    """The whole cell is paused for longer than the lease, so that it cannot end sessions meanwhile either."""
    session = cell.session()
    handle = open_file(session)
    assert acquire(session, handle)
    for name in REPLICAS:
        cell.cluster.pause(name)
    time.sleep(LEASE + 5)
    assert state(session) == "jeopardy"
    for name in REPLICAS:
        cell.cluster.resume(name)
    assert sequencer(session, handle) == f"1:exclusive:{NAME}"
    assert state(session) == "safe"


def local_lease_ends_before_the_masters_lease(cell: Cell) -> None:
    """A holder is isolated just after an answer; no other client acquires the lock while the holder believes that it is
    safe. Its requests and the answers to its KeepAlives are slow."""
    other = cell.session()
    theirs = open_file(other)
    created: list[ChubbySession] = []

    def hold() -> None:
        cell.cluster.shape([("c1", name) for name in REPLICAS], LinkShape(latency=0.05))
        cell.cluster.shape([(name, "c1") for name in REPLICAS], LinkShape(latency=0.35))
        session = cell.session()
        assert acquire(session, open_file(session))
        created.append(session)

    cell.on("c1", hold)
    time.sleep(3)
    before = created[0].left()
    while created[0].left() <= before:
        before = created[0].left()
        time.sleep(0.01)
    cell.cut(["c1"], list(REPLICAS))
    assert acquire(other, theirs, wait=20)
    assert state(created[0]) == "jeopardy"
    time.sleep(15)
    assert state(created[0]) == "expired"


def no_lease_ends_early_after_a_failover(cell: Cell) -> None:
    """The new master does not know the leases that the old one granted, so it assumes the longest possible one."""
    other = cell.session(lease=60)
    theirs = open_file(other)
    created: list[ChubbySession] = []

    def hold() -> None:
        session = cell.session()
        assert acquire(session, open_file(session))
        created.append(session)

    cell.on("c1", hold)
    time.sleep(2.9)
    assert created[0].left() > LEASE * 0.9, "a KeepAlive has just been answered"
    cell.kill_master()
    cell.cut(["c1"], list(REPLICAS))
    began = time.monotonic()
    assert acquire(other, theirs, wait=20)
    assert state(created[0]) != "safe"
    assert time.monotonic() - began > LEASE + 1


def new_master_waits_for_all_sessions(cell: Cell) -> None:
    """Calls are postponed until each session has sent a KeepAlive or ended."""
    one = cell.session()
    handle = open_file(one)
    created = cell.on("c1", cell.session)
    time.sleep(0.1)
    assert created
    time.sleep(2.8)
    cell.cluster.kill("c1")
    cell.kill_master()
    cell.master()
    began = time.monotonic()
    assert acquire(one, handle)
    assert LEASE - 0.2 < time.monotonic() - began < LEASE + 0.3
    assert state(one) == "safe"


def closed_handle_stays_closed_in_the_new_epoch(cell: Cell) -> None:
    session = cell.session()
    one, two = open_file(session), open_file(session, "/ls/cell/other")
    cell.kill_master()
    cell.master()
    assert acquire(session, one), "recreated"
    session.call("Close", deadline_in(), handle=one)
    with pytest.raises(ChubbyError, match="bad-handle"):
        acquire(session, one)
    with pytest.raises(ChubbyError, match="bad-handle"):
        acquire(session, {**two, "id": two["id"] + "0", "epoch": session.epoch})
    assert acquire(session, two)


def ephemeral_files_without_handles_are_deleted_after_a_minute(cell: Cell) -> None:
    session = cell.session()
    kept, lost = open_file(session, "/ls/kept", ephemeral=True), open_file(session, "/ls/lost", ephemeral=True)
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


def isolated_master_stops_serving(cell: Cell) -> None:
    """Its clients still reach it, but it refuses requests after its lease. Another is elected; the session goes on."""
    session = cell.session()
    handle = open_file(session)
    old = cell.master()
    heal = cell.cut([old], cell.others(old))
    began = time.monotonic()
    while cell.serving() == [old]:
        assert time.monotonic() - began < 1.1
        time.sleep(0.01)
    assert "error" in cell.raw(old, op="CreateSession", lease=None, lock_delay=None)
    new = cell.master()
    assert new != old
    assert time.monotonic() - began < 3
    assert acquire(session, handle)
    heal()
    time.sleep(3)
    assert cell.master() == new, "the old master must not depose the new one"
    assert cell.raw(old, op="EndSession", session=session.id, epoch=session.epoch)["master"] == new


def paused_master_checks_its_lease_when_resumed(cell: Cell) -> None:
    """It resumes with a KeepAlive to answer and a request when another replica is the master already."""
    session = cell.session(lease=60)
    handle = open_file(session)
    old = cell.master()
    cell.cluster.pause(old)
    results = cell.on("c1", lambda: cell.raw(old, op="CreateSession", lease=None, lock_delay=None))
    time.sleep(3)
    new = cell.master()
    cell.cluster.resume(old)
    time.sleep(0.1)
    assert [result["error"] for result in results] == ["not-master"]
    assert cell.master() == new
    assert acquire(session, handle)


def minority_elects_no_master(cell: Cell) -> None:
    old = cell.master()
    cell.cut(cell.others(old)[:2], [old, *cell.others(old)[2:]])
    for name in cell.others(old)[2:]:
        cell.cluster.kill(name)
    time.sleep(5)
    assert cell.serving() == []


def replica_with_an_old_database_is_not_elected(cell: Cell) -> None:
    """Two replicas have missed a commit, and the master dies just when they can reach the others again."""
    session = cell.session(grace=30)
    handle = open_file(session)
    old = cell.master()
    behind, informed = cell.others(old)[:2], cell.others(old)[2:]
    heal = cell.cut(behind, [old, *informed])
    time.sleep(0.1)
    assert acquire(session, handle)
    cell.cluster.kill(old)
    for name in informed:  # when they resume, the old master's lease is over and they may vote
        cell.cluster.pause(name)
    time.sleep(2)
    heal()
    for name in informed:
        cell.cluster.resume(name)
    new = cell.master(8)
    assert new in informed
    assert sequencer(session, handle) == f"1:exclusive:{NAME}"


def grants_survive_a_kill_of_all_replicas(cell: Cell) -> None:
    session = cell.session()
    handle = open_file(session)
    assert acquire(session, handle)
    shown = sequencer(session, handle)
    for name in REPLICAS:
        cell.cluster.kill(name)
    for name in REPLICAS:
        cell.cluster.start(name, wiped=False)
    began = time.monotonic()
    cell.master()
    assert time.monotonic() - began > 1.0, "no replica may vote before a master's lease is over"
    assert sequencer(session, handle) == shown


def restarted_replica_does_not_vote_at_once(cell: Cell) -> None:
    """Before it was killed, it may have answered a master, whose lease relies on that."""
    old = cell.master()
    friends = cell.others(old)[:2]
    cell.cut([old], cell.others(old)[2:])
    for name in cell.others(old)[2:]:
        cell.cluster.pause(name)
    time.sleep(2)
    assert cell.serving() == [old], "with two others it must have a majority"
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


def replica_with_a_lost_disk_is_restored(cell: Cell) -> None:
    session = cell.session()
    handle = open_file(session)
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
    assert acquire(session, handle), "the restored replica must count again"


def late_message_does_not_revert_the_database(cell: Cell) -> None:
    """An old state of the master's database arrives, as from a connection that was cut for a while."""
    session = cell.session()
    open_file(session)
    master = cell.server(cell.master()).replica
    assert master is not None
    follower = cell.others(cell.master())[0]
    time.sleep(0.1)
    seen = (master.disk.seq, dict(master.disk.rows))
    open_file(session, "/ls/cell/other")
    time.sleep(0.1)
    answer = cell.raw(follower, k="state", epoch=master.disk.epoch, seq=seen[0], rows=seen[1])
    assert answer["seq"] == master.disk.seq
    assert cell.server(follower).size() == 2


def majority_without_disks_elects_no_master(cell: Cell) -> None:
    session = cell.session()
    handle = open_file(session)
    assert acquire(session, handle)
    master = cell.master()
    for name in [master, *cell.others(master)[:2]]:
        cell.cluster.kill(name)
        cell.cluster.start(name, wiped=True)
    time.sleep(10)
    assert cell.serving() == []


BEHAVIOURS = [
    keep_alives_are_held_back_by_the_master,
    short_failover_causes_no_jeopardy,
    calls_wait_in_jeopardy,
    calls_wait_in_jeopardy_even_if_a_master_is_reachable,
    session_expires_after_the_grace_period,
    session_survives_within_the_grace_period,
    local_lease_ends_before_the_masters_lease,
    no_lease_ends_early_after_a_failover,
    new_master_waits_for_all_sessions,
    closed_handle_stays_closed_in_the_new_epoch,
    ephemeral_files_without_handles_are_deleted_after_a_minute,
    isolated_master_stops_serving,
    paused_master_checks_its_lease_when_resumed,
    minority_elects_no_master,
    replica_with_an_old_database_is_not_elected,
    grants_survive_a_kill_of_all_replicas,
    restarted_replica_does_not_vote_at_once,
    replica_with_a_lost_disk_is_restored,
    late_message_does_not_revert_the_database,
    majority_without_disks_elects_no_master,
]


@pytest.mark.parametrize("behaviour", BEHAVIOURS, ids=lambda behaviour: behaviour.__name__)
def test_behaviour(behaviour: Any) -> None:
    cell = Cell()
    cell.run(behaviour)
    assert not cell.two_masters
