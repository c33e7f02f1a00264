"""``extend``: critical sections longer than a lease, which the holder prolongs; some of its extends come too late.

A client relies on its lock for :data:`RELIED` of the lease only, and for as long again after each extend in time. A
half of the sections extends in time. In the others the client has stopped relying on the lock, and extends it when its
lease is about to end, while others wait for the key, or after another client may have held the key and released it. The
lock must then say that it is lost, unless nobody has been granted it since.
"""

from __future__ import annotations

from random import Random
from typing import ClassVar, Final

from harness.worker.client import Client
from harness.worker.interfaces import Grant
from harness.worker.sections import grants

from .mutex import MutexWorkload

RELIED: Final = 0.8
IN_TIME: Final = (0.2, 0.6)
AT_THE_END: Final = (0.9, 1.1)
TOO_LATE: Final = (1.2, 2.5)
"""Pauses before an extend, as shares of the lease."""
MOST_EXTENDS: Final = 2
"""Some libraries allow three extends of a hold (pottery)."""
LAST_PAUSE: Final = 0.5
"""Longest pause after the last extend, as a share of the lease."""


class ExtendWorkload(MutexWorkload):
    """Critical sections that are prolonged by ``extend``, some too late: the extend of a lost lock must say so."""

    name: ClassVar = "extend"
    methods: ClassVar = ("extend",)
    rare: ClassVar = True
    leases: ClassVar = 2.0

    @staticmethod
    def run(client: Client) -> None:
        for key, grant in grants(client, lease_share=RELIED):
            if _section(client, key, grant):
                client.release(key)


def _section(client: Client, key: str, grant: Grant) -> bool:
    """Return whether the lock is to be released: the client was not told that it is lost."""
    value = client.read(key, grant)
    for pause in _pauses(client.rng):
        client.sleep(pause * client.lease(key))
        extended = client.extend(key)
        if not extended or not client.relies(key):
            return extended is not False
    client.sleep(min(client.hold, LAST_PAUSE * client.lease(key)))
    if value is not None and client.relies(key) and client.check(key):
        client.write(key, grant, value + 1)
    return True


def _pauses(rng: Random) -> list[float]:
    """Return the pauses before the extends of a section, as shares of the lease."""
    bounds = rng.choice((IN_TIME, IN_TIME, AT_THE_END, TOO_LATE))
    return [rng.uniform(*bounds) for _ in range(rng.randint(1, MOST_EXTENDS) if bounds is IN_TIME else 1)]
