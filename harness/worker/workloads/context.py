"""``context``: critical sections in ``with lock:`` or ``async with lock:``, as most libraries document their lock.

Half of them wait for the lock for no longer than half a critical section, so that ``__enter__`` often has no lock when
it returns. Some bodies raise an exception, after which the lock must be free.
"""

from __future__ import annotations

from typing import ClassVar, Final

from harness.worker.client import Client
from harness.worker.sections import hold, update

from .mutex import MutexWorkload

FAILS: Final = 0.25
"""Share of bodies that raise."""


class ContextWorkload(MutexWorkload):
    """Critical sections in ``with lock:``, some of which raise: the body may run only while the lock is held."""

    name: ClassVar = "context"
    methods: ClassVar = ("context",)
    rare: ClassVar = True

    @staticmethod
    def run(client: Client) -> None:
        body = update(client, hold(client))
        while not client.over():
            key = f"k{client.rng.randrange(client.settings.keys)}"
            wait = client.rng.choice((None, client.hold / 2))
            ran = client.within(key, body, wait, fails=client.rng.random() < FAILS)
            client.sleep(client.rng.uniform(0, 2 * client.settings.rest) if ran else client.rng.uniform(0, 0.05))
