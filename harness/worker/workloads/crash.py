"""``crash``: the loop of ``mutex``, in which holders die every now and then and come back as somebody new.

The fault belongs to the workload (``schedule``): a run whose plan has no crash of a client gets this one.
"""

from __future__ import annotations

from typing import Any, ClassVar

from .mutex import MutexWorkload


class CrashWorkload(MutexWorkload):
    """Like mutex, while holders are killed: the lock of a dead holder must become free within its ttl."""

    name: ClassVar = "crash"
    schedule: ClassVar[tuple[dict[str, Any], ...]] = (
        {
            "fault": "client-crash",
            "on": "acquire",
            "nth": 5,
            "times": 1000,
            "every": "3 ttl",
            "for": "1 ttl",
            "params": {"restart": True},
        },
    )
    """Faults that come with it: fields of FaultSpecs, where ``"1.5 ttl"`` means multiples of the lock's ttl."""
