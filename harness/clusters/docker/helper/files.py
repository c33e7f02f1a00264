"""Overwrite files inside other containers, such as ``/etc/hosts`` and a server's configuration, for a fault.

The helper container shares the process table of the machine's engine, so it reaches the files of another container
through ``/proc/PID/root``, where ``PID`` is a process of that container.
"""

from __future__ import annotations

import os
from pathlib import Path

from .namespaces import NamespaceError, foreign, inode


class FileError(Exception):
    """A file that cannot be written."""


def write(pid: int, path: str, text: str) -> None:
    """Replace the contents of an existing file in the file system of a process.

    The file is written in place by one system call, since the engine's bind mounts (``/etc/hosts``) cannot be replaced
    by another file. A concurrent reader sees the old text, the new one, or at worst the end of a longer old one.

    :raises FileError: there is no such process or file, or the file is this program's or the machine's own.
    """
    try:
        if inode(pid, "mnt") in foreign("mnt"):
            raise FileError(f"process {pid} has no files of its own but the machine's or the helper's")
        file = os.open(Path(f"/proc/{pid}/root") / path.lstrip("/"), os.O_WRONLY | os.O_CLOEXEC)
    except (OSError, NamespaceError) as error:
        raise FileError(f"container of process {pid}: {path}: {error}") from error
    data = text.encode()
    try:
        size = os.fstat(file).st_size
        os.pwrite(file, data + b"\n" * max(0, size - len(data)), 0)
        os.ftruncate(file, len(data))
    finally:
        os.close(file)
