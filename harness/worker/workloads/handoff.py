"""``handoff``: clients that acquire a lock in one thread or asyncio task, and release it in another one of the process.

Many libraries keep the token in the object, so that this works. Others bind a lock to its thread, and refuse the
release; then the thread that acquired the lock releases it. Wrong is a release in another thread that says nothing and
leaves the key, does not return, or leaves an object that nobody can release.
"""

from __future__ import annotations

from typing import ClassVar, Final

from harness.worker.client import Client
from harness.worker.sections import grants, hold, update

from .mutex import MutexWorkload

HANDED: Final = 0.6
"""Share of the locks that are released in another thread."""


class HandoffWorkload(MutexWorkload):
    """Critical sections whose lock another thread or task of the process releases, if the lock allows that."""

    name: ClassVar = "handoff"
    rare: ClassVar = True

    @staticmethod
    def run(client: Client) -> None:
        section = update(client, hold(client))
        for key, grant in grants(client):
            section(key, grant)
            client.release(key, elsewhere=client.rng.random() < HANDED)
