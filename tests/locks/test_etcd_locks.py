"""The etcd locks: the conformance suite on simulated and real members, and behaviour specific to etcd."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from harness.lock_impls.base import Endpoints, Indeterminate, LockClass, LockError
from harness.lock_impls.chubby_etcd import ChubbyEtcdLock
from harness.lock_impls.etcd_client import ClientLease, EtcdMembers, EtcdSession
from harness.lock_impls.etcd_mutex import EtcdMutex
from harness.lock_impls.thirdparty.sherlock_etcd import SherlockEtcd
from harness.plan import FaultSpec, Plan
from harness.run.runs import run
from tests.clusters.bench import make, on
from tests.clusters.real import servers
from tests.locks import conformance
from tests.locks.test_conformance_sim import on_a_simulated_client

CASES = conformance.cases("etcd", "chubby-etcd", "sherlock-etcd")
TTL = 2.0
Story = Callable[[Endpoints], None]


@pytest.mark.parametrize(("lock", "prop"), CASES)
def test_lock(lock: LockClass, prop: conformance.Property) -> None:
    on_a_simulated_client(lock, prop, "etcd")


@pytest.fixture(scope="module")
def real_etcd() -> Iterator[Endpoints]:
    with servers("etcd") as cluster:
        yield Endpoints("etcd", cluster.endpoints().addresses)


@pytest.mark.docker
@pytest.mark.parametrize(("lock", "prop"), CASES)
def test_lock_on_real_members(lock: LockClass, prop: conformance.Property, real_etcd: Endpoints) -> None:
    prop(lock, real_etcd)


@pytest.mark.few(1)
@pytest.mark.parametrize("lock", ["chubby-etcd", "sherlock-etcd", "etcd-mutex", "etcd-mutex-unsafe", "etcd3-lock"])
def test_rounded_lease_and_lock_delay_do_not_count_as_late(lock: str) -> None:
    """1.1 s is 2 s in effect, plus the time until the leader has checked, or the lock-delay."""
    crash = FaultSpec("client-crash", on="acquire", client=0, nth=2)
    result = run(Plan(lock=lock, ttl=1.1, hold=0.1, time_limit=10.0, faults=(crash,)))
    for checker in ("faults", "deadlock", "liveness"):
        assert result.verdicts[checker].valid is True, result.verdicts[checker].explanation


def on_simulated_client(story: Story, control: Callable[[Any], None] = lambda cluster: None) -> None:
    """Run ``story`` on a client's host, and ``control`` beside it."""
    cluster = make("etcd", clients=1)

    def main() -> None:
        address = cluster.endpoints()
        joined = cluster.spawn("c0", lambda checkpoint: story(Endpoints(address.kind, address.addresses)))
        control(cluster)
        assert joined(600)

    on(cluster, main)


def _key() -> str:
    return uuid.uuid4().hex


def _cut_all(cluster: Any) -> None:
    cluster.cut([pair for name in ("n1", "n2", "n3") for pair in (("c0", name), (name, "c0"))])


def test_lease_counts_the_granted_time_from_before_the_request() -> None:
    def story(where: Endpoints) -> None:
        for asked, granted in ((0.5, 2), (2.0, 2), (2.5, 3), (10.0, 10)):
            began = time.monotonic()
            lease = ClientLease(EtcdMembers(where), asked, began + 5)
            assert lease.ttl == granted
            assert lease.deadline == began + granted

    on_simulated_client(story)


def test_session_is_kept_alive_until_the_server_ends_it() -> None:
    def story(where: Endpoints) -> None:
        session = EtcdSession(where, TTL, time.monotonic() + 5)
        for _ in range(10):
            time.sleep(1)
            assert not session.lost()
            assert session.remaining() > TTL / 2
        EtcdMembers(where).client.revoke_lease(session.id)
        time.sleep(TTL / 3 + 0.1)
        assert session.lost()

    on_simulated_client(story)


def test_session_without_answers_is_lost_after_a_ttl() -> None:
    seen: list[float] = []

    def story(where: Endpoints) -> None:
        mine = EtcdMutex.open(where, _key(), TTL)
        mine.acquire(0)
        time.sleep(2.0)
        assert mine.still_valid()
        time.sleep(2.1)
        assert not mine.still_valid()
        with pytest.raises((LockError, Indeterminate)):
            mine.release()
        seen.append(time.monotonic())

    def control(cluster: Any) -> None:
        time.sleep(2.0)
        _cut_all(cluster)

    on_simulated_client(story, control)
    assert seen


def test_client_leaves_a_silent_member() -> None:
    def story(where: Endpoints) -> None:
        mine = EtcdMutex.open(where, _key(), TTL)
        for _ in range(12):
            assert mine.acquire(2) is not None
            time.sleep(0.3)
            mine.release()

    def control(cluster: Any) -> None:
        for name in ("n1", "n2", "n3"):
            time.sleep(0.5)
            cluster.pause(name)
            time.sleep(1.5)
            cluster.resume(name)

    on_simulated_client(story, control)


def test_acquire_without_servers_tells_whether_it_was_sent() -> None:
    seen: list[str] = []

    def story(where: Endpoints) -> None:
        mine = EtcdMutex.open(where, _key(), TTL)
        mine.acquire(0)
        mine.release()
        time.sleep(1)
        for _ in range(2):
            with pytest.raises((LockError, Indeterminate)) as error:
                mine.acquire(0)
            seen.append(error.type.__name__)

    def control(cluster: Any) -> None:
        time.sleep(0.5)
        for name in ("n1", "n2", "n3"):
            cluster.kill(name)

    on_simulated_client(story, control)
    assert seen[-1] == "LockError", "there is nobody to connect to"


def test_predecessor_deleted_before_the_watch_is_noticed() -> None:
    """The watch begins at the revision of the listing, not at the current one."""

    def story(where: Endpoints) -> None:
        key = _key()
        holder, waiter = EtcdMutex.open(where, key, TTL), EtcdMutex.open(where, key, TTL)
        holder.acquire(0)
        watch = waiter._watch

        def late(key: bytes, revision: int, seconds: float) -> None:
            holder.release()
            began = time.monotonic()
            watch(key, revision, seconds)
            assert time.monotonic() - began < 0.5, "the deletion was missed"

        waiter._watch = late  # type: ignore[method-assign]
        assert waiter.acquire(3) is not None

    on_simulated_client(story)


def test_release_and_timeout_delete_the_key() -> None:
    def story(where: Endpoints) -> None:
        key = _key()
        holder, waiter = EtcdMutex.open(where, key, TTL), EtcdMutex.open(where, key, TTL)
        holder.acquire(0)
        assert waiter.acquire(0.3) is None
        client = EtcdMembers(where).client
        assert len(client.get_prefix_response(key).kvs) == 1
        holder.release()
        assert not client.get_prefix_response(key).kvs

    on_simulated_client(story)


# The Chubby lock on etcd.


def test_lock_delay_applies_after_a_loss_but_not_after_a_release() -> None:
    def story(where: Endpoints) -> None:
        key = _key()
        first, second = (ChubbyEtcdLock.open(where, key, TTL, lock_delay=1.5) for _ in range(2))
        first.acquire(0)
        first.release()
        began = time.monotonic()
        second.acquire(0)
        assert time.monotonic() - began < 0.1
        EtcdMembers(where).client.revoke_lease(second.session.id)
        began = time.monotonic()
        assert first.acquire(0.5) is None
        assert first.acquire(3) is not None, "the wait goes on where it was"
        assert 1.5 <= time.monotonic() - began < 1.7
        first.release()

    on_simulated_client(story)


def test_still_valid_blocks_in_jeopardy_until_the_grace_period_ends() -> None:
    seen: list[tuple[bool, float]] = []

    def story(where: Endpoints) -> None:
        mine = ChubbyEtcdLock.open(where, _key(), TTL, grace=3.0)
        mine.acquire(0)
        time.sleep(4.5)
        assert mine.session.jeopardy()
        began = time.monotonic()
        seen.append((mine.still_valid(), time.monotonic() - began))

    def control(cluster: Any) -> None:
        time.sleep(2.0)
        _cut_all(cluster)

    on_simulated_client(story, control)
    ((valid, took),) = seen
    assert not valid
    assert 0 < took < 3.0


def test_sequencer_contains_the_fence() -> None:
    def story(where: Endpoints) -> None:
        mine = ChubbyEtcdLock.open(where, "job", TTL)
        assert mine.sequencer() is None
        grant = mine.acquire(0)
        assert grant is not None
        assert mine.sequencer() == ("job", "exclusive", grant.fence)
        mine.release()
        assert mine.sequencer() is None

    on_simulated_client(story)


def test_sherlock_takes_its_own_key_for_anothers_after_a_lost_answer() -> None:
    """urllib3 repeats an unanswered PUT: the second finds the key that the first has set."""
    seen: list[Any] = []

    def story(cluster: Any, where: Endpoints) -> None:
        first, second = (SherlockEtcd.open(where, "k", 3.0) for _ in range(2))
        assert first.acquire(0)
        first.release()
        cluster.trap_message("n1", "c0", b"create", None)
        seen.append(first.acquire(0))
        seen.append(second.acquire(0))
        time.sleep(4.0)
        assert second.acquire(0), "it ends with its ttl"
        second.release()

    cluster = make("etcd", clients=1)

    def main() -> None:
        address = cluster.endpoints()
        where = Endpoints(address.kind, address.addresses)
        assert cluster.spawn("c0", lambda checkpoint: story(cluster, where))(600)

    on(cluster, main)
    assert seen == [None, None], "nobody holds it, and nobody gets it"
