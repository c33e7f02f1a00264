"""Locks in Java: the conformance suite on real servers, and the program's answers when a server or the library does
not tell the outcome."""

from __future__ import annotations

import itertools
import json
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest
import redis

from harness.clusters.docker.cluster import DockerCluster
from harness.clusters.docker.images import java
from harness.clusters.docker.images.contexts import context_folder
from harness.lock_impls.base import Endpoints, Indeterminate, LockError
from harness.lock_impls.program import LockProgram, ProgramLock
from harness.lock_impls.thirdparty.curator_mutex import CuratorMutex
from harness.lock_impls.thirdparty.redisson_fenced import RedissonFenced
from harness.lock_impls.thirdparty.redisson_lock import RedissonLock
from harness.lock_impls.thirdparty.redisson_multilock import RedissonMultiLock
from harness.lock_impls.thirdparty.redisson_redlock import RedissonRedLock
from harness.lock_impls.thirdparty.shedlock_jdbc import ShedLockJdbc
from harness.lock_impls.thirdparty.shedlock_redis import ShedLockRedis
from harness.lock_impls.thirdparty.spring_jdbc_lock import SpringJdbcLock
from harness.lock_impls.thirdparty.spring_redis_lock import SpringRedisLock
from tests.clusters.real import paused, servers
from tests.conftest import Servers
from tests.locks import conformance
from tests.locks.programs import OwnProgramPerLock, answers, connect, outcomes

TTL_S = 1.0
ANSWER_S = 1.0
"""How long Redisson waits for an answer, as configured."""
# the environment that builds images has what is needed: Maven, and the packages that it fetches
needs_java = pytest.mark.docker
in_containers = pytest.mark.parametrize("real_redis", ["container"], indirect=True)
LockFactory = Callable[[type[ProgramLock]], OwnProgramPerLock]


@dataclass
class TwoSharedPrograms(OwnProgramPerLock):
    """Two programs with one ttl for all locks on servers of one kind, used alternately like two clients.

    Starting Java takes a second, so there is not one program per lock.
    """

    pairs: dict[str, Iterator[LockProgram]] = field(default_factory=dict)

    def connected(self, endpoints: Endpoints, ttl: float, **options: Any) -> LockProgram:
        if endpoints.kind not in self.pairs:
            first, second = super().connected(endpoints, TTL_S), super().connected(endpoints, TTL_S)
            self.pairs[endpoints.kind] = itertools.cycle((first, second))
        return next(self.pairs[endpoints.kind])


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    folder = tmp_path_factory.mktemp("java") / "program"
    java.package(context_folder("java"), folder)
    return ("java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-jar", str(folder / "locks.jar"))


@pytest.fixture(scope="module")
def per_lock(command: tuple[str, ...]) -> Iterator[LockFactory]:
    made: dict[type[ProgramLock], OwnProgramPerLock] = {}
    with ExitStack() as stack:
        yield (
            lambda lock: made.get(lock) or made.setdefault(lock, stack.enter_context(TwoSharedPrograms(lock, command)))
        )


def cases(*locks: type[ProgramLock]) -> list[Any]:
    return [
        pytest.param(lock, prop, id=f"{lock.info.name}-{prop.__name__}")
        for lock in locks
        for prop in conformance.properties_of(lock)
    ]


@needs_java
@in_containers
@pytest.mark.parametrize(
    ("lock", "prop"),
    cases(RedissonLock, RedissonFenced, RedissonRedLock, RedissonMultiLock, ShedLockRedis, SpringRedisLock),
)
def test_lock(lock: type[ProgramLock], prop: conformance.Property, per_lock: LockFactory, real_redis: Servers) -> None:
    prop(per_lock(lock), Endpoints(lock.info.kinds[0], real_redis))


@needs_java
@pytest.mark.parametrize("lock", [RedissonLock, RedissonFenced], ids=lambda lock: lock.info.name)
def test_lock_behind_sentinels(lock: type[ProgramLock], per_lock: LockFactory, real_sentinel: Servers) -> None:
    conformance.one_holder_at_a_time(per_lock(lock), Endpoints("redis-sentinel", real_sentinel))


@pytest.fixture(scope="module")
def ensemble() -> Iterator[DockerCluster]:
    with servers("zookeeper") as cluster:
        yield cluster


@needs_java
@pytest.mark.parametrize(("lock", "prop"), cases(CuratorMutex))
def test_lock_of_zookeeper(
    lock: type[ProgramLock], prop: conformance.Property, per_lock: LockFactory, ensemble: DockerCluster
) -> None:
    prop(per_lock(lock), Endpoints("zookeeper", ensemble.endpoints().addresses))


# Rows of a database


@pytest.fixture(scope="module", params=["mysql-single", "postgres"])
def database(request: pytest.FixtureRequest) -> Iterator[Endpoints]:
    with servers(request.param) as cluster:
        yield Endpoints(request.param, cluster.endpoints().addresses)


@needs_java
@pytest.mark.parametrize(("lock", "prop"), cases(ShedLockJdbc, SpringJdbcLock))
def test_lock_of_database(
    lock: type[ProgramLock], prop: conformance.Property, per_lock: LockFactory, database: Endpoints
) -> None:
    prop(per_lock(lock), database)


@needs_java
def test_late_unlock_of_shedlock_deletes_the_next_key_unless_it_is_told_to_look(
    command: tuple[str, ...], real_redis: Servers
) -> None:
    where = Endpoints("redis-single", real_redis)
    for safe_update, kept in ((False, False), (True, True)):
        with OwnProgramPerLock(ShedLockRedis, command) as per_lock:
            late, other, third = (
                per_lock.open(where, f"late, {safe_update}", TTL_S, safe_update=safe_update) for _ in range(3)
            )
            assert late.acquire(0)
            assert other.acquire(2 * TTL_S)
            late.release()
            assert (third.acquire(0) is None) == kept


# Requests that get no answer


@pytest.fixture
def server(real_redis: Servers) -> Iterator[redis.Redis]:
    """The first server; it answers again after each test."""
    host, port = real_redis[0]
    client = redis.Redis(host, port)
    yield client
    client.client_unpause()


def silent(server: redis.Redis, for_s: float) -> None:
    server.client_pause(int(for_s * 1000))


@needs_java
@in_containers
@pytest.mark.parametrize("lock", [RedissonLock, RedissonFenced], ids=lambda lock: lock.info.name)
def test_unanswered_request_is_unknown_and_its_effect_stays(
    lock: type[ProgramLock], per_lock: LockFactory, real_redis: Servers, server: redis.Redis
) -> None:
    where = Endpoints("redis-single", real_redis)
    mine, other = (per_lock(lock).open(where, f"unanswered {lock.info.name}", TTL_S) for _ in range(2))
    assert mine.acquire(0)
    silent(server, 2 * ANSWER_S)
    with pytest.raises(Indeterminate):
        mine.release()
    time.sleep(2 * ANSWER_S)
    assert other.acquire(3), "the release was done, and not heard of"
    other.release()
    silent(server, 2 * ANSWER_S)
    with pytest.raises(Indeterminate):
        mine.acquire(0)
    time.sleep(ANSWER_S + conformance.SHORT_S)
    assert other.acquire(0) is None, "the acquire was done, and not heard of"
    assert other.acquire(2 * TTL_S), "nobody renews it"
    other.release()


@needs_java
@in_containers
def test_false_that_comes_too_early_is_unknown(per_lock: LockFactory, real_redis: Servers, server: redis.Redis) -> None:
    """Redisson returns false if the second request of a call is not answered, as it does for a busy lock."""
    where = Endpoints("redis-single", real_redis)
    mine, other = (per_lock(RedissonLock).open(where, "early", TTL_S) for _ in range(2))
    assert other.acquire(0)
    asked = mine._program._process.stdin
    assert asked
    asked.write(json.dumps({"id": 0, "op": "acquire", "key": "early", "timeout": 5}).encode() + b"\n")
    time.sleep(conformance.SHORT_S)
    silent(server, 3 * ANSWER_S)
    said = json.loads(mine._program._process.stdout.readline())
    assert "an answer was missing" in said["info"]
    server.client_unpause()
    server.delete("early")


@needs_java
def test_missing_server_is_a_refusal_and_the_program_goes_on(command: tuple[str, ...]) -> None:
    nowhere = (("127.0.0.1", 1),)
    with OwnProgramPerLock(RedissonLock, command) as per_lock:
        program = per_lock.program()
        with pytest.raises(LockError, match="Unable to connect"):
            connect(program, RedissonLock.info, Endpoints("redis-single", nowhere), TTL_S)
        with pytest.raises(LockError, match="no ZooKeeper server answers"):
            connect(program, CuratorMutex.info, Endpoints("zookeeper", nowhere), TTL_S)


@needs_java
def test_requests_are_answered_in_their_order(command: tuple[str, ...]) -> None:
    where = [["127.0.0.1", 1]]
    with OwnProgramPerLock(RedissonRedLock, command) as per_lock:
        said = answers(per_lock.program(), [
            {"op": "acquire", "key": "k", "timeout": 0},
            {"op": "open", "lock": "redlock", "kind": "redis-single", "addresses": where, "ttl": 1},
            {"op": "open", "lock": "redisson-redlock", "kind": "redis-independent", "addresses": where, "ttl": 1},
            {"op": "acquire", "key": "ключ \n k", "timeout": 0},
            {"op": "release", "key": "ключ \n k"},
            {"op": "sing"},
            {"op": "close"},
        ])  # fmt: skip
    assert outcomes(said) == ["error", "error", "ok", "fail", "fail", "error", "ok"]
    assert "redisson-redlock" in said[1]["error"], "what it has is said"
    assert said[5]["error"].endswith("unknown op 'sing'")


# Curator's mutex, with a listener to the state of the connection


@needs_java
def test_still_valid_is_false_without_a_connection_and_after_the_session(
    per_lock: LockFactory, ensemble: DockerCluster
) -> None:
    where = Endpoints("zookeeper", ensemble.endpoints().addresses)
    mine, other = (per_lock(CuratorMutex).open(where, "..", TTL_S) for _ in range(2))
    assert mine.acquire(0)
    assert mine.still_valid()
    with paused(ensemble):
        time.sleep(2 * TTL_S)
        assert not mine.still_valid()
    assert other.acquire(10), "its session has ended"
    assert not mine.still_valid(), "it is connected again, and not the holder any more"
    mine.release()  # does not report the loss
    assert mine.acquire(0) is None
    other.release()
    assert mine.acquire(1)
    assert mine.still_valid()
    mine.release()


@needs_java
def test_lost_mutex_is_not_entered_again_without_its_node(per_lock: LockFactory, ensemble: DockerCluster) -> None:
    """Curator's map lets the thread in again without a request; reading the fence then finds no node."""
    where = Endpoints("zookeeper", ensemble.endpoints().addresses)
    mine, other = (per_lock(CuratorMutex).open(where, "again", TTL_S) for _ in range(2))
    assert mine.acquire(0)
    mine._program._process.send_signal(signal.SIGSTOP)
    assert other.acquire(10)
    mine._program._process.send_signal(signal.SIGCONT)
    time.sleep(2 * TTL_S)
    with pytest.raises(LockError, match="gone with its session"):
        mine.acquire(0)
    other.release()
