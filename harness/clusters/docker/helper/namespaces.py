"""Run functions in other processes' network namespaces, by means of setns(2).

Python 3.11 has no ``os.setns``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

from .libc import libc, succeeded

T = TypeVar("T")
CLONE_NEWNET: Final = 0x40000000
"""From <linux/sched.h>."""
FOREIGN: Final = ("self", 1)
"""Processes whose namespaces must not be changed: this one, and with ``--pid=host`` the machine's first."""


class NamespaceError(Exception):
    """A process whose namespaces cannot be entered, or must not be changed."""


def inode(pid: int | str, kind: str) -> int:
    """Number of the namespace (``kind`` as in ``/proc/PID/ns``) of a process; unique while the namespace lives.

    :raises NamespaceError: there is no such process.
    """
    try:
        return Path(f"/proc/{pid}/ns/{kind}").stat().st_ino
    except OSError as error:
        raise NamespaceError(f"process {pid}: no {kind} namespace: {error.strerror}") from error


def foreign(kind: str) -> set[int]:
    """Return the numbers of the namespaces that must not be changed: the helper's and the machine's."""
    found = set()
    for pid in FOREIGN:
        # Without --pid=host, process 1 is another one and may be invisible.
        with suppress(NamespaceError):
            found.add(inode(pid, kind))
    return found


def _enter(file: int) -> None:
    succeeded(libc().setns(file, CLONE_NEWNET), "setns")


class Namespace:
    """The network namespace of a process, entered once by a dedicated thread, since setns(2) affects one thread.

    A socket or child process that is opened there stays in the namespace, whichever thread uses it later; so only
    opening it needs ``call``. The namespace exists as long as this object is open, even when all its processes have
    ended.
    """

    def __init__(self, pid: int) -> None:
        """:raises NamespaceError: there is no such process, its namespace cannot be entered, or it is the machine's own
        or this program's, whose rules must not be changed."""
        self.pid = pid
        self.inode = inode(pid, "net")
        if self.inode in foreign("net"):
            raise NamespaceError(f"process {pid} has no network of its own but the machine's or the helper's")
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"netns-{pid}")
        try:
            file = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
            try:
                self._thread.submit(_enter, file).result()
            finally:
                os.close(file)
        except OSError as error:
            self._thread.shutdown()
            raise NamespaceError(f"process {pid}: cannot enter its network namespace: {error}") from error

    @property
    def inhabited(self) -> bool:
        """True if the process through which the namespace was entered still lives in it."""
        try:
            return inode(self.pid, "net") == self.inode
        except NamespaceError:
            return False

    def call(self, what: Callable[[], T]) -> T:
        """Call ``what`` in the namespace and return its result. Calls are serialised, so keep them short."""
        return self._thread.submit(what).result()

    def close(self) -> None:
        """End the thread after the calls in progress."""
        self._thread.shutdown()


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
