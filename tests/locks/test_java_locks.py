"""Locks in Java: what every lock must do, on real servers; and what the program says where an answer did not come, or
the library does not say what became of a request."""

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

from harness.clusters.docker import DockerCluster
from harness.containers import java
from harness.containers.images import context_folder
from lock_impls.base import Endpoints, Indeterminate, LockError
from lock_impls.program import Program, ProgramLock
from lock_impls.thirdparty.curator_mutex import CuratorMutex
from lock_impls.thirdparty.redisson_fenced import RedissonFenced
from lock_impls.thirdparty.redisson_lock import RedissonLock
from lock_impls.thirdparty.redisson_redlock import RedissonRedLock
from tests.clusters.real import paused, servers
from tests.conftest import Servers
from tests.locks import conformance
from tests.locks.programs import Apart, answers, connect, outcomes

TTL_S = 1.0
ANSWER_S = 1.0
"""How long Redisson is told to wait for an answer."""
needs_java = pytest.mark.docker  # what builds the images of real clusters is there: Maven, and the packages it fetches
in_containers = pytest.mark.parametrize("real_redis", ["container"], indirect=True)
Apartness = Callable[[type[ProgramLock]], Apart]


@dataclass
class InTurn(Apart):
    """Starting Java takes a second: all locks on servers of a kind have two programs in turn, as if they were of two
    clients, and one ttl."""

    pairs: dict[str, Iterator[Program]] = field(default_factory=dict)

    def connected(self, endpoints: Endpoints, ttl: float, **options: Any) -> Program:
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
def apart(command: tuple[str, ...]) -> Iterator[Apartness]:
    made: dict[type[ProgramLock], Apart] = {}
    with ExitStack() as stack:
        yield lambda lock: made.get(lock) or made.setdefault(lock, stack.enter_context(InTurn(lock, command)))


def cases(*locks: type[ProgramLock]) -> list[Any]:
    return [
        pytest.param(lock, prop, id=f"{lock.info.name}-{prop.__name__}")
        for lock in locks
        for prop in conformance.properties_of(lock)
    ]


@needs_java
@in_containers
@pytest.mark.parametrize(("lock", "prop"), cases(RedissonLock, RedissonFenced, RedissonRedLock))
def test_lock(lock: type[ProgramLock], prop: conformance.Property, apart: Apartness, real_redis: Servers) -> None:
    prop(apart(lock), Endpoints(lock.info.kinds[0], real_redis))


@needs_java
@pytest.mark.parametrize("lock", [RedissonLock, RedissonFenced], ids=lambda lock: lock.info.name)
def test_lock_behind_sentinels(lock: type[ProgramLock], apart: Apartness, real_sentinel: Servers) -> None:
    conformance.one_holder_at_a_time(apart(lock), Endpoints("redis-sentinel", real_sentinel))


@pytest.fixture(scope="module")
def ensemble() -> Iterator[DockerCluster]:
    with servers("zookeeper") as cluster:
        yield cluster


@needs_java
@pytest.mark.parametrize(("lock", "prop"), cases(CuratorMutex))
def test_lock_of_zookeeper(
    lock: type[ProgramLock], prop: conformance.Property, apart: Apartness, ensemble: DockerCluster
) -> None:
    prop(apart(lock), Endpoints("zookeeper", ensemble.endpoints().addresses))


# What it says of requests that nobody answers.


@pytest.fixture
def server(real_redis: Servers) -> Iterator[redis.Redis]:
    """The first of them, which is to answer again after each test."""
    host, port = real_redis[0]
    client = redis.Redis(host, port)
    yield client
    client.client_unpause()


def silent(server: redis.Redis, for_s: float) -> None:
    server.client_pause(int(for_s * 1000))


@needs_java
@in_containers
@pytest.mark.parametrize("lock", [RedissonLock, RedissonFenced], ids=lambda lock: lock.info.name)
def test_an_answer_that_does_not_come_is_unknown_and_what_it_would_have_said_stays(
    lock: type[ProgramLock], apart: Apartness, real_redis: Servers, server: redis.Redis
) -> None:
    where = Endpoints("redis-single", real_redis)
    mine, other = (apart(lock).open(where, f"unanswered {lock.info.name}", TTL_S) for _ in range(2))
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
def test_a_false_of_redisson_that_comes_too_early_is_unknown(
    apart: Apartness, real_redis: Servers, server: redis.Redis
) -> None:
    """It says false where the second request of a call is not answered, as it does where another has the lock."""
    where = Endpoints("redis-single", real_redis)
    mine, other = (apart(RedissonLock).open(where, "early", TTL_S) for _ in range(2))
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
def test_no_server_is_a_refusal_and_the_program_goes_on(command: tuple[str, ...]) -> None:
    nowhere = (("127.0.0.1", 1),)
    with Apart(RedissonLock, command) as apart:
        program = apart.program()
        with pytest.raises(LockError, match="Unable to connect"):
            connect(program, RedissonLock.info, Endpoints("redis-single", nowhere), TTL_S)
        with pytest.raises(LockError, match="no ZooKeeper server answers"):
            connect(program, CuratorMutex.info, Endpoints("zookeeper", nowhere), TTL_S)


@needs_java
def test_requests_are_answered_in_their_order(command: tuple[str, ...]) -> None:
    where = [["127.0.0.1", 1]]
    with Apart(RedissonRedLock, command) as apart:
        said = answers(apart.program(), [
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


# Curator's, whose user listens to the state of the connection.


@needs_java
def test_a_mutex_is_doubtful_while_no_server_is_heard_and_lost_with_its_session(
    apart: Apartness, ensemble: DockerCluster
) -> None:
    where = Endpoints("zookeeper", ensemble.endpoints().addresses)
    mine, other = (apart(CuratorMutex).open(where, "..", TTL_S) for _ in range(2))
    assert mine.acquire(0)
    assert mine.still_valid()
    with paused(ensemble):
        time.sleep(2 * TTL_S)
        assert not mine.still_valid()
    assert other.acquire(10), "its session has ended"
    assert not mine.still_valid(), "it is connected again, and not the holder any more"
    mine.release()  # says nothing of it
    assert mine.acquire(0) is None
    other.release()
    assert mine.acquire(1)
    assert mine.still_valid()
    mine.release()


@needs_java
def test_a_mutex_that_is_lost_is_entered_again_only_with_its_node(apart: Apartness, ensemble: DockerCluster) -> None:
    """Curator's map lets the thread in again, without a request; what reads the fence finds no node."""
    where = Endpoints("zookeeper", ensemble.endpoints().addresses)
    mine, other = (apart(CuratorMutex).open(where, "again", TTL_S) for _ in range(2))
    assert mine.acquire(0)
    mine._program._process.send_signal(signal.SIGSTOP)
    assert other.acquire(10)
    mine._program._process.send_signal(signal.SIGCONT)
    time.sleep(2 * TTL_S)
    with pytest.raises(LockError, match="gone with its session"):
        mine.acquire(0)
    other.release()
