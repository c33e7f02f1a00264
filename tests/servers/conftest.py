from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.fidelity.processes import ServerProcess
from tests.conftest import redis_command

from .secured import SECRET, VARIABLE


@pytest.fixture(scope="module")
def redis_server() -> Iterator[ServerProcess]:
    with ServerProcess("redis-server", redis_command) as server:
        yield server


@pytest.fixture
def password(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment variable that the addresses of the tests name."""
    monkeypatch.setenv(VARIABLE, SECRET)
