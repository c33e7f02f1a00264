"""Releases of Redis and Valkey from wheels."""

from __future__ import annotations

import pytest

from harness.clusters.docker.images.redis_releases import WHEELS
from harness.clusters.kinds.redis import RELEASES, SINGLE
from harness.clusters.server_options import completed
from harness.errors import UsageError
from harness.lock_impls import catalogue
from harness.lock_impls.base import Endpoints
from tests.clusters.real import servers


def test_each_release_has_a_wheel() -> None:
    assert tuple(WHEELS) == RELEASES


def test_an_unknown_release_and_a_simulated_one_are_refused() -> None:
    with pytest.raises(UsageError, match="release must be one of redis-6"):
        completed(SINGLE.options, {"release": "redis-7.4"}, "docker")
    with pytest.raises(UsageError, match="release needs real servers"):
        completed(SINGLE.options, {"release": RELEASES[0]}, "sim")


@pytest.mark.long
@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("kind", ["redis-single", "redis-sentinel", "redis-cluster"])
def test_the_servers_are_of_the_release_and_serve_locks(kind: str, release: str) -> None:
    with servers(kind, release=release) as cluster:
        assert cluster.servers.version() == release.replace("-", " ")
        where = Endpoints(kind, cluster.endpoints().addresses)
        mine, other = (catalogue.find("redis-token").open(where, "k", 5.0) for _ in range(2))
        assert mine.acquire(0)
        assert other.acquire(0) is None
        mine.release()
        assert other.acquire(0)
