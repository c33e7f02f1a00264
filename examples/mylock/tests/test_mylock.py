"""The locks of mylock under faults: lock-harness searches for the schedule in which they fail.

``pytest --harness-budget 5s`` makes all hunts short.
"""

from __future__ import annotations

import pytest
from mylock import FencedLock, NaiveLock

from harness import Grant
from harness.pytest_plugin import Harness, LockBroken


class WithFence(FencedLock):
    """What the harness has to be told beside: the number of a grant, which it then sends along with each write."""

    def acquire(self, timeout: float) -> Grant | None:  # type: ignore[override]
        return Grant(fence=self.fence) if super().acquire(timeout) else None


def test_no_update_is_lost_while_holders_stand_still(harness: Harness) -> None:
    """A holder may stand still (garbage collection, a virtual machine that is moved) until its lease is over: then two
    clients hold the lock. The store refuses the late one's write, so nothing is lost."""
    harness.hunt(WithFence, faults="client-pause", fencing="on", look_for="resource", budget_s=10)


def test_one_holder_at_a_time_while_nothing_goes_wrong(harness: Harness) -> None:
    """One run instead of a search; sections are shorter than the lease."""
    harness.run(FencedLock, clients=3, ttl="2s", hold="100ms", time_limit="10s")


@pytest.mark.hunt(FencedLock, faults="none", look_for="ownership", budget_s=10)
def test_nobody_releases_the_lock_of_another() -> None:
    """Sections may take longer than the lease: then a holder releases late."""


# Its story: c0's section takes longer than its lease, c1 acquires the lock, and c0's release deletes c1's key.
@pytest.mark.xfail(strict=True, raises=LockBroken, reason="who is late deletes the key of the next holder")
@pytest.mark.hunt(NaiveLock, faults="none", look_for="ownership", budget_s=60)
def test_nobody_releases_the_naive_lock_of_another() -> None: ...


# Its story: c0 stands still until its lease is over, c1 acquires, and both believe that they hold the lock. So it is
# with every lock that has a lease: hence the fences. Should this test pass one day, it has stopped to look.
@pytest.mark.xfail(strict=True, raises=LockBroken, reason="a lease ends while its holder stands still")
@pytest.mark.hunt(FencedLock, faults="client-pause", look_for="mutual-exclusion", budget_s=60)
def test_one_holder_at_a_time_while_holders_stand_still() -> None: ...
