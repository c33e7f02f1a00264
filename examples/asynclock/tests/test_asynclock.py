"""Tests of a lock whose methods are coroutines: the marker and the fixture take it as any other lock."""

from __future__ import annotations

import pytest
from asynclock import AsyncLock

from harness.pytest.plugin import Harness, LockBroken


def test_one_holder_at_a_time_without_faults(harness: Harness) -> None:
    harness.run(AsyncLock, clients=3, ttl="2s", hold="100ms", time_limit="10s")


# Expected: c0 is paused until its lease has expired, c1 acquires the lock, and both believe that they hold it.
@pytest.mark.xfail(strict=True, raises=LockBroken, reason="a lease expires while its holder is paused")
@pytest.mark.hunt(AsyncLock, faults="client-pause", look_for="mutual-exclusion", budget_s=60)
def test_one_holder_at_a_time_while_holders_are_paused() -> None: ...
