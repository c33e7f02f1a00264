"""portalocker's RedisLock: contenders remove a holder that does not answer, but only if they do not disturb each
other."""

from __future__ import annotations

from itertools import pairwise

import pytest

from harness import FaultSpec, Plan, run
from harness.history import SECOND

PAUSE_S = 8.0


def longest_time_without_grants_s(clients: int) -> float:
    """Return the longest time between two grants in a run whose first holder is paused for :data:`PAUSE_S`."""
    pause = FaultSpec("client-pause", on="acquire", for_=PAUSE_S)
    result = run(Plan(lock="portalocker-redis-lock", clients=clients, time_limit=12.0, faults=(pause,)))
    grants = [op.time for op in result.history if op.f == "acquire" and op.type == "ok"]
    return max(later - earlier for earlier, later in pairwise(grants)) / SECOND


@pytest.mark.few(1)
@pytest.mark.parametrize(("clients", "at_least", "below"), [(2, 0.0, 3.0), (6, PAUSE_S, 12.0)])
def test_one_contender_removes_a_silent_holder_and_several_do_not(clients: int, at_least: float, below: float) -> None:
    """A contender removes a holder that is silent for 1 s while the number of subscribers does not change. Contenders
    that subscribe and unsubscribe change it."""
    assert at_least < longest_time_without_grants_s(clients) < below
