"""The processes of a container, by the host's process ids. A container is named by the process id of its first process,
which idles: servers come and go below it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from .namespaces import NamespaceError, inode

PATIENCE: Final = 2.0
"""Seconds that killed processes get to disappear."""
DEAD: Final = "ZX"
"""States of processes that only wait for a parent to take note of their end. proc(5)."""


_spared: Final[dict[int, frozenset[int]]] = {}
"""By container: processes that stand by to become what it runs."""


class ProcessError(Exception):
    """Processes that would not die."""


def state(pid: int) -> str | None:
    """State letter of a process, None if there is none. proc(5), /proc/PID/stat field 3."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name before it may hold brackets and blanks itself.
    return text.rpartition(")")[2].split()[0]


def runs(pid: int) -> bool:
    """Whether there is such a process, and it has not ended."""
    return (state(pid) or "X") not in DEAD


def spare(pid: int, bystanders: Iterable[int]) -> None:
    """From now on these processes in the container of ``pid`` do not count: they are neither listed nor killed."""
    _spared[pid] = frozenset(bystanders)


def _inhabitants(pid: int) -> Iterator[int]:
    """All others in the PID namespace of ``pid``, ended ones too."""
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
            continue  # It ended since.


def states(pid: int) -> dict[int, str]:
    """Kernel state letter (proc(5): R, S, T, Z ...) of each process in the container of ``pid``, but ``pid`` itself.
    Those that have ended but were not waited for show as Z.

    :raises NamespaceError: no such process, or it is in no container.
    """
    found = ((member, state(member)) for member in _inhabitants(pid))
    return {member: letter for member, letter in found if letter is not None}


def members(pid: int) -> list[int]:
    """Running processes in the container of ``pid``, in ascending order, without ``pid`` itself.

    :raises NamespaceError: no such process, or it is in no container.
    """
    return sorted(member for member, letter in states(pid).items() if letter not in DEAD)


def kill(pid: int) -> list[int]:
    """Kill all processes in the container of ``pid`` but ``pid`` itself; returns them when they are gone.

    :raises NamespaceError: no such process, or it is in no container.
    :raises ProcessError: some were still there after PATIENCE seconds. So it is with a frozen container (cgroup v1): a
        signal arrives when it thaws.
    """
    killed: set[int] = set()
    deadline = time.monotonic() + PATIENCE
    # Listed again each time: they may have forked meanwhile.
    while running := members(pid):
        if time.monotonic() > deadline:
            left = ", ".join(f"{member} ({state(member)})" for member in running)
            raise ProcessError(f"container of process {pid}: killed, but still there after {PATIENCE:g} s: {left}")
        for member in running:
            if member not in killed:
                _kill(member)
                killed.add(member)
        time.sleep(0.001)
    return sorted(killed)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return  # It ended by itself.
