"""The simulated Chubby cell's files, locks and sequencers, after Burrows 2006, sections 2.3 and 2.4.

Each function of :data:`BEHAVIOURS` is a test. :mod:`tests.sim.test_chubby_mutants` runs it again on cells that break
one rule."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import pytest

from harness.lock_impls.chubby_client import ChubbyError, ChubbySession
from harness.plan import Plan
from harness.run.runs import run
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


def any_replica_names_the_master(cell: Cell) -> None:
    master = cell.master()
    for name in cell.others(master):
        assert cell.raw(name, op="CreateSession", lease=None, lock_delay=None) == {
            "n": 1,
            "error": "not-master",
            "master": master,
        }
    assert "ok" in cell.raw(master, op="CreateSession", lease=None, lock_delay=None)


def exclusive_lock_has_one_holder(cell: Cell) -> None:
    one, two = cell.session(), cell.session()
    mine, theirs = open_file(one), open_file(two)
    assert acquire(one, mine)
    assert not acquire(two, theirs)
    assert not two.call("TryAcquire", deadline_in(), handle=theirs, mode="shared")["held"]
    assert not acquire(one, mine), "a handle must not acquire its lock twice"
    with pytest.raises(ChubbyError, match="not-held"):
        release(two, theirs)
    release(one, mine)
    assert acquire(two, theirs)


def sequencers_grow_and_expire_with_the_hold(cell: Cell) -> None:
    session = cell.session()
    handle = open_file(session)
    shown = []
    for _ in range(3):
        assert acquire(session, handle)
        shown.append(sequencer(session, handle))
        assert is_valid(session, shown[-1])
        release(session, handle)
        assert not is_valid(session, shown[-1])
    assert shown == [f"{number}:exclusive:{NAME}" for number in (1, 2, 3)]
    with pytest.raises(ChubbyError, match="not-held"):
        sequencer(session, handle)
    assert acquire(session, handle)
    assert not is_valid(session, shown[-1]), "another generation"
    assert not is_valid(session, f"4:shared:{NAME}"), "another mode"
    assert not is_valid(session, "4:exclusive:/ls/cell/other"), "another file"


def shared_holders_have_one_generation(cell: Cell) -> None:
    one, two, three = cell.session(), cell.session(), cell.session()
    handles = [open_file(session) for session in (one, two, three)]
    assert acquire(one, handles[0], mode="shared")
    assert acquire(two, handles[1], mode="shared")
    assert sequencer(one, handles[0]) == sequencer(two, handles[1]) == f"1:shared:{NAME}"
    assert not acquire(three, handles[2])
    release(one, handles[0])
    assert not acquire(three, handles[2]), "one of two still holds it"
    release(two, handles[1])
    assert acquire(three, handles[2])
    assert sequencer(three, handles[2]) == f"2:exclusive:{NAME}"


def waiters_acquire_in_order_of_request(cell: Cell) -> None:
    holder = cell.session()
    mine = open_file(holder)
    assert acquire(holder, mine)
    order: list[str] = []

    def wait(name: str) -> None:
        session = cell.session()
        handle = open_file(session)
        assert acquire(session, handle, wait=20)
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


def acquire_waits_for_its_time_limit(cell: Cell) -> None:
    one, two = cell.session(), cell.session()
    mine, theirs = open_file(one), open_file(two)
    assert acquire(one, mine)
    began = time.monotonic()
    assert not acquire(two, theirs, wait=1.5)
    assert 1.5 <= time.monotonic() - began < 1.6


def session_of_dead_client(cell: Cell) -> ChubbySession:
    """A session on c1 that has acquired the lock and whose client has died."""
    created: list[Any] = cell.on("c1", lambda: _holder(cell))
    while not created:
        time.sleep(0.01)
    cell.cluster.kill("c1")
    session: ChubbySession = created[0]
    return session


def _holder(cell: Cell) -> ChubbySession:
    session = cell.session()
    assert acquire(session, open_file(session))
    return session


def lock_of_failed_holder_is_free_after_lock_delay(cell: Cell) -> None:
    """With a lease of 4 s and a lock-delay of 1 s it is free after 5 s, plus a margin for the drift of clocks."""
    two = cell.session()
    theirs = open_file(two)
    session_of_dead_client(cell)
    began = time.monotonic()
    assert acquire(two, theirs, wait=10)
    waited = time.monotonic() - began
    assert LEASE + 1.0 - 0.1 < waited < LEASE + 1.0 + 0.1, waited


def lock_delay_restarts_under_a_new_master(cell: Cell) -> None:
    two = cell.session(lease=60)
    theirs = open_file(two)
    session_of_dead_client(cell)
    time.sleep(LEASE + 0.3)
    assert stat(two, theirs)["mode"] == "free"
    cell.kill_master()
    cell.master()
    began = time.monotonic()
    assert acquire(two, theirs, wait=10)
    assert time.monotonic() - began > 0.9


def released_lock_is_available_at_once(cell: Cell) -> None:
    one, two = cell.session(), cell.session()
    mine, theirs = open_file(one), open_file(two)
    assert acquire(one, mine)
    release(one, mine)
    assert acquire(two, theirs)
    two.close()
    assert acquire(one, mine), "a session that its client has closed must leave no lock-delay"


def repeated_request_is_executed_once(cell: Cell) -> None:
    session, other = cell.session(), cell.session()
    handle = open_file(session)
    number = session._number + 1
    about = {"n": number, "session": session.id, "epoch": session.epoch, "handle": handle}
    again = [cell.raw(cell.master(), op="TryAcquire", mode="exclusive", **about) for _ in range(2)]
    assert again == [{"n": number, "ok": {"held": True}}] * 2
    release_ = {**about, "n": number + 1}
    assert [cell.raw(cell.master(), op="Release", **release_)["ok"] for _ in range(2)] == [{}, {}]
    late = cell.raw(cell.master(), op="TryAcquire", mode="exclusive", **about)
    assert late["error"] == "old-request", "a late request must not acquire the lock"
    assert acquire(other, open_file(other))


def malformed_requests_are_refused(cell: Cell) -> None:
    session = cell.session()
    handle = open_file(session)
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
        acquire(stranger, handle)
    session.call("Close", deadline_in(), handle=handle)
    with pytest.raises(ChubbyError, match="bad-handle"):
        acquire(session, handle)
    with pytest.raises(ChubbyError, match="not-found"):
        session.open("/ls/cell/nothing", deadline_in(), create=False)


def closing_a_handle_releases_its_lock(cell: Cell) -> None:
    one, two = cell.session(), cell.session()
    mine, theirs = open_file(one), open_file(two)
    assert acquire(one, mine)
    one.call("Close", deadline_in(), handle=mine)
    assert acquire(two, theirs)


def recreated_file_continues_its_numbers(cell: Cell) -> None:
    session = cell.session()
    handle = open_file(session)
    assert acquire(session, handle)
    before = sequencer(session, handle)
    session.call("Delete", deadline_in(), handle=handle)
    for op in ("GetContentsAndStat", "Release"):
        with pytest.raises(ChubbyError, match="not-found"):
            session.call(op, deadline_in(), handle=handle)
    fresh = open_file(session)
    assert stat(session, fresh)["instance"] == 2
    assert acquire(session, fresh)
    assert not is_valid(session, before)
    assert sequencer(session, fresh) == f"2:exclusive:{NAME}"


def ephemeral_file_is_deleted_with_its_last_handle(cell: Cell) -> None:
    one, two = cell.session(), cell.session()
    open_file(one, ephemeral=True, contents="here")
    theirs = open_file(two)
    assert two.call("GetContentsAndStat", deadline_in(), handle=theirs)["contents"] == "here"
    one.close()
    assert stat(two, theirs)["ephemeral"]
    two.call("Close", deadline_in(), handle=theirs)
    three = cell.session()
    with pytest.raises(ChubbyError, match="not-found"):
        three.open(NAME, deadline_in(), create=False)


BEHAVIOURS = [
    any_replica_names_the_master,
    exclusive_lock_has_one_holder,
    sequencers_grow_and_expire_with_the_hold,
    shared_holders_have_one_generation,
    waiters_acquire_in_order_of_request,
    acquire_waits_for_its_time_limit,
    lock_of_failed_holder_is_free_after_lock_delay,
    lock_delay_restarts_under_a_new_master,
    released_lock_is_available_at_once,
    repeated_request_is_executed_once,
    malformed_requests_are_refused,
    closing_a_handle_releases_its_lock,
    recreated_file_continues_its_numbers,
    ephemeral_file_is_deleted_with_its_last_handle,
]


@pytest.mark.parametrize("behaviour", BEHAVIOURS, ids=lambda behaviour: behaviour.__name__)
def test_behaviour(behaviour: Any) -> None:
    cell = Cell()
    cell.run(behaviour)
    assert not cell.two_masters


def test_options_of_the_cell_override_those_of_the_client() -> None:
    def terms(cell: Cell) -> Any:
        found = cell.session(lease=2.0, lock_delay=0.5).terms
        return (found.lease, found.grace, found.lock_delay)

    assert Cell(lease=6.0, grace=7.0, lock_delay=8.0).run(terms) == (6.0, 7.0, 8.0)
    assert Cell(lease=None, grace=None, lock_delay=None).run(terms) == (2.0, 7.5, 0.5)


def test_default_terms_of_a_session_are_those_of_the_paper() -> None:
    def terms(cell: Cell) -> Any:
        found = cell.session().terms
        return (found.lease, found.grace, found.lock_delay)

    assert Cell(lease=None, grace=None, lock_delay=None).run(terms) == (12.0, 45.0, 60.0)


@pytest.mark.parametrize("nodes", [1, 3])
def test_smaller_cells_work(nodes: int) -> None:
    assert run(Plan(lock="chubby", nodes=nodes, time_limit=5.0)).valid is True


def test_same_seed_gives_the_same_server_logs() -> None:
    def server_logs(seed: int) -> list[Any]:
        cell = Cell(seed)
        cell.run(waiters_acquire_in_order_of_request)
        return [cell.cluster._machines[name].host.lines for name in REPLICAS]

    assert server_logs(3) == server_logs(3)
    assert server_logs(3) != server_logs(4)
