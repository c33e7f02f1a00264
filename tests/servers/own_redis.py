"""Redis servers of this machine that stand for a user's own, for tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from harness.clusters.redis_admin import RedisConnection
from harness.fidelity.processes import ServerProcess


def url(server: ServerProcess) -> str:
    return f"redis://127.0.0.1:{server.place.address[1]}"


@contextmanager
def asking(server: ServerProcess) -> Iterator[RedisConnection]:
    """A connection of a test to the server itself."""
    with RedisConnection(*server.place.address, database=0, answer_s=60.0) as ask:
        yield ask


def keys(server: ServerProcess) -> set[bytes]:
    """Names of all keys of the server."""
    with asking(server) as ask:
        found = ask("KEYS", "*")
    assert isinstance(found, list)
    return {name for name in found if isinstance(name, bytes)}
