"""``queue``: clients that ask one after the other and wait for as long as it takes, so that a queue forms.

A section lasts for 0.3 s at least, as far as the lease allows: then those who wait have asked at times that are further
apart than any answer is late, and it can be told who was before whom. Nobody gives up before the end of the run.
"""

from __future__ import annotations

from typing import ClassVar, Final

from harness.worker.client import Client
from harness.worker.sections import sections, stay, update

from .mutex import MutexWorkload

SECTION: Final = 0.3
LEASE_SHARE: Final = 0.5
FOR_EVER: Final = 1e8


class QueueWorkload(MutexWorkload):
    """Acquires that wait without limit: clients must be served in order, and none may starve."""

    name: ClassVar = "queue"

    @staticmethod
    def run(client: Client) -> None:
        work = update(client, lambda _key, grant: stay(client, grant, SECTION, LEASE_SHARE))
        sections(client, work, timeout=FOR_EVER)
