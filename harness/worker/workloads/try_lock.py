"""``try-lock``: clients that do not wait: who does not get the lock at once does something else, and tries again.

A holder stays for a second and a half at least, as far as its lease allows: for longer than the slack, so that a try
that waits for it can be told from one whose answer took its time.
"""

from __future__ import annotations

from typing import ClassVar, Final

from harness.worker.client import Client
from harness.worker.sections import sections, stay, update

from .mutex import MutexWorkload

LONG_ENOUGH: Final = 1.5
LEASE_SHARE: Final = 0.75


class TryLockWorkload(MutexWorkload):
    """Acquires with a timeout of 0: each must be answered at once, even if the lock is held."""

    name: ClassVar = "try-lock"

    @staticmethod
    def run(client: Client) -> None:
        work = update(client, lambda _key, grant: stay(client, grant, LONG_ENOUGH, LEASE_SHARE))
        sections(client, work, timeout=0.0, pause=(0.05, 0.15))
