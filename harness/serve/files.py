"""Which file of the store a path means. All that keeps a request inside the store is here, and only here.

A path is taken apart as it came over the wire, before anybody decodes it: each part between two slashes is decoded
once and must then be a plain name. What the parts lead to must be in the store even with all links followed, and is
opened name by name from there, so that it cannot become something else in between.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final
from urllib.parse import unquote_to_bytes

from .. import store as stores

LONGEST: Final = 4096
"""Bytes of a path; no file system has longer ones."""
DEEPEST: Final = 32
"""Folders within each other that are looked into; runs have two."""
NO_LOCKS: Final = frozenset({stores.SWEEPS, stores.COMPARISONS, stores.HUNTS, stores.FAILURES, stores.LATEST})
"""Names in the store that are no lock's folder."""
_PLAIN: Final = re.compile(r"[^./\\\x00-\x1f\x7f][^/\\\x00-\x1f\x7f]*").fullmatch
TEXT: Final = "text/plain; charset=utf-8"
KINDS: Final = {
    ".html": "text/html; charset=utf-8", ".json": "application/json", ".svg": "image/svg+xml", ".png": "image/png",
    ".csv": "text/csv; charset=utf-8", ".gz": "application/gzip", ".jsonl": TEXT, ".toml": TEXT, ".log": TEXT,
    ".md": TEXT, ".txt": TEXT,
}  # fmt: skip
"""What a browser is told of a file, by its suffix; all others are for keeping, not for showing."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A file in a run's folder: its parts below that folder, and its bytes."""

    parts: tuple[str, ...]
    size: int


def parts_of(raw: bytes) -> tuple[str, ...] | None:
    """The names in the path of a request, as on the wire (``/store/a%20b``); a slash at the end is not a name. None for
    what no page or file of ours is called: dots first, slashes or NUL in disguise, nothing between two slashes."""
    if len(raw) > LONGEST or not raw.startswith(b"/"):
        return None
    names = [os.fsdecode(unquote_to_bytes(name)) for name in raw.removesuffix(b"/").split(b"/")[1:]]
    return tuple(names) if all(plain(name) for name in names) else None


def plain(name: str) -> bool:
    """Is this the name of one thing in a folder, and not of a hidden one?"""
    return _PLAIN(name) is not None


def resolve(store: Path, parts: Sequence[str]) -> Path | None:
    """What the names lead to, links followed; None if it is not there, or not in the store, or hidden there."""
    if not all(plain(part) for part in parts):
        return None
    try:
        root = store.resolve(strict=True)
        real = root.joinpath(*parts).resolve(strict=True)
    except (OSError, RuntimeError, ValueError):  # not there, links in a circle, too long
        return None
    inside = real.is_relative_to(root) and all(plain(name) for name in real.relative_to(root).parts)
    return real if inside else None


def run_folder(store: Path, lock: str, run: str) -> Path | None:
    """The folder of a run, ``<store>/<lock>/<run>``; None if there is none."""
    real = None if lock in NO_LOCKS else resolve(store, (lock, run))
    return real if real is not None and real.is_dir() else None


def open_file(store: Path, parts: Sequence[str]) -> BinaryIO | None:
    """A regular file of the store, opened to be read; None for all else, also for what may not be read."""
    real = resolve(store, parts)
    if real is None:
        return None
    with suppress(OSError), _opened_folder(store.resolve()) as root:
        return _open_below(root, real.relative_to(store.resolve()).parts)
    return None


@contextmanager
def _opened_folder(path: Path | str, within: int | None = None) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=within)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _open_below(folder: int, parts: Sequence[str]) -> BinaryIO | None:
    """Name by name and through no link: none was left when the path was looked at."""
    first, *rest = parts
    if rest:
        with _opened_folder(first, folder) as inner:
            return _open_below(inner, rest)
    descriptor = os.open(first, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)  # a FIFO would wait
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    return None


def read(path: Path, most: int) -> bytes:
    """A regular file of at most so many bytes; OSError says what is the matter with any other."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(0, "it is not a file")
        if status.st_size > most:
            raise OSError(0, f"it has {status.st_size:,} bytes")
        return file.read(most)


def is_file(path: Path) -> bool:
    """Is this a regular file, and no link to one?"""
    with suppress(OSError, ValueError):
        return stat.S_ISREG(path.lstat().st_mode)
    return False


def recording(folder: Path) -> bool:
    """Is a run being recorded in this folder at this moment?"""
    return is_file(folder / stores.HISTORY) and stores.in_progress(folder)


def listing(folder: Path) -> list[Entry]:
    """The files in a run's folder and the folders in it, by name; links, hidden files and what cannot be looked at are
    left out."""
    return sorted(_walk(folder, ()), key=lambda entry: (len(entry.parts), entry.parts))


def _walk(folder: Path, above: tuple[str, ...]) -> Iterator[Entry]:
    if len(above) >= DEEPEST:
        return
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):
                if not plain(entry.name):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    yield from _walk(Path(entry), (*above, entry.name))
                elif entry.is_file(follow_symlinks=False):
                    yield Entry((*above, entry.name), entry.stat(follow_symlinks=False).st_size)


def size(file: BinaryIO) -> int:
    """Bytes of an open file."""
    return os.fstat(file.fileno()).st_size


def changed_ns(file: BinaryIO) -> int:
    """When an open file was changed, ns since 1970."""
    return os.fstat(file.fileno()).st_mtime_ns
