"""Other processes' network namespaces. Python 3.11 has no ``os.setns``; the system call is reached through ctypes."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

T = TypeVar("T")
CLONE_NEWNET: Final = 0x40000000
"""From <linux/sched.h>."""
FOREIGN: Final = ("self", 1)
"""Processes whose networks are not ours to touch: this one, and with ``--pid=host`` the machine's first."""


class NamespaceError(Exception):
    """A process whose namespaces cannot be entered, or must not be."""


def inode(pid: int | str, kind: str) -> int:
    """Number of the namespace (``kind`` as in ``/proc/PID/ns``) of a process; unique while the namespace lives.

    :raises NamespaceError: there is no such process.
    """
    try:
        return Path(f"/proc/{pid}/ns/{kind}").stat().st_ino
    except OSError as error:
        raise NamespaceError(f"process {pid}: no {kind} namespace: {error.strerror}") from error


def foreign(kind: str) -> set[int]:
    """The namespaces that are not ours to touch."""
    found = set()
    for pid in FOREIGN:
        # Without --pid=host the first process is another, and may be out of sight.
        with suppress(NamespaceError):
            found.add(inode(pid, kind))
    return found


def _enter(file: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(file, CLONE_NEWNET):
        number = ctypes.get_errno()
        raise OSError(number, f"setns: {os.strerror(number)}")


class Namespace:
    """The network namespace of a process, entered once by a thread of our own: setns(2) holds for one thread.

    What is opened there (a socket, a child process) belongs to the namespace for good, whichever thread uses it later;
    so only the opening needs ``call``. An open one keeps the namespace alive when all its processes are gone.
    """

    def __init__(self, pid: int) -> None:
        """:raises NamespaceError: no such process, it may not be entered, or its network is the machine's own or that
        of this program, whose rules are not ours to touch."""
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
        """Whether the process it was entered through still lives in it."""
        try:
            return inode(self.pid, "net") == self.inode
        except NamespaceError:
            return False

    def call(self, what: Callable[[], T]) -> T:
        """What ``what`` returns or raises in the namespace. One call at a time: keep it short."""
        return self._thread.submit(what).result()

    def close(self) -> None:
        """Ends the thread after the calls under way."""
        self._thread.shutdown()
