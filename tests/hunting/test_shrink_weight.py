"""The order in which the shrinker prefers plans: each part of a plan's weight decides before all parts after it."""

from __future__ import annotations

import pytest

from harness.plan import Delay, FaultSpec, Plan
from harness.search.shrink import EVENTS, weight


def plan(
    *, faults: int = 1, delays: int = 0, nth: int = 1, delay: float = 0.0, on: str = EVENTS[0], clients: int = 2,
    sections: int = 1, ttl: float = 1.0, time_limit: float = 10.0, title: str = "",
) -> Plan:  # fmt: skip
    """Return a plan in which each part of the weight can be set by itself."""
    return Plan(
        lock="redis-token", clients=clients, sections=sections, ttl=ttl, time_limit=time_limit, title=title,
        faults=(FaultSpec("client-pause", on=on, nth=nth, delay=delay, for_=1.5),) * faults,
        delays=(Delay("c0", "n1", 1, 0.1),) * delays,
    )  # fmt: skip


SIMPLER_FIRST = {
    "fewer faults, though more clients": (plan(faults=1, clients=5), plan(faults=2, clients=2)),
    "fewer clients, though more sections": (plan(clients=2, sections=3), plan(clients=3, sections=1)),
    "fewer sections, though more late messages": (plan(sections=1, delays=2), plan(sections=2)),
    "an end after some sections rather than none": (plan(sections=9, delays=2), plan(sections=0)),
    "fewer late messages, though a later event": (plan(nth=5), plan(delays=1)),
    "an earlier event, though a longer pause before the fault": (plan(nth=1, delay=0.5), plan(nth=2)),
    "a shorter pause before the fault, though a rarer event": (plan(delay=0.1, on=EVENTS[1]), plan(delay=0.2)),
    "a plainer event, though a longer lease": (plan(on=EVENTS[0], ttl=9.0), plan(on=EVENTS[1])),
    "any listed event before one that is not listed": (plan(on=EVENTS[-1], ttl=9.0), plan(on="request:EVALSHA")),
    "a shorter lease, though a longer run": (plan(ttl=1.0, time_limit=30.0), plan(ttl=2.0)),
    "a shorter run, though a longer text": (plan(time_limit=10.0, title="x" * 50), plan(time_limit=20.0)),
    "a shorter text, though it sorts later": (plan(title="y"), plan(title="xx")),
    "the text that sorts first": (plan(title="a"), plan(title="b")),
}


@pytest.mark.parametrize("name", SIMPLER_FIRST)
def test_shrinking_prefers_the_simpler_plan(name: str) -> None:
    simpler, other = SIMPLER_FIRST[name]
    assert weight(simpler) < weight(other)


def test_equal_plans_have_equal_weight() -> None:
    assert weight(plan()) == weight(plan())
