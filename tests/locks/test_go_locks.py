"""Locks in Go: the conformance suite on real servers, and the program's answers when servers do not answer."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
import redis

from harness.clusters.docker.cluster import DockerCluster
from harness.clusters.docker.images import golang
from harness.clusters.docker.images.contexts import context_folder
from harness.fidelity.processes import LOOPBACK
from harness.lock_impls.base import Endpoints, Indeterminate, LockError
from harness.lock_impls.thirdparty.go_etcd_mutex import GoEtcdMutex
from harness.lock_impls.thirdparty.redsync import Redsync
from tests.clusters.real import paused, servers
from tests.conftest import Servers
from tests.locks import conformance
from tests.locks.programs import OwnProgramPerLock, answers, outcomes

LEASE_S = 2.0
"""The shortest lease that etcd grants."""
LATE_S = 0.5
"""How late a client may learn of the end of a session that ended while its program was paused."""
# the environment that builds images has what is needed: Go, and the modules that it fetches
needs_go = pytest.mark.docker
on_loopback = pytest.mark.parametrize("real_redis", [LOOPBACK], indirect=True)


@needs_go
def test_go_unit_tests_pass() -> None:
    tests = subprocess.run(
        ["go", "test", "./..."], cwd=context_folder("go"), capture_output=True, text=True, check=False
    )
    assert tests.returncode == 0, tests.stdout + tests.stderr


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    if not shutil.which("go"):
        pytest.skip("needs go")
    path = tmp_path_factory.mktemp("go") / "locks"
    golang.compile_go(context_folder("go"), path)
    return (str(path),)


# redsync.


@pytest.fixture
def redsync(command: tuple[str, ...]) -> Iterator[OwnProgramPerLock]:
    with OwnProgramPerLock(Redsync, command) as per_lock:
        yield per_lock


@pytest.fixture
def five(real_redis: Servers) -> Endpoints:
    return Endpoints("redis-independent", real_redis)


@contextmanager
def silent(*servers: tuple[str, int]) -> Iterator[None]:
    """Pause servers: they accept requests and do not answer."""
    with ExitStack() as stack:
        for host, port in servers:
            client = stack.enter_context(redis.Redis(host, port))
            pid = client.info("server")["process_id"]
            stack.callback(os.kill, pid, signal.SIGCONT)
            os.kill(pid, signal.SIGSTOP)
        yield


@needs_go
@on_loopback
@pytest.mark.parametrize(
    "prop", [*conformance.properties_of(Redsync), conformance.extends], ids=lambda prop: prop.__name__
)
def test_redsync(prop: conformance.Property, redsync: OwnProgramPerLock, five: Endpoints) -> None:
    prop(redsync, five)


@needs_go
@on_loopback
def test_one_silent_server_of_five_blocks_redsync(redsync: OwnProgramPerLock, five: Endpoints) -> None:
    """redsync-one-silent: go-redis ignores the time-out that redsync sets, unless context_timeouts is on."""
    defaults = redsync.open(five, "silent", LEASE_S)
    with_timeouts = redsync.open(five, "silent, with context time-outs", LEASE_S, context_timeouts=True)
    with silent(five.addresses[0]):
        with pytest.raises(Indeterminate, match="may be set on 5 of 5"):
            defaults.acquire(1.0)
        grant = with_timeouts.acquire(1.0)
        assert grant
        assert LEASE_S / 2 < grant.valid_for < LEASE_S
        with_timeouts.release()


@needs_go
@on_loopback
@pytest.mark.parametrize("options", [{}, {"context_timeouts": True}], ids=str)
def test_outcome_is_unknown_if_a_majority_is_silent(
    options: dict[str, Any], redsync: OwnProgramPerLock, five: Endpoints
) -> None:
    mine = redsync.open(five, f"doubtful {options}", 30.0, **options)
    other = redsync.open(five, f"other {options}", 30.0, **options)
    assert mine.acquire(1.0)
    with silent(*five.addresses[:3]):
        with pytest.raises(Indeterminate, match="may be set on"):
            other.acquire(0.5)
        with pytest.raises(Indeterminate, match="did not answer"):
            mine.extend()
        with pytest.raises(Indeterminate, match="3 of 5 servers did not answer"):
            mine.release()


@needs_go
def test_unreachable_servers_are_a_refusal(redsync: OwnProgramPerLock) -> None:
    """Connections are refused, so no request was sent: the lock is known not to be held."""
    nowhere = Endpoints("redis-independent", tuple((LOOPBACK, port) for port in (1, 2, 3)))
    mine = redsync.open(nowhere, "k", LEASE_S)
    with pytest.raises(LockError):
        mine.acquire(1.0)


@needs_go
def test_requests_are_answered_in_their_order(redsync: OwnProgramPerLock) -> None:
    said = answers(redsync.program(), [
        {"op": "acquire", "key": "k", "timeout": 0},
        {"op": "open", "lock": "redsync", "kind": "redis-independent", "addresses": [[LOOPBACK, 1]], "ttl": 1.0},
        {"op": "acquire", "key": "ключ \n k", "timeout": 0},
        {"op": "sing"},
        {"op": "release", "key": "ключ \n k"},
        {"op": "close"},
    ])  # fmt: skip
    assert outcomes(said) == ["error", "ok", "fail", "error", "fail", "ok"]


@needs_go
@on_loopback
@pytest.mark.parametrize("sets_again", [False, True])
def test_extend_sets_an_expired_key_again_with_set_nx_on_extend(
    sets_again: bool, redsync: OwnProgramPerLock, five: Endpoints
) -> None:
    """redsync-extend: even if another client has held the lock meanwhile."""
    late, other = (redsync.open(five, f"late {sets_again}", 0.3, set_nx_on_extend=sets_again) for _ in range(2))
    assert late.acquire(0)
    time.sleep(0.4)
    assert other.acquire(0)
    other.release()
    assert late.extend() is sets_again
    assert late.still_valid() is sets_again


# etcd's mutex.

NOT_OF_SESSIONS = {
    conformance.expires,
    conformance.reports_remaining_lease,
    conformance.refuses_late_release,
    conformance.is_not_reentrant,
}
OF_SESSIONS = [
    *[prop for prop in conformance.properties_of(GoEtcdMutex) if prop not in NOT_OF_SESSIONS],
    conformance.never_expires,
]


@pytest.fixture(scope="module")
def etcd() -> Iterator[DockerCluster]:
    with servers("etcd") as cluster:
        yield cluster


@pytest.fixture
def members(etcd: DockerCluster) -> Endpoints:
    return Endpoints("etcd", etcd.endpoints().addresses)


@pytest.fixture
def mutex(command: tuple[str, ...]) -> Iterator[OwnProgramPerLock]:
    with OwnProgramPerLock(GoEtcdMutex, command) as per_lock:
        yield per_lock


@needs_go
@pytest.mark.parametrize("prop", OF_SESSIONS, ids=lambda prop: prop.__name__)
def test_etcd_mutex(prop: conformance.Property, mutex: OwnProgramPerLock, members: Endpoints) -> None:
    prop(mutex, members)


@needs_go
def test_session_that_holds_the_lock_acquires_again(mutex: OwnProgramPerLock, members: Endpoints) -> None:
    mine, other = (mutex.open(members, "again", LEASE_S) for _ in range(2))
    assert mine.acquire(0)
    assert mine.acquire(0)
    mine.release()
    assert other.acquire(0)
    assert mine.acquire(0) is None


@needs_go
def test_key_with_a_slash_is_not_below_another_key(mutex: OwnProgramPerLock, members: Endpoints) -> None:
    first, second = mutex.open(members, "path", LEASE_S), mutex.open(members, "path/below", LEASE_S)
    assert second.acquire(0)
    assert first.acquire(0)


@needs_go
def test_paused_holder_loses_the_lock_and_unlocks_nothing(mutex: OwnProgramPerLock, members: Endpoints) -> None:
    late, other = (mutex.open(members, "late", LEASE_S) for _ in range(2))
    first = late.acquire(0)
    assert late.still_valid()
    pid = mutex.programs[0]._process.pid
    os.kill(pid, signal.SIGSTOP)
    second = other.acquire(3 * LEASE_S)
    os.kill(pid, signal.SIGCONT)
    assert second.fence > first.fence
    time.sleep(LATE_S + 0.3)
    assert not late.still_valid()
    late.release()  # does not report that another client has the lock
    assert other.still_valid()
    assert late.acquire(0) is None, "its release ended another's hold"
    other.release()
    assert late.acquire(1), "a session that has ended is followed by another"


@needs_go
def test_unanswered_requests_are_unknown(mutex: OwnProgramPerLock, members: Endpoints, etcd: DockerCluster) -> None:
    """For a single try, a lock and an unlock."""
    trying, locking, held = (mutex.open(members, f"doubt {i}", 12.0) for i in range(3))
    assert held.acquire(0)
    with paused(etcd):
        with pytest.raises(Indeterminate):
            locking.acquire(0.3)
        with pytest.raises(Indeterminate):
            trying.acquire(0)
        with pytest.raises(Indeterminate):
            held.release()
