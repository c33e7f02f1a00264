"""``reentrant``: a section that calls code which takes the same lock: acquire, acquire again, release, release.

A lock that can be taken again lets the inner section in at once, and stays taken until the outer one is over. The
inner acquire waits for half a second at most, and for a quarter of the lease at most: a lock that blocks its own holder
(article 000) is then found out while the lease still lasts, and not by an overrun of it.
"""

from __future__ import annotations

from typing import ClassVar, Final

from harness.worker.client import Client
from harness.worker.interfaces import Grant
from harness.worker.sections import sections, update

from .mutex import MutexWorkload

NESTED_WAIT: Final = 0.5
LEASE_SHARE: Final = 0.25


class ReentrantWorkload(MutexWorkload):
    """Nested critical sections: the holder acquires the lock again, releases once, continues, and releases again."""

    name: ClassVar = "reentrant"

    @staticmethod
    def run(client: Client) -> None:
        def work(key: str, grant: Grant) -> None:
            _inner(client, key, grant)
            client.sleep(client.hold / 2)

        sections(client, update(client, work))


def _inner(client: Client, key: str, grant: Grant) -> None:
    wait = NESTED_WAIT if grant.valid_for is None else min(NESTED_WAIT, LEASE_SHARE * max(0.0, grant.valid_for))
    if client.acquire(key, wait) is None:
        return
    client.sleep(client.hold / 2)
    client.release(key)
