"""How long the programs of containers wait for a processor, of which a loaded machine has too few."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from .namespaces import NamespaceError, inode

EVERY_S: Final = 1.0
"""Seconds from one sample to the next."""
FEW_NS: Final = 10_000_000
"""A sample with a shorter wait is not kept, ns."""
Waits = list[tuple[int, int]]
"""(Monotonic time of the sample, longest wait of one thread since the sample before), ns."""


class ProcessorWaits:
    """Samples the waits of all threads of the processes that ``processes`` returns, until :meth:`stop`.

    The kernel counts the time in which a thread could have run and had no processor (``run_delay``, the second number
    of ``/proc/PID/task/TID/schedstat``). A stopped or frozen thread does not wait.
    """

    def __init__(self, processes: Callable[[], Iterable[int]], every_s: float = EVERY_S) -> None:
        self._processes = processes
        self._every_s = every_s
        self._found: Waits = []
        self._before = _delays(processes())
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample_until_over, name="processor waits", daemon=True)
        self._thread.start()

    def stop(self) -> Waits:
        """End the sampling, and return the samples."""
        self._over.set()
        self._thread.join()
        self._sample()
        return self._found

    def _sample_until_over(self) -> None:
        while not self._over.wait(self._every_s):
            self._sample()

    def _sample(self) -> None:
        now = _delays(self._processes())
        longest = max((delay - self._before.get(thread, 0) for thread, delay in now.items()), default=0)
        if longest >= FEW_NS:
            self._found.append((time.monotonic_ns(), longest))
        self._before = now


def processes_of(pids: Iterable[int]) -> Callable[[], list[int]]:
    """Return a function that lists the processes in the PID namespaces of ``pids``.

    :raises NamespaceError: there is no such process.
    """
    homes = {inode(pid, "pid") for pid in pids}

    def listed() -> list[int]:
        return [int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit() and _home(entry.name) in homes]

    return listed


def _home(pid: str) -> int | None:
    try:
        return inode(pid, "pid")
    except NamespaceError:
        return None  # it has ended since


def _delays(pids: Iterable[int]) -> dict[tuple[int, str], int]:
    """Return the time (ns) that each thread of the processes has waited since its start."""
    found = {}
    for pid in pids:
        try:
            for thread in os.scandir(f"/proc/{pid}/task"):
                found[pid, thread.name] = int(Path(thread.path, "schedstat").read_text().split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended since
    return found
