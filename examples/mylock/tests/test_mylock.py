"""Tests of mylock's locks under faults: lock-harness searches for schedules in which they fail.

``pytest --harness-budget 5s`` makes all hunts short.
"""

from __future__ import annotations

import pytest
from mylock import FencedLock, NaiveLock

from harness import Grant
from harness.pytest.plugin import Harness, LockBroken


class WithFence(FencedLock):
    """Return each grant's fencing token to the harness, which sends it with each write."""

    def acquire(self, timeout: float) -> Grant | None:  # type: ignore[override]
        return Grant(fence=self.fence) if super().acquire(timeout) else None


def test_no_update_is_lost_while_holders_are_paused(harness: Harness) -> None:
    """A pause (garbage collection, migration of a virtual machine) can outlast the lease, and then two clients hold the
    lock. The store refuses the late holder's write, so no update is lost."""
    harness.hunt(WithFence, faults="client-pause", fencing="on", look_for="resource", budget_s=10)


def test_one_holder_at_a_time_without_faults(harness: Harness) -> None:
    """This is one run and no search. Critical sections are shorter than the lease."""
    harness.run(FencedLock, clients=3, ttl="2s", hold="100ms", time_limit="10s")


@pytest.mark.hunt(FencedLock, faults="none", look_for="ownership", budget_s=10)
def test_fenced_lock_is_released_only_by_its_holder() -> None:
    """Critical sections may take longer than the lease, and then a holder releases late."""


# Expected: c0's critical section takes longer than its lease, c1 acquires the lock, and c0's release deletes c1's key.
@pytest.mark.xfail(strict=True, raises=LockBroken, reason="a late holder deletes the key of the next holder")
@pytest.mark.hunt(NaiveLock, faults="none", look_for="ownership", budget_s=60)
def test_naive_lock_is_released_only_by_its_holder() -> None: ...


# Expected: c0 is paused until its lease has expired, c1 acquires the lock, and both believe that they hold it. Every
# lock with a lease has this limit, hence fencing tokens. If this test passes, the harness no longer finds violations.
@pytest.mark.xfail(strict=True, raises=LockBroken, reason="a lease expires while its holder is paused")
@pytest.mark.hunt(FencedLock, faults="client-pause", look_for="mutual-exclusion", budget_s=60)
def test_one_holder_at_a_time_while_holders_are_paused() -> None: ...
