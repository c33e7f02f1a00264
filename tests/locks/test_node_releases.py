"""node-redlock 4, and the maintained fork of node-redlock 5: the conformance suite on real servers, and where they
differ from node-redlock 5."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.clusters.docker.images import npm
from harness.clusters.docker.images.contexts import context_folder
from harness.lock_impls.base import Endpoints, LockError
from harness.lock_impls.thirdparty.node_redlock import NodeRedlock
from harness.lock_impls.thirdparty.sesamecare_redlock import SesamecareRedlock
from tests.conftest import Servers
from tests.locks import conformance
from tests.locks.programs import OwnProgramPerLock
from tests.locks.test_node_locks import needs_npm, refuses_late_release
from tests.locks.toy_redis import ToyRedis

PROPERTIES = [
    *[prop for prop in conformance.properties_of(NodeRedlock) if prop is not conformance.refuses_late_release],
    refuses_late_release,
    conformance.extends,
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a program with node-redlock 4 and the fork."""
    made = tmp_path_factory.mktemp("node") / "program"
    npm.install(context_folder("node"), made, {"redlock": "4.2.0"})
    return made


@pytest.fixture(params=[NodeRedlock, SesamecareRedlock], ids=["node-redlock-4", "sesamecare-redlock"])
def lock(request: pytest.FixtureRequest, folder: Path) -> Iterator[OwnProgramPerLock]:
    with OwnProgramPerLock(request.param, ("node", str(folder / "program.js"))) as per_lock:
        yield per_lock


@pytest.fixture
def redlock_4(folder: Path) -> Iterator[OwnProgramPerLock]:
    with OwnProgramPerLock(NodeRedlock, ("node", str(folder / "program.js"))) as per_lock:
        yield per_lock


@needs_npm
@pytest.mark.parametrize("real_redis", ["container"], indirect=True)
@pytest.mark.parametrize("prop", PROPERTIES, ids=lambda prop: prop.__name__)
def test_lock(prop: conformance.Property, lock: OwnProgramPerLock, real_redis: Servers) -> None:
    prop(lock, Endpoints("redis-independent", real_redis))


@needs_npm
def test_redlock_4_settles_a_tie_and_takes_a_lost_try_back(redlock_4: OwnProgramPerLock) -> None:
    """nrl-tie: node-redlock 5 settles nothing."""
    servers = [ToyRedis(lambda *_: 1), ToyRedis(lambda script, _: int(script == "release"))]
    mine = redlock_4.open(Endpoints("redis-independent", tuple(one.address for one in servers)), "k", 2.0)
    assert mine.acquire(0) is None
    assert [one.scripts for one in servers] == [["acquire", "release"]] * 2
    for one in servers:
        one.close()


@needs_npm
def test_redlock_4_takes_the_key_of_its_holder_if_an_extension_fails(redlock_4: OwnProgramPerLock) -> None:
    """The first try to extend fails, and the library deletes the keys of a lock that has not expired."""
    granted: list[str] = []

    def script(script: str, value: str) -> int:
        granted.append(script)
        return int(script == "release" or len(granted) == 1)

    server = ToyRedis(script)
    mine = redlock_4.open(Endpoints("redis-independent", (server.address,)), "k", 30.0)
    assert mine.acquire(0)
    assert mine.extend() is False
    assert server.scripts[:3] == ["acquire", "acquire", "release"], "the script that extends also has a duration"
    assert mine.still_valid(), "its expiration is that of the first grant"
    server.close()


@needs_npm
def test_a_vote_that_takes_longer_than_the_lease_is_granted_by_the_fork_alone(
    lock: OwnProgramPerLock,
) -> None:
    """nrl-expired: redlock 4 compares the result with the clock, and takes its key back."""

    def slow(script: str, value: str) -> int:
        time.sleep(0.8)
        return 1

    server = ToyRedis(slow)
    mine = lock.open(Endpoints("redis-independent", (server.address,)), "k", 0.5)
    if lock.info is SesamecareRedlock.info:
        assert mine.acquire(0).valid_for < 0
    else:
        with pytest.raises(LockError):
            mine.acquire(0)
    server.close()
