"""The simulated Chubby cell's files, locks and sequencers, after Burrows 2006, sections 2.3 and 2.4.

Each test tells a story; :mod:`tests.sim.test_chubby_mutants` tells it again to cells that break one rule."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import pytest

from harness.plan import Plan
from harness.runs import run
from lock_impls.chubby_client import ChubbyError, Session
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


def any_replica_names_the_master(cell: Cell) -> None:
    master = cell.master()
    for name in cell.others(master):
        assert cell.raw(name, op="CreateSession", lease=None, lock_delay=None) == {
            "n": 1,
            "error": "not-master",
            "master": master,
        }
    assert "ok" in cell.raw(master, op="CreateSession", lease=None, lock_delay=None)


def one_holder_of_an_exclusive_lock(cell: Cell) -> None:
    one, two = cell.session(), cell.session()
    mine, theirs = opened(one), opened(two)
    assert acquired(one, mine)
    assert not acquired(two, theirs)
    assert not two.call("TryAcquire", soon(), handle=theirs, mode="shared")["held"]
    assert not acquired(one, mine), "a handle does not get its lock twice"
    with pytest.raises(ChubbyError, match="not-held"):
        release(two, theirs)
    release(one, mine)
    assert acquired(two, theirs)


def sequencers_grow_and_end_with_the_hold(cell: Cell) -> None:
    session = cell.session()
    handle = opened(session)
    shown = []
    for _ in range(3):
        assert acquired(session, handle)
        shown.append(sequencer(session, handle))
        assert is_valid(session, shown[-1])
        release(session, handle)
        assert not is_valid(session, shown[-1])
    assert shown == [f"{number}:exclusive:{NAME}" for number in (1, 2, 3)]
    with pytest.raises(ChubbyError, match="not-held"):
        sequencer(session, handle)
    assert acquired(session, handle)
    assert not is_valid(session, shown[-1]), "another generation"
    assert not is_valid(session, f"4:shared:{NAME}"), "another mode"
    assert not is_valid(session, "4:exclusive:/ls/cell/other"), "another file"


def sharers_have_one_generation(cell: Cell) -> None:
    one, two, three = cell.session(), cell.session(), cell.session()
    handles = [opened(session) for session in (one, two, three)]
    assert acquired(one, handles[0], mode="shared")
    assert acquired(two, handles[1], mode="shared")
    assert sequencer(one, handles[0]) == sequencer(two, handles[1]) == f"1:shared:{NAME}"
    assert not acquired(three, handles[2])
    release(one, handles[0])
    assert not acquired(three, handles[2]), "one of two still has it"
    release(two, handles[1])
    assert acquired(three, handles[2])
    assert sequencer(three, handles[2]) == f"2:exclusive:{NAME}"


def waiters_get_it_in_their_order(cell: Cell) -> None:
    holder = cell.session()
    mine = opened(holder)
    assert acquired(holder, mine)
    order: list[str] = []

    def wait(name: str) -> None:
        session = cell.session()
        handle = opened(session)
        assert acquired(session, handle, wait=20)
        order.append(name)
        time.sleep(0.5)
        release(session, handle)

    results = []
    for name in "abc":
        results.append(cell.on("c1", partial(wait, name)))
        time.sleep(0.2)
    time.sleep(1)
    assert order == []
    release(holder, mine)
    time.sleep(2.5)
    assert order == ["a", "b", "c"]
    assert all(results)


def an_acquire_waits_as_long_as_it_says(cell: Cell) -> None:
    one, two = cell.session(), cell.session()
    mine, theirs = opened(one), opened(two)
    assert acquired(one, mine)
    began = time.monotonic()
    assert not acquired(two, theirs, wait=1.5)
    assert 1.5 <= time.monotonic() - began < 1.6


def died(cell: Cell) -> Session:
    """A session on c1 that has acquired the lock and whose client has died."""
    made: list[Any] = cell.on("c1", lambda: _holder(cell))
    while not made:
        time.sleep(0.01)
    cell.cluster.kill("c1")
    session: Session = made[0]
    return session


def _holder(cell: Cell) -> Session:
    session = cell.session()
    assert acquired(session, opened(session))
    return session


def a_failed_holders_lock_waits_for_the_lock_delay(cell: Cell) -> None:
    """Lease 4 s, lock-delay 1 s: free after 5 s, and a little for the drift of clocks."""
    two = cell.session()
    theirs = opened(two)
    died(cell)
    began = time.monotonic()
    assert acquired(two, theirs, wait=10)
    waited = time.monotonic() - began
    assert LEASE + 1.0 - 0.1 < waited < LEASE + 1.0 + 0.1, waited


def a_delay_left_behind_begins_anew_under_a_new_master(cell: Cell) -> None:
    two = cell.session(lease=60)
    theirs = opened(two)
    died(cell)
    time.sleep(LEASE + 0.3)
    assert stat(two, theirs)["mode"] == "free"
    cell.kill_master()
    cell.master()
    began = time.monotonic()
    assert acquired(two, theirs, wait=10)
    assert time.monotonic() - began > 0.9


def a_released_lock_can_be_had_at_once(cell: Cell) -> None:
    one, two = cell.session(), cell.session()
    mine, theirs = opened(one), opened(two)
    assert acquired(one, mine)
    release(one, mine)
    assert acquired(two, theirs)
    two.close()
    assert acquired(one, mine), "the end of a session that its client wanted is no failure"


def a_request_is_executed_once(cell: Cell) -> None:
    session, other = cell.session(), cell.session()
    handle = opened(session)
    number = session._number + 1
    about = {"n": number, "session": session.id, "epoch": session.epoch, "handle": handle}
    again = [cell.raw(cell.master(), op="TryAcquire", mode="exclusive", **about) for _ in range(2)]
    assert again == [{"n": number, "ok": {"held": True}}] * 2
    release_ = {**about, "n": number + 1}
    assert [cell.raw(cell.master(), op="Release", **release_)["ok"] for _ in range(2)] == [{}, {}]
    late = cell.raw(cell.master(), op="TryAcquire", mode="exclusive", **about)
    assert late["error"] == "old-request", "a request that came late must not take the lock"
    assert acquired(other, opened(other))


def nonsense_is_refused(cell: Cell) -> None:
    session = cell.session()
    handle = opened(session)
    about = {"session": session.id, "epoch": session.epoch, "n": 99}
    master = cell.master()
    for wrong in (
        {"op": "Fly"},
        {"op": "Acquire", "handle": handle, "mode": "both", "wait": 0},
        {"op": "Acquire", "handle": {"id": "x"}, "mode": "shared", "wait": 0},
        {"op": "KeepAlive", "left": "long"},
        {"op": "CreateSession", "lease": "long", "lock_delay": None},
        {"op": "Release"},
    ):
        assert cell.raw(master, **about, **wrong)["error"] == "bad-request", wrong
    stranger = cell.session()
    with pytest.raises(ChubbyError, match="bad-handle"):
        acquired(stranger, handle)
    session.call("Close", soon(), handle=handle)
    with pytest.raises(ChubbyError, match="bad-handle"):
        acquired(session, handle)
    with pytest.raises(ChubbyError, match="not-found"):
        session.open("/ls/cell/nothing", soon(), create=False)


def a_closed_handle_gives_its_lock_back(cell: Cell) -> None:
    one, two = cell.session(), cell.session()
    mine, theirs = opened(one), opened(two)
    assert acquired(one, mine)
    one.call("Close", soon(), handle=mine)
    assert acquired(two, theirs)


def a_deleted_file_does_not_begin_again(cell: Cell) -> None:
    session = cell.session()
    handle = opened(session)
    assert acquired(session, handle)
    before = sequencer(session, handle)
    session.call("Delete", soon(), handle=handle)
    for op in ("GetContentsAndStat", "Release"):
        with pytest.raises(ChubbyError, match="not-found"):
            session.call(op, soon(), handle=handle)
    fresh = opened(session)
    assert stat(session, fresh)["instance"] == 2
    assert acquired(session, fresh)
    assert not is_valid(session, before)
    assert sequencer(session, fresh) == f"2:exclusive:{NAME}"


def an_ephemeral_file_goes_with_its_last_handle(cell: Cell) -> None:
    one, two = cell.session(), cell.session()
    opened(one, ephemeral=True, contents="here")
    theirs = opened(two)
    assert two.call("GetContentsAndStat", soon(), handle=theirs)["contents"] == "here"
    one.close()
    assert stat(two, theirs)["ephemeral"]
    two.call("Close", soon(), handle=theirs)
    three = cell.session()
    with pytest.raises(ChubbyError, match="not-found"):
        three.open(NAME, soon(), create=False)


STORIES = [
    any_replica_names_the_master,
    one_holder_of_an_exclusive_lock,
    sequencers_grow_and_end_with_the_hold,
    sharers_have_one_generation,
    waiters_get_it_in_their_order,
    an_acquire_waits_as_long_as_it_says,
    a_failed_holders_lock_waits_for_the_lock_delay,
    a_delay_left_behind_begins_anew_under_a_new_master,
    a_released_lock_can_be_had_at_once,
    a_request_is_executed_once,
    nonsense_is_refused,
    a_closed_handle_gives_its_lock_back,
    a_deleted_file_does_not_begin_again,
    an_ephemeral_file_goes_with_its_last_handle,
]


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_story(story: Any) -> None:
    cell = Cell()
    cell.tell(story)
    assert not cell.two_masters


def test_the_cells_options_overrule_what_is_asked_for() -> None:
    def terms(cell: Cell) -> Any:
        found = cell.session(lease=2.0, lock_delay=0.5).terms
        return (found.lease, found.grace, found.lock_delay)

    assert Cell(lease=6.0, grace=7.0, lock_delay=8.0).tell(terms) == (6.0, 7.0, 8.0)
    assert Cell(lease=None, grace=None, lock_delay=None).tell(terms) == (2.0, 7.5, 0.5)


def test_without_a_wish_a_session_has_the_papers_terms() -> None:
    def terms(cell: Cell) -> Any:
        found = cell.session().terms
        return (found.lease, found.grace, found.lock_delay)

    assert Cell(lease=None, grace=None, lock_delay=None).tell(terms) == (12.0, 45.0, 60.0)


@pytest.mark.parametrize("nodes", [1, 3])
def test_a_cell_may_be_smaller(nodes: int) -> None:
    assert run(Plan(lock="chubby", nodes=nodes, time_limit=5.0)).valid is True


def test_the_same_seed_tells_the_same_story() -> None:
    def told(seed: int) -> list[Any]:
        cell = Cell(seed)
        cell.tell(waiters_get_it_in_their_order)
        return [cell.cluster._machines[name].host.lines for name in REPLICAS]

    assert told(3) == told(3)
    assert told(3) != told(4)
