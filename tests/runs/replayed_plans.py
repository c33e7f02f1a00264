"""Plans that are run on the simulator, and then replayed on a real cluster."""

from __future__ import annotations

from typing import Any

from harness.plan import Expect, Plan

UNSAFE = Expect(safe=False, invalid=("mutual-exclusion",))


def plan(**settings: Any) -> Plan:
    given: dict[str, Any] = {"lock": "redis-token", "clients": 2, "hold": 0.5, "stagger": 0.3, "time_limit": 5.0}
    return Plan(**{**given, **settings})
