"""Overwrite files inside other containers, such as ``/etc/hosts``, and damage those of a server, such as its log.

The helper container shares the process table of the machine's engine, so it reaches the files of another container
through ``/proc/PID/root``, where ``PID`` is a process of that container.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Final

from .namespaces import NamespaceError, foreign, inode

DATA: Final = "data"
OURS: Final = ".lock-harness"
"""Beginning of the names of the helper's own files."""
PIECE: Final = 1 << 20


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
        file = os.open(root_of(pid) / path.lstrip("/"), os.O_WRONLY | os.O_CLOEXEC)
    except (OSError, NamespaceError) as error:
        raise FileError(f"container of process {pid}: {path}: {error}") from error
    data = text.encode()
    try:
        size = os.fstat(file).st_size
        os.pwrite(file, data + b"\n" * max(0, size - len(data)), 0)
        os.ftruncate(file, len(data))
    finally:
        os.close(file)


def newest(root: Path, patterns: Sequence[str]) -> dict[str, str | int] | None:
    """Describe the file in the folder ``data`` of ``root``, of those that match a pattern, that was written last; None
    if there is none.

    ``used`` is the number of its bytes up to the last one that is not zero, since servers allocate logs in advance.

    :raises FileError: the file cannot be read.
    """
    try:
        found = _newest(root, patterns)
        if found is None:
            return None
        with found.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            used = _used(file.fileno(), size)
            digest = hashlib.sha256()
            for at in range(0, used, PIECE):
                digest.update(os.pread(file.fileno(), min(PIECE, used - at), at))
    except OSError as error:
        raise FileError(f"{root}: its data: {error}") from error
    return {"path": f"/{found.relative_to(root)}", "size": size, "used": used, "sha256": digest.hexdigest()[:16]}


def damage(root: Path, patterns: Sequence[str], *, flip: bool, size: int, seed: int) -> None:
    """Cut off the last ``size`` used bytes of the file that :func:`newest` describes, or flip one bit in them.

    :raises FileError: there is no such file, it is empty, or it cannot be written.
    """
    try:
        found = _newest(root, patterns)
        if found is None:
            raise FileError(f"{root}: no file in /data matches {' or '.join(patterns)}")
        with found.open("r+b") as file:
            end = _used(file.fileno(), file.seek(0, os.SEEK_END))
            start = max(0, end - size)
            if flip:
                at = Random(seed).randrange(start, end)
                os.pwrite(file.fileno(), bytes([os.pread(file.fileno(), 1, at)[0] ^ 1 << seed % 8]), at)
            else:
                os.ftruncate(file.fileno(), start)
            os.fsync(file.fileno())
    except OSError as error:
        raise FileError(f"{root}: its data: {error}") from error


def root_of(pid: int) -> Path:
    """Return the root of the file system that a process sees."""
    return Path(f"/proc/{pid}/root")


def _newest(root: Path, patterns: Sequence[str]) -> Path | None:
    """Return the file that was written last, the longer one of two; empty ones do not count."""
    data = root / DATA
    files = {path for pattern in patterns for path in data.glob(pattern) if not path.name.startswith(OURS)}
    stats = {path: path.stat() for path in files if path.is_file() and not path.is_symlink()}
    filled = [path for path in stats if stats[path].st_size and _is_used(path)]
    return max(filled, key=lambda path: (stats[path].st_mtime_ns, stats[path].st_size, str(path)), default=None)


def _is_used(path: Path) -> bool:
    with path.open("rb") as file:
        return _used(file.fileno(), file.seek(0, os.SEEK_END)) > 0


def _used(file: int, size: int) -> int:
    end = size
    while end > 0:
        start = max(0, end - PIECE)
        rest = os.pread(file, end - start, start).rstrip(b"\0")
        if rest:
            return start + len(rest)
        end = start
    return 0
