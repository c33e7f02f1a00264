"""Locks in PHP: the conformance suite on real servers. Their program runs in its image: this machine needs no PHP."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack

import docker
import pytest

from harness.clusters.docker.images.images import Images
from harness.lock_impls import catalogue
from harness.lock_impls.base import Endpoints
from harness.lock_impls.php import RUN, RUNTIME
from harness.lock_impls.program import ProgramLock
from tests.clusters.real import servers
from tests.locks import conformance
from tests.locks.programs import OwnProgramPerLock

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]  # building the image may take this long

NAMES = [info.name for info in catalogue.infos() if info.runtime == RUNTIME]
USUAL = (
    conformance.one_holder_at_a_time,
    conformance.keys_are_independent,
    conformance.acquires_again_after_release,
    conformance.waits_until_its_timeout,
    conformance.waiter_gets_it_after_release,
    conformance.is_not_reentrant,
    conformance.refuses_release_by_another,
    conformance.refuses_second_release,
)
LEASED = [name for name in NAMES if name != "symfony-postgres"]
WHOLE_SECONDS = ("symfony-memcached", "symfony-pdo")
"""Their leases may end a second early, so ``conformance.expires`` does not hold."""
LONGEST_S = conformance.TTL_S + 1.2
"""When a lease of ``TTL_S`` has ended, also one that is a second longer."""


@pytest.fixture(scope="module")
def command() -> tuple[str, ...]:
    images = Images(docker.from_env())
    images.client(runtime=RUNTIME)
    return ("docker", "run", "-i", "--rm", "--network", "host", images.runtime_recipe(RUNTIME).tag, *RUN)


@pytest.fixture(scope="module")
def clusters() -> Iterator[dict[str, Endpoints]]:
    """Servers of each kind that the locks run on."""
    found = {}
    with ExitStack() as stack:
        for kind in {catalogue.find(name).info.kinds[0] for name in NAMES}:
            cluster = stack.enter_context(servers(kind))
            found[kind] = Endpoints(kind, cluster.endpoints().addresses)
        yield found


@pytest.fixture
def lock(request: pytest.FixtureRequest, command: tuple[str, ...]) -> Iterator[OwnProgramPerLock]:
    found = catalogue.find(request.param)
    assert isinstance(found, type)
    assert issubclass(found, ProgramLock)
    with OwnProgramPerLock(found, command) as per_lock:
        yield per_lock


def of(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("lock", names, indirect=True)


def where(lock: OwnProgramPerLock, clusters: dict[str, Endpoints]) -> Endpoints:
    return clusters[lock.info.kinds[0]]


@of(*NAMES)
@pytest.mark.parametrize("prop", USUAL, ids=lambda prop: prop.__name__)
def test_lock(prop: conformance.Property, lock: OwnProgramPerLock, clusters: dict[str, Endpoints]) -> None:
    prop(lock, where(lock, clusters))


@of("symfony-postgres")
def test_advisory_lock_does_not_expire(lock: OwnProgramPerLock, clusters: dict[str, Endpoints]) -> None:
    conformance.never_expires(lock, where(lock, clusters))


@of(*LEASED)
def test_lease_ends(lock: OwnProgramPerLock, clusters: dict[str, Endpoints]) -> None:
    late, other = (lock.open(where(lock, clusters), "late", conformance.TTL_S) for _ in range(2))
    assert late.acquire(0)
    time.sleep(LONGEST_S)
    assert other.acquire(0)


@of("symfony-redis", "symfony-redlock")
@pytest.mark.parametrize(
    "prop", [conformance.expires, conformance.reports_remaining_lease, conformance.extends], ids=lambda p: p.__name__
)
def test_lease_of_redis_is_exact(
    prop: conformance.Property, lock: OwnProgramPerLock, clusters: dict[str, Endpoints]
) -> None:
    prop(lock, where(lock, clusters))


@of(*WHOLE_SECONDS)
def test_refresh_takes_an_expired_lock_that_another_has_held_since(
    lock: OwnProgramPerLock, clusters: dict[str, Endpoints]
) -> None:
    late, other = (lock.open(where(lock, clusters), "refreshed", conformance.TTL_S) for _ in range(2))
    assert late.acquire(0)
    time.sleep(LONGEST_S)
    assert other.acquire(0)
    time.sleep(LONGEST_S)  # a release would delete the row, and PdoStore takes only a row that is there
    assert late.extend()


@of("symfony-redis", *WHOLE_SECONDS)
def test_release_of_a_lost_lock_reports_no_error_and_frees_nothing(
    lock: OwnProgramPerLock, clusters: dict[str, Endpoints]
) -> None:
    endpoints = where(lock, clusters)
    late, other = lock.open(endpoints, "lost", conformance.TTL_S), lock.open(endpoints, "lost", 30.0)
    assert late.acquire(0)
    time.sleep(LONGEST_S)
    assert other.acquire(0)
    late.release()
    assert other.still_valid()
