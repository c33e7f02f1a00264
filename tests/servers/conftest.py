from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.fidelity.processes import ServerProcess

from . import own_redis


@pytest.fixture(scope="module")
def redis_server() -> Iterator[ServerProcess]:
    with ServerProcess("redis-server", own_redis.command) as server:
        yield server
