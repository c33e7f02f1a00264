"""List and kill the processes of a container, by the machine's process ids.

A container is identified by the process id of its first process, which idles.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from harness.record.processor_waits import stat_fields

from .namespaces import NamespaceError, inode

PATIENCE: Final = 2.0
"""Seconds that killed processes get to disappear."""
DEAD: Final = "ZX"
"""States of processes that have ended and only wait for their parent to be told (proc(5))."""


_spared: Final[dict[int, frozenset[int]]] = {}
"""Standby processes by container; they will become the container's program."""


class ProcessError(Exception):
    """Killed processes did not end in time."""


def state(pid: int) -> str | None:
    """Return the state letter of a process (proc(5), /proc/PID/stat field 3), None if there is no such process."""
    try:
        return stat_fields(Path(f"/proc/{pid}/stat"))[0]
    except (FileNotFoundError, ProcessLookupError):
        return None


def runs(pid: int) -> bool:
    """Return True if the process exists and has not ended."""
    return (state(pid) or "X") not in DEAD


def spare(pid: int, bystanders: Iterable[int]) -> None:
    """Ignore these processes in the container of ``pid`` from now on: they are neither listed nor killed."""
    _spared[pid] = frozenset(bystanders)


def _inhabitants(pid: int) -> Iterator[int]:
    """Yield all other processes in the PID namespace of ``pid``, including ended ones."""
    home = inode(pid, "pid")
    if home == inode("self", "pid"):
        raise NamespaceError(f"process {pid} is in no container: its PID namespace is the helper's own")
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit() or int(entry.name) == pid or int(entry.name) in _spared.get(pid, ()):
            continue
        try:
            if inode(entry.name, "pid") == home:
                yield int(entry.name)
        except NamespaceError:
            continue  # it has ended since


def states(pid: int) -> dict[int, str]:
    """Return the kernel's state letter (proc(5): R, S, T, Z ...) of each process in the container of ``pid`` except
    ``pid``. Processes that have ended but were not waited for have state Z.

    :raises NamespaceError: there is no such process, or it is in no container.
    """
    found = ((member, state(member)) for member in _inhabitants(pid))
    return {member: letter for member, letter in found if letter is not None}


def members(pid: int) -> list[int]:
    """Running processes in the container of ``pid``, in ascending order, without ``pid`` itself.

    :raises NamespaceError: there is no such process, or it is in no container.
    """
    return sorted(member for member, letter in states(pid).items() if letter not in DEAD)


def kill(pid: int) -> list[int]:
    """Kill all processes in the container of ``pid`` except ``pid``, wait until they have ended, and return them.

    :raises NamespaceError: there is no such process, or it is in no container.
    :raises ProcessError: some had not ended after PATIENCE seconds, as in a frozen container (cgroup v1): a signal
        takes effect when it thaws.
    """
    killed: set[int] = set()
    deadline = time.monotonic() + PATIENCE
    # List again each time: processes may have forked meanwhile.
    while running := members(pid):
        if time.monotonic() > deadline:
            left = ", ".join(f"{member} ({state(member)})" for member in running)
            raise ProcessError(f"container of process {pid}: killed, but still running after {PATIENCE:g} s: {left}")
        for member in running:
            if member not in killed:
                _kill(member)
                killed.add(member)
        time.sleep(0.001)
    return sorted(killed)


def terminate(pid: int) -> list[int]:
    """Send SIGTERM to all processes in the container of ``pid`` except ``pid``, and return them.

    :raises NamespaceError: there is no such process, or it is in no container.
    """
    asked = members(pid)
    for member in asked:
        _kill(member, signal.SIGTERM)
    return asked


def _kill(pid: int, number: signal.Signals = signal.SIGKILL) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return  # it has ended by itself
