"""``shared-object``: two threads, or asyncio tasks, of each client use one object of the lock at the same time.

A lock whose object may be shared keeps what belongs to a hold apart for each thread: its token above all. Wrong is an
object whose second thread enters because the first one is inside, or whose waiting threads overwrite or clear the token
of the thread that holds the lock. Each thread counts as a client of its own, under the name of its host.
"""

from __future__ import annotations

from typing import ClassVar

from .mutex import MutexWorkload


class SharedObjectWorkload(MutexWorkload):
    """The loop of ``mutex`` in two threads or tasks of each client, which share its lock objects."""

    name: ClassVar = "shared-object"
    rare: ClassVar = True
    threads: ClassVar = 2
