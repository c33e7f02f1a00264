"""Map request paths to files of the store. This module alone ensures that no request leaves the store.

It splits the raw path before anything decodes it. It decodes each part between two slashes once; the result must be a
plain name. The target must be in the store after all links are resolved. The module then opens it component by
component without following links, so that nobody can replace it by a link between the check and the opening.
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

from harness.run import store as stores

LONGEST: Final = 4096
"""The most bytes of a path; file systems allow no longer ones."""
CHUNK: Final = 256 * 1024
"""Bytes read from a file at a time."""
DEEPEST: Final = 32
"""The deepest nesting of folders that is searched; runs have two levels."""
_PLAIN: Final = re.compile(r"[^./\\\x00-\x1f\x7f][^/\\\x00-\x1f\x7f]*").fullmatch
_NO_LINK: Final = getattr(os, "O_NOFOLLOW", 0)
_NO_WAIT: Final = getattr(os, "O_NONBLOCK", 0)
_BINARY: Final = getattr(os, "O_BINARY", 0)
"""Flags of ``os.open``; the first two are missing on Windows, and the last one elsewhere."""
TEXT: Final = "text/plain; charset=utf-8"
KINDS: Final = {
    ".html": "text/html; charset=utf-8", ".json": "application/json", ".svg": "image/svg+xml", ".png": "image/png",
    ".csv": "text/csv; charset=utf-8", ".gz": "application/gzip", ".jsonl": TEXT, ".toml": TEXT, ".log": TEXT,
    ".md": TEXT, ".txt": TEXT,
}  # fmt: skip
"""Content types by suffix; a browser downloads all other files instead of showing them."""


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file in a run's folder: its path below that folder as parts, and its size in bytes."""

    parts: tuple[str, ...]
    size: int


def parts_of(raw: bytes) -> tuple[str, ...] | None:
    """Return the names in the raw path of a request (``/store/a%20b``); a slash at the end is not a name.

    Returns None for a path that no page or file here can have: a name that begins with a dot, an encoded slash or NUL,
    or an empty name between two slashes.
    """
    if len(raw) > LONGEST or not raw.startswith(b"/"):
        return None
    names = [os.fsdecode(unquote_to_bytes(name)) for name in raw.removesuffix(b"/").split(b"/")[1:]]
    return tuple(names) if all(plain(name) for name in names) else None


def plain(name: str) -> bool:
    """Return whether ``name`` is a plain file name: not hidden, without slashes."""
    return _PLAIN(name) is not None


def resolve(store: Path, parts: Sequence[str]) -> Path | None:
    """Return the target of the names, with links followed; None if it does not exist, is outside of the store, or is
    hidden."""
    if not all(plain(part) for part in parts):
        return None
    try:
        root = store.resolve(strict=True)
        real = root.joinpath(*parts).resolve(strict=True)
    except (OSError, RuntimeError, ValueError):  # missing, a loop of links, or too long
        return None
    inside = real.is_relative_to(root) and all(plain(name) for name in real.relative_to(root).parts)
    return real if inside else None


def run_folder(store: Path, lock: str, run: str) -> Path | None:
    """Return the folder of a run, ``<store>/<lock>/<run>``; None if it does not exist."""
    real = None if lock in stores.NOT_LOCKS else resolve(store, (lock, run))
    return real if real is not None and real.is_dir() else None


def open_file(store: Path, parts: Sequence[str]) -> BinaryIO | None:
    """Open a regular file of the store for reading; None for anything else, and for a file without permission to
    read."""
    real = resolve(store, parts)
    if real is None:
        return None
    if os.open not in os.supports_dir_fd:  # Windows
        return _open_by_path(real)
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
    """Open the path name by name without following links: the check of the path has resolved all of them."""
    first, *rest = parts
    if rest:
        with _opened_folder(first, folder) as inner:
            return _open_below(inner, rest)
    descriptor = os.open(first, os.O_RDONLY | _NO_LINK | _NO_WAIT, dir_fd=folder)  # a FIFO would block
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    return None


def _open_by_path(path: Path) -> BinaryIO | None:
    """Open a resolved path. A link that replaces one of its folders meanwhile would be followed."""
    with suppress(OSError):
        if is_file(path):
            return path.open("rb")
    return None


def read(path: Path, most: int) -> bytes:
    """Return the content of a regular file of at most ``most`` bytes; raises OSError with the reason for any other."""
    descriptor = os.open(path, os.O_RDONLY | _NO_LINK | _NO_WAIT | _BINARY)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(0, "it is not a file")
        if status.st_size > most:
            raise OSError(0, f"it has {status.st_size:,} bytes")
        return file.read(most)


def is_file(path: Path) -> bool:
    """Return whether ``path`` is a regular file and not a link."""
    with suppress(OSError, ValueError):
        return stat.S_ISREG(path.lstat().st_mode)
    return False


def recording(folder: Path) -> bool:
    """Return whether a run is being recorded in this folder now."""
    return is_file(folder / stores.HISTORY) and stores.in_progress(folder)


def listing(folder: Path) -> list[ListedFile]:
    """Return the files in a run's folder and its subfolders, sorted by name.

    Links, hidden files and files without permission are left out.
    """
    return sorted(_walk(folder, ()), key=lambda entry: (len(entry.parts), entry.parts))


def _walk(folder: Path, above: tuple[str, ...]) -> Iterator[ListedFile]:
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
                    yield ListedFile((*above, entry.name), entry.stat(follow_symlinks=False).st_size)


def size(file: BinaryIO) -> int:
    """Return the size of an open file in bytes."""
    return os.fstat(file.fileno()).st_size


def changed_ns(file: BinaryIO) -> int:
    """Return when an open file was last changed, ns since 1970."""
    return os.fstat(file.fileno()).st_mtime_ns


def pieces(file: BinaryIO, length: int) -> Iterator[bytes]:
    """Yield at most ``length`` bytes of an open file, which may grow meanwhile, and close it."""
    with file:
        while length > 0 and (piece := file.read(min(CHUNK, length))):
            length -= len(piece)
            yield piece
