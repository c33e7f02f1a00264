"""``exit``: clients whose process ends while they hold the lock, in the ways in which programs end.

The main thread raises an exception, calls ``sys.exit``, or gets SIGTERM, with a handler that exits or without one. The
process must be gone soon after that, and its key free when the lease is over, or earlier. A thread of the lock that
renews the lease must not keep either. When the process is gone, its program is started again.
"""

from __future__ import annotations

from typing import ClassVar, Final

from harness.worker.client import Client
from harness.worker.endings import ENDINGS
from harness.worker.sections import grants, hold, update

from .mutex import MutexWorkload

MOST: Final = 2
"""Most critical sections of a process before the one in which it ends."""
IDLE: Final = 0.2
"""Share of the processes that end after the release."""


class ExitWorkload(MutexWorkload):
    """Critical sections, in the last of which the client's process ends: it must be gone, and its key be freed."""

    name: ClassVar = "exit"
    rare: ClassVar = True
    ends_processes: ClassVar = True

    @staticmethod
    def run(client: Client) -> None:
        section = update(client, hold(client))
        before = client.rng.randrange(MOST + 1)
        for key, grant in grants(client):
            if not before and client.rng.random() >= IDLE:
                client.sleep(client.rng.uniform(0, client.hold))
                client.end_process(client.rng.choice(ENDINGS))
            section(key, grant)
            client.release(key)
            if not before:
                client.end_process(client.rng.choice(ENDINGS))
            before -= 1
