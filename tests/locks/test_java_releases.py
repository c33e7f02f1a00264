"""Failures of old releases of Java libraries, and that the pinned releases do not have them: the programs on this
machine, and real servers beside them. The scenarios ``*.java`` show the same with faults, in containers."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import redis

from harness.clusters.docker.images import java
from harness.clusters.docker.images.contexts import context_folder
from harness.fidelity.processes import LOOPBACK
from harness.lock_impls.base import Endpoints, LockError
from harness.lock_impls.program import ProgramLock
from harness.lock_impls.thirdparty.redisson_lock import RedissonLock
from harness.lock_impls.thirdparty.redisson_multilock import RedissonMultiLock
from harness.lock_impls.thirdparty.spring_redis_lock import SpringRedisLock
from tests.conftest import Servers
from tests.locks.programs import OwnProgramPerLock

TTL_S = 1.0
REDISSON = "org.redisson:redisson"
SPRING = "org.springframework.integration:spring-integration-redis"
OpenTwo = Callable[..., tuple[Any, Any]]

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(900),  # Maven fetches the release's libraries
    pytest.mark.parametrize("real_redis", [LOOPBACK], indirect=True),
]


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], tuple[str, ...]]:
    @cache
    def built(library: str, release: str) -> tuple[str, ...]:
        folder: Path = tmp_path_factory.mktemp("java") / "program"
        java.package(context_folder("java"), folder, {library: release} if release else {})
        return ("java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-jar", str(folder / "locks.jar"))

    return built


@pytest.fixture
def open_two(build: Callable[[str, str], tuple[str, ...]], real_redis: Servers) -> Iterator[OpenTwo]:
    """Open one lock in two programs that are built with a release of a library; "" is the pinned one."""
    with ExitStack() as stack:

        def opened(lock: type[ProgramLock], library: str, release: str, ttl: float, **options: Any) -> tuple[Any, Any]:
            per_lock = stack.enter_context(OwnProgramPerLock(lock, build(library, release)))
            where = Endpoints(lock.info.kinds[0], real_redis)
            key = f"{lock.info.name} {release or 'pinned'}"
            return per_lock.open(where, key, ttl, **options), per_lock.open(where, key, ttl, **options)

        yield opened


@contextmanager
def silent(address: tuple[str, int]) -> Iterator[None]:
    """Pause a server: it accepts requests and answers them later."""
    with redis.Redis(*address) as client:
        pid = client.info("server")["process_id"]
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize(("release", "excludes"), [("3.11.0", False), ("", True)])
def test_multilock_without_waiting_time(release: str, excludes: bool, open_two: OpenTwo) -> None:
    mine, other = open_two(RedissonMultiLock, REDISSON, release, 10 * TTL_S)
    assert mine.acquire(0)
    assert (other.acquire(0) is None) == excludes


@pytest.mark.parametrize(("release", "kept"), [("3.13.6", False), ("", True)])
def test_renewal_after_one_that_failed(release: str, kept: bool, open_two: OpenTwo, real_redis: Servers) -> None:
    ttl_s = 6 * TTL_S
    # Redisson also waits no longer than this for the answers while it connects, when the JVM has just started.
    answer_timeout_s = 1.0
    mine, other = open_two(RedissonLock, REDISSON, release, ttl_s, answer_timeout=answer_timeout_s, retries=0)
    assert mine.acquire(0)
    time.sleep(ttl_s / 3 - 0.4)
    with silent(real_redis[0]):  # for longer than a renewal waits for its answer
        time.sleep(0.4 + answer_timeout_s + 0.6)
    time.sleep(2 * ttl_s)
    assert (other.acquire(0) is None) == kept


@pytest.mark.parametrize(("release", "freed"), [("4.3.1.RELEASE", False), ("", True)])
def test_local_lock_of_spring_after_a_late_unlock(release: str, freed: bool, open_two: OpenTwo) -> None:
    mine, other = open_two(SpringRedisLock, SPRING, release, TTL_S, new_threads=True)
    assert mine.acquire(0)
    assert other.acquire(3 * TTL_S)
    with pytest.raises(LockError):
        mine.release()
    other.release()
    assert (mine.acquire(0) is not None) == freed
