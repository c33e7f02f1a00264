"""``readers-writers``: some clients only read and hold the lock together, others change what is read and hold it alone.

Every third client writes, beginning with the first: with two clients there is one of each. A reader reads twice, with
the hold between: what it sees must not change as long as it holds the lock, and the checker of the resource says so
(``read-changed``). A writer does what clients of ``mutex`` do.
"""

from __future__ import annotations

from typing import ClassVar, Final

from harness.worker.client import Client
from harness.worker.interfaces import Grant
from harness.worker.sections import hold, sections, update

from .mutex import MutexWorkload

EVERY: Final = 3


class ReadersWritersWorkload(MutexWorkload):
    """Readers share the lock, writers hold it alone: a reader reads twice, and must read the same value."""

    name: ClassVar = "readers-writers"
    shared: ClassVar = True

    @staticmethod
    def run(client: Client) -> None:
        if writes(client.node):
            sections(client, update(client, hold(client)))
        else:
            sections(client, lambda key, grant: _read_twice(client, key, grant), shared=True)


def writes(node: str) -> bool:
    """Return True if the client of this name is a writer."""
    return int(node.removeprefix("c")) % EVERY == 0


def _read_twice(client: Client, key: str, grant: Grant) -> None:
    client.read(key, grant)
    client.sleep(client.hold)
    if client.check(key):
        client.read(key, grant)
