"""How long the programs of a run wait for a processor, of which a loaded machine has too few.

The helper container, the helper on a host and the harness itself use it, so it imports nothing of ours.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

EVERY_S: Final = 1.0
"""Seconds from one sample to the next."""
ENDED: Final = (FileNotFoundError, ProcessLookupError)
"""Errors of a process or a thread that has ended since it was found."""
FEW_NS: Final = 10_000_000
"""A sample with a shorter wait is not kept, ns."""
Waits = list[tuple[int, int]]
"""(Monotonic time of the sample, longest wait of one thread since the sample before), ns."""
ThreadId = tuple[int, str]
"""Process, and thread of it."""


class _Seen(NamedTuple):
    """What the kernel says of a thread."""

    waited_ns: int
    """All its waits since its start."""
    slices: int
    """How often it has been given a processor."""
    runnable: bool
    """Whether it runs or waits."""


class _Before(NamedTuple):
    """A thread in the sample before."""

    seen: _Seen
    since_ns: int
    """Earliest time at which a wait that had not ended then can have begun."""


class ProcessorWaits:
    """Samples the waits of all threads of the processes that ``processes`` returns, until :meth:`stop`.

    The kernel counts the time in which a thread could have run and had no processor (``run_delay``, the second number
    of ``/proc/PID/task/TID/schedstat``). A stopped or frozen thread does not wait.

    Linux 6.12 and later sometimes count a sleep as a wait: a thread that has just gone to sleep may stay in a queue
    ("delayed dequeue"), and if it is moved to another processor meanwhile, it counts as queued until it wakes. So no
    wait counts as longer than the time since a sample in which the thread slept.
    """

    def __init__(self, processes: Callable[[], Iterable[int]], every_s: float = EVERY_S) -> None:
        self._processes = processes
        self._every_s = every_s
        self._found: Waits = []
        self._before_ns = time.monotonic_ns()
        self._before: dict[ThreadId, _Before] = {}
        self._sample()
        self._found.clear()  # waits before the start
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
        began_ns = time.monotonic_ns()
        now = _threads(self._processes())
        at = time.monotonic_ns()
        longest = max((self._wait(thread, seen, at) for thread, seen in now.items()), default=0)
        if longest >= FEW_NS:
            self._found.append((at, longest))
        self._before = {thread: _Before(seen, self._since(thread, seen, began_ns)) for thread, seen in now.items()}
        self._before_ns = began_ns

    def _wait(self, thread: ThreadId, seen: _Seen, at: int) -> int:
        """Return how long a thread has waited since the sample before. A thread that this sample did not see may be an
        old one, and has not waited longer than since then."""
        before = self._before.get(thread)
        if before is None:
            return min(seen.waited_ns, at - self._before_ns)
        return min(seen.waited_ns - before.seen.waited_ns, at - before.since_ns)

    def _since(self, thread: ThreadId, seen: _Seen, began_ns: int) -> int:
        """Return the earliest time at which a wait of a thread that has not ended can have begun."""
        if not seen.runnable:
            return began_ns
        before = self._before.get(thread)
        return self._before_ns if before is None or seen.slices > before.seen.slices else before.since_ns


def worst_waits(machines: Iterable[Waits]) -> Waits:
    """Return samples of several machines as those of one: of each second the longest wait. Their sum over a time is at
    least that of each machine."""
    worst: dict[int, tuple[int, int]] = {}
    for at, wait in (sample for samples in machines for sample in samples):
        second = at // 1_000_000_000
        worst[second] = max(worst.get(second, (0, 0)), (at, wait), key=lambda sample: sample[1])
    return sorted(worst.values())


def is_counted() -> bool:
    """Return whether the kernel of this machine counts the waits: Linux with CONFIG_SCHED_INFO."""
    return Path("/proc/self/schedstat").exists()


def descendants(pid: int) -> list[int]:
    """Return the processes that a process has started, with those that they have started, as far as their parents
    live."""
    children: dict[int, list[int]] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit() and (parent := _parent(entry.name)) is not None:
            children.setdefault(parent, []).append(int(entry.name))
    found = list(children.get(pid, ()))
    for one in found:  # grows meanwhile
        found += children.get(one, ())
    return found


def stat_fields(stat: Path) -> list[str]:
    """Return the fields of a file ``stat`` of a process or thread from its state on; see proc(5).

    The name before the state may contain brackets and blanks. The kernel cuts it after 15 bytes, maybe in the middle of
    a character."""
    return stat.read_text(errors="replace").rpartition(")")[2].split()


def _parent(pid: str) -> int | None:
    """Return the parent of a process."""
    try:
        return int(stat_fields(Path(f"/proc/{pid}/stat"))[1])
    except (OSError, IndexError):
        return None  # it has ended since


def _threads(pids: Iterable[int]) -> dict[ThreadId, _Seen]:
    found = {}
    for pid in pids:
        with suppress(*ENDED):
            for thread in os.scandir(f"/proc/{pid}/task"):
                with suppress(*ENDED):
                    found[pid, thread.name] = _seen(Path(thread.path))
    return found


def _seen(thread: Path) -> _Seen:
    """Return what the kernel says of a thread, by its folder in ``/proc``; its state first, so that a wait which begins
    after it is not taken for an earlier one."""
    runnable = stat_fields(thread / "stat")[0] == "R"
    _, waited, slices = (thread / "schedstat").read_text().split()
    return _Seen(int(waited), int(slices), runnable)
