"""The lease of a lock whose grants do not say it: stated by the lock, by the plan, or by the lock's options.

It is written into the history, so that the holds of such a lock can be judged as those of a lock whose grants say
``valid_for``.
"""

from __future__ import annotations

from typing import Any, Final

from harness.documents.lock import LockFacts
from harness.errors import UsageError
from harness.plan import Plan, seconds

TTL: Final = "ttl"
UNITS: Final = {"": 1.0, "s": 1.0, "ms": 1e-3}


def stated_lease_s(plan: Plan, lock: LockFacts) -> float | None:
    """Return the lease (s) that the plan states, else the lock; None if neither does.

    Raises UsageError for a text that is neither ``ttl``, nor a duration, nor the name of an option with its unit. Of a
    lock, ``ttl:expires`` means the ttl unless the option ``expires`` is false.
    """
    text = plan.lease or lock.lease
    if not text:
        return None
    name, unit = argument_of(text)
    if name == TTL and not unit:
        return plan.ttl
    if name == TTL and not plan.lease and unit in lock.options:
        return plan.ttl if plan.lock_options.get(unit, True) else None
    default = None if plan.lease else lock.lease_default
    if (name in plan.lock_options or default is not None) and unit in UNITS:
        value = number_or_none(plan.lock_options.get(name, default))
        return value * UNITS[unit] if value else None
    try:
        lease = seconds(text)
    except ValueError:
        lease = 0.0
    if lease <= 0:
        raise UsageError(
            f"lease: expected ttl, a duration such as 10s, or a lock option with its unit such as px:ms, got {text!r}"
        )
    return lease


def argument_of(lease: str) -> tuple[str, str]:
    """Return the name and the unit in a text such as ``px:ms``; without a unit it is empty."""
    name, _, unit = lease.partition(":")
    return name, unit


def number_or_none(value: Any) -> float | None:
    """Return a value that is a number; None otherwise, which means no lease."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
