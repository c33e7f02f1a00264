"""The ZooKeeper locks: the conformance suite on simulated and real ensembles, and holds whose session ends or whose
connection is lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kazoo.exceptions import ConnectionLoss
from kazoo.protocol.states import KazooState

from harness.clusters.abilities import leader_of
from harness.clusters.base import names
from harness.lock_impls import catalogue
from harness.lock_impls.base import Endpoints, Indeterminate, LockClass, LockError
from harness.lock_impls.chubby_zookeeper import ChubbyZooKeeperLock
from harness.lock_impls.zookeeper_client import ZooKeeperSession
from harness.lock_impls.zookeeper_sequential import SequentialLock, number_of
from tests.locks import conformance
from tests.locks.test_conformance_sim import on_a_simulated_client
from tests.locks.zookeeper_bench import TTL_S, RunStory, end_session, on_simulated_client, open_locks, real_servers

NAMES = ("zookeeper-ephemeral", "zookeeper-herd", "zookeeper-sequential", "chubby-zookeeper")
RECIPES = ("kazoo-lock", "kazoo-read-write-lock", "kazoo-semaphore")
KAZOO = catalogue.find("kazoo-lock")
READ_WRITE = catalogue.find("kazoo-read-write-lock")
SEMAPHORE = catalogue.find("kazoo-semaphore")
OWN = [catalogue.find(name) for name in NAMES]
CASES = conformance.cases(*NAMES, *RECIPES, "aiozk-lock")


@pytest.fixture(scope="module")
def real() -> Iterator[Endpoints]:
    with real_servers() as where:
        yield where


@pytest.fixture(params=["sim", pytest.param("docker", marks=pytest.mark.docker)])
def run_story(request: pytest.FixtureRequest) -> RunStory:
    """Run a story on a simulated client, or here against real servers."""
    if request.param == "sim":
        return on_simulated_client
    where: Endpoints = request.getfixturevalue("real")
    return lambda story: story(where)


@pytest.mark.few(40)
@pytest.mark.parametrize(("lock", "prop"), CASES)
def test_lock(lock: LockClass, prop: conformance.Property) -> None:
    on_a_simulated_client(lock, prop, "zookeeper")


@pytest.mark.docker
@pytest.mark.parametrize(("lock", "prop"), CASES)
def test_lock_on_real_servers(lock: LockClass, prop: conformance.Property, real: Endpoints) -> None:
    prop(lock, real)


@pytest.mark.parametrize("lock", OWN, ids=lambda lock: lock.info.name)
def test_end_of_session_loses_the_lock_and_notifies_the_holder(lock: LockClass, run_story: RunStory) -> None:
    def story(where: Endpoints) -> None:
        late, other = open_locks(lock, where)
        first = late.acquire(0)
        assert late.still_valid()
        assert other.acquire(0) is None
        end_session(late.session, where)
        assert not late.still_valid()
        second = other.acquire(TTL_S)
        assert second.fence > first.fence
        with pytest.raises(LockError):
            late.release()
        assert other.still_valid(), "a late release ended somebody else's hold"
        assert late.acquire(0) is None
        other.release()
        assert late.acquire(TTL_S).fence > second.fence

    run_story(story)


@pytest.mark.parametrize("name", RECIPES)
def test_kazoo_reports_a_lock_as_held_after_its_session(run_story: RunStory, name: str) -> None:
    """zk-stale-flag: kazoo's state alone does not show the loss."""

    def story(where: Endpoints) -> None:
        late, other = open_locks(catalogue.find(name), where)
        believer, third = open_locks(SequentialLock, where, check="session")
        for lock, then in ((late, other), (believer, third)):
            lock.acquire(0)
            end_session(lock.session, where)
            assert then.acquire(TTL_S) is not None
            assert lock.session.client.state == KazooState.CONNECTED
            assert lock.still_valid(), "it is not, and says so all the same"
            assert then.still_valid()
        late.release()  # returns True for a node that is gone
        with pytest.raises(LockError):
            believer.release()

    run_story(story)


def test_kazoo_cannot_reacquire_a_lock_that_it_believes_to_hold(run_story: RunStory) -> None:
    """zk-stale-flag, second part: nobody holds the lock, and acquire loops until its time is up."""

    def story(where: Endpoints) -> None:
        (lock,) = open_locks(KAZOO, where, 1)
        lock.acquire(0)
        end_session(lock.session, where)
        assert lock.acquire(1.0) is None
        lock.release()
        assert lock.acquire(1.0) is not None

    run_story(story)


def test_kazoo_readers_share_and_writers_exclude(run_story: RunStory) -> None:
    def story(where: Endpoints) -> None:
        one, two, writer = open_locks(READ_WRITE, where, 3)
        first, second = one.acquire_shared(0), two.acquire_shared(0)
        assert first.fence < second.fence
        assert writer.acquire(0) is None
        one.release()
        assert writer.acquire(0) is None, "the first reader's release let the writer in beside the second"
        assert two.still_valid()
        two.release()
        assert writer.acquire(TTL_S).fence > second.fence
        assert one.acquire_shared(0) is None
        assert one.acquire(0) is None
        writer.release()
        with pytest.raises(LockError):
            two.release()

    run_story(story)


def test_reader_does_not_overtake_a_waiting_writer(run_story: RunStory) -> None:
    def story(where: Endpoints) -> None:
        reader, writer, late = open_locks(READ_WRITE, where, 3)
        reader.acquire_shared(0)
        waiting = threading.Thread(target=writer.acquire, args=(3 * TTL_S,))
        waiting.start()
        time.sleep(0.3)
        assert late.acquire_shared(0) is None
        reader.release()
        waiting.join()
        writer.release()
        assert late.acquire_shared(TTL_S) is not None

    run_story(story)


def test_timeout_of_kazoo_writer_restarts_for_each_reader(run_story: RunStory) -> None:
    """kz-timeout-anew: "timeout: don't wait forever"; three readers leave one after the other, the youngest first."""

    def story(where: Endpoints) -> None:
        writer, *readers = open_locks(READ_WRITE, where, 4)
        for reader in readers:
            reader.acquire_shared(0)
        leaving = [threading.Timer(0.6 * (n + 1), reader.release) for n, reader in enumerate(reversed(readers))]
        began = time.monotonic()
        for timer in leaving:
            timer.start()
        assert writer.acquire(1.0) is not None
        assert time.monotonic() - began > 1.7, "it was to wait for a second at most"

    run_story(story)


def test_kazoo_semaphore_grants_its_holder_a_second_time(run_story: RunStory) -> None:
    """kz-semaphore-twice: it is "not meant to be re-entrant", but grants again; the first release frees it."""

    def story(where: Endpoints) -> None:
        mine, other = open_locks(SEMAPHORE, where)
        assert mine.acquire(0).fence == mine.acquire(0).fence
        mine.release()
        assert other.acquire(TTL_S) is not None, "not re-entrant either"
        with pytest.raises(LockError):
            mine.release()

    run_story(story)


@pytest.mark.parametrize("name", RECIPES)
def test_kazoo_lock_is_released_if_its_fence_cannot_be_read(name: str) -> None:
    def story(where: Endpoints) -> None:
        mine, other = open_locks(catalogue.find(name), where)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(mine.session, "again", no_answer)
            with pytest.raises(Indeterminate):
                mine.acquire(0)
        assert other.acquire(0) is None
        assert mine.acquire(TTL_S) is not None
        mine.release()
        assert other.acquire(TTL_S) is not None

    on_simulated_client(story)


def test_sequence_number_is_a_fence_while_its_parent_exists(run_story: RunStory) -> None:
    def story(where: Endpoints) -> None:
        first, second = open_locks(SequentialLock, where, fence="sequence")
        fences = []
        for lock in (first, second, first):
            fences.append(lock.acquire(0).fence)
            lock.release()
        assert fences == [0, 1, 2]

    run_story(story)


def test_sequence_numbers_wrap_around() -> None:
    lock = SequentialLock(ZooKeeperSession(Endpoints("zookeeper", (("nowhere", 1),)), TTL_S), "k", TTL_S)
    queue = [f"{letter}-lock-{number}" for letter, number in
             (("z", "2147483646"), ("y", "2147483647"), ("a", "-2147483648"), ("b", "-2147483647"))]  # fmt: skip
    assert [number_of(name) for name in queue] == [2147483646, 2147483647, -2147483648, -2147483647]
    for own in queue:
        assert lock.in_order(sorted(queue), own) == queue


def test_lock_delay_applies_after_a_loss_but_not_after_a_release(
    run_story: RunStory,
) -> None:
    def story(where: Endpoints) -> None:
        lost, other = open_locks(ChubbyZooKeeperLock, where, lock_delay=1.0)
        lost.acquire(0)
        began = time.monotonic()
        lost.release()
        other.acquire(TTL_S)
        assert time.monotonic() - began < 0.9
        other.release()
        lost.acquire(0)
        end_session(lost.session, where)
        assert other.acquire(0) is None
        began = time.monotonic()
        assert other.acquire(0.5) is None
        assert other.acquire(TTL_S) is not None
        assert 0.9 < time.monotonic() - began < 1.9

    run_story(story)


def test_sequencer_has_name_mode_and_growing_generation(run_story: RunStory) -> None:
    def story(where: Endpoints) -> None:
        first, second = open_locks(ChubbyZooKeeperLock, where)
        shown = []
        for lock in (first, second):
            assert lock.acquire(TTL_S).fence == lock.sequencer.generation
            shown.append((lock.sequencer.name == lock.path, lock.sequencer.mode, lock.sequencer.generation))
            lock.release()
        assert shown[0][:2] == shown[1][:2] == (True, "exclusive")
        assert shown[0][2] < shown[1][2]

    run_story(story)


def cut_for(seconds: float) -> Callable[[Any], None]:
    """Cut the client off from all servers, half a second after the start."""

    def damage(cluster: Any) -> None:
        links = [pair for name in names(cluster.hosts, "server") for pair in (("c0", name), (name, "c0"))]
        time.sleep(0.5)
        cluster.cut(links)
        time.sleep(seconds)
        cluster.heal(links)

    return damage


@pytest.mark.parametrize(("outage", "kept"), [(0.5, True), (6.0, False)])
def test_still_valid_of_chubby_blocks_in_jeopardy(outage: float, kept: bool) -> None:
    """The session is continued, or has ended: still_valid returns only once that is known."""

    def story(where: Endpoints) -> None:
        (lock,) = open_locks(ChubbyZooKeeperLock, where, 1, grace=20.0)
        lock.acquire(0)
        time.sleep(0.6)
        began = time.monotonic()
        assert lock.still_valid() is kept
        assert time.monotonic() - began > outage - 0.3

    on_simulated_client(story, cut_for(outage))


def test_chubby_lock_is_lost_after_the_grace_period() -> None:
    def story(where: Endpoints) -> None:
        (lock,) = open_locks(ChubbyZooKeeperLock, where, 1, grace=1.0)
        lock.acquire(0)
        time.sleep(0.6)
        began = time.monotonic()
        assert not lock.still_valid()
        assert time.monotonic() - began < 1.0 + 2 * TTL_S
        time.sleep(20)
        assert not lock.still_valid()

    on_simulated_client(story, cut_for(15.0))


@pytest.mark.parametrize("lock", OWN, ids=lambda lock: lock.info.name)
def test_partitioned_acquire_is_unknown_and_cleaned_up_later(lock: LockClass) -> None:
    """Its try may have reached the servers; what is left of it must not block any client."""

    def story(where: Endpoints) -> None:
        began = time.monotonic()
        mine, other = open_locks(lock, where)
        mine.acquire(0)
        mine.release()
        time.sleep(0.45)
        with pytest.raises((Indeterminate, LockError)):
            until_it_fails(mine)
        assert time.monotonic() - began < 0.5 + 1.0 + 4 * TTL_S
        time.sleep(12)
        assert mine.acquire(TTL_S) is not None
        mine.release()
        assert other.acquire(TTL_S) is not None

    on_simulated_client(story, cut_for(10.0))


def until_it_fails(lock: Any) -> None:
    while True:
        if lock.acquire(1.0) is not None:
            lock.release()


def no_answer(*args: Any, **options: Any) -> Any:
    raise ConnectionLoss


@pytest.mark.parametrize("lock", OWN, ids=lambda lock: lock.info.name)
def test_next_acquire_completes_a_failed_release(lock: LockClass) -> None:
    def story(where: Endpoints) -> None:
        mine, other = open_locks(lock, where)
        mine.acquire(0)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(mine.session, "ask", no_answer)
            patch.setattr(mine, "_leave", no_answer, raising=False)
            with pytest.raises(Indeterminate):
                mine.release()
        assert other.acquire(0) is None
        assert mine.acquire(TTL_S) is not None
        mine.release()
        assert other.acquire(TTL_S) is not None

    on_simulated_client(story)


@pytest.mark.parametrize("lock", OWN, ids=lambda lock: lock.info.name)
def test_connection_lost_during_recovery_is_unknown(lock: LockClass) -> None:
    """The node exists but its session is unknown: that does not make it another client's."""

    def story(where: Endpoints) -> None:
        mine, other = open_locks(lock, where)
        mine.acquire(0)
        mine.release()
        answers = iter([True, True, False] if lock is ChubbyZooKeeperLock else [False])
        patiently = mine.session.patiently

        def loses_one(result: Any) -> Any:
            answer = patiently(result)
            return answer if next(answers, True) else no_answer()

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(mine.session, "patiently", loses_one)
            patch.setattr(ZooKeeperSession, "id", None)
            with pytest.raises(Indeterminate):
                mine.acquire(0.3)
        assert other.acquire(0) is None
        assert mine.acquire(TTL_S) is not None
        mine.release()
        assert other.acquire(TTL_S) is not None

    on_simulated_client(story)


def test_partitioned_server_confirms_a_lost_lock_for_a_while() -> None:
    """It answers from its own data until it gives up the leader, 4 ticks later. A session of 2 ticks is over by
    then, and another client has the lock."""
    alone: list[str] = []
    cut = threading.Event()

    def damage(cluster: Any) -> None:
        servers = names(cluster.hosts, "server")
        alone.append(next(name for name in servers if name != leader_of(cluster)))
        time.sleep(1.0)
        cluster.cut([pair for name in servers for pair in ((alone[0], name), (name, alone[0])) if name != alone[0]])
        cut.set()

    def story(where: Endpoints) -> None:
        time.sleep(0.2)
        port = where.addresses[0][1]
        others = tuple(at for at in where.addresses if at[0] != alone[0])
        mine: Any = SequentialLock.open(Endpoints("zookeeper", ((alone[0], port),)), "k", 1.0)
        other: Any = SequentialLock.open(Endpoints("zookeeper", others), "k", 1.0)
        first: Any = mine.acquire(1.0)
        assert first is not None
        cut.wait()
        second: Any = other.acquire(1.9)
        assert second is not None
        assert mine.still_valid(), "this server has heard nothing yet"
        assert other.still_valid()
        assert first.fence < second.fence, "the resource knows better"
        time.sleep(2.0)
        assert not mine.still_valid()

    on_simulated_client(story, damage)


def test_acquire_without_servers_is_refused() -> None:
    def story(where: Endpoints) -> None:
        (lock,) = open_locks(SequentialLock, where, 1)
        began = time.monotonic()
        with pytest.raises(LockError, match="no ZooKeeper server answers"):
            lock.acquire(0)
        assert time.monotonic() - began <= TTL_S + 0.1

    def damage(cluster: Any) -> None:
        for name in names(cluster.hosts, "server"):
            cluster.kill(name)

    def wait_first(where: Endpoints) -> None:
        time.sleep(0.5)
        story(where)

    on_simulated_client(wait_first, damage)
