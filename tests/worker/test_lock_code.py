"""Whose code a source file is."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.worker import lock_code

INSTALLED = Path("/usr/lib/python3/dist-packages")


@pytest.mark.parametrize(
    ("file", "code"),
    [
        ("harness/lock_impls/redis_token.py", "lock"),
        ("harness/lock_impls/redis_client.py", "support"),
        ("harness/lock_impls/polling.py", "other"),
        ("harness/worker/client.py", "other"),
        ("redis/lock.py", "lock"),
        ("redis/connection.py", "other"),
        ("nats/aio/transport.py", "other"),
        ("anyio/_backends/_asyncio.py", "other"),
        ("aioredis/connection.py", "other"),
        ("hazelcast/reactor.py", "other"),
        ("my_lock.py", "lock"),
    ],
)
def test_code_where_the_harness_is_an_installed_package(monkeypatch: pytest.MonkeyPatch, file: str, code: str) -> None:
    """In clients' containers it is one."""
    monkeypatch.setattr(lock_code, "_OURS", INSTALLED / "harness")
    monkeypatch.setattr(lock_code, "_LOCKS", INSTALLED / "harness" / "lock_impls")
    assert lock_code.code_of(str(INSTALLED / file)) == code
