"""Write files so that each appears whole or not at all, also on a full disk or when the process is killed.

Streams of lines (:class:`LineStream`) are the exception: they can be read while they grow, and end with a whole line.
"""

from __future__ import annotations

import contextlib
import errno
import io
import itertools
import os
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

from .errors import EnvironmentLacking, HarnessError, UsageError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

WRONG_PATH: Final = frozenset(
    {errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ELOOP, errno.ENAMETOOLONG, errno.EINVAL}
)
"""Errors that another path avoids. With all others the machine lacks something: space, or permission."""
_NUMBERS: Final = itertools.count()


def cannot_write(what: Path | str, error: OSError, hint: str = "") -> HarnessError:
    """Return the error for ``what`` that could not be written: exit status 2 if the path is wrong, else 4."""
    kind = UsageError if error.errno in WRONG_PATH else EnvironmentLacking
    return kind(f"cannot write {what}: {error.strerror or error}{hint}")


@contextlib.contextmanager
def whole_file(path: Path, *, sync: bool = True) -> Iterator[IO[bytes]]:
    """Open a file that appears at ``path``, or replaces the file there, when the block ends without an error.

    Without ``sync`` it may be lost or empty if the machine loses power soon after: for files that can be made again.

    Raises HarnessError (see :func:`cannot_write`) for an error of the file system. A link is followed; a device or a
    pipe is written to directly.
    """
    target = Path(os.path.realpath(path))
    try:
        mode = target.stat().st_mode if target.exists() else None
        if mode is not None and not stat.S_ISREG(mode):
            with target.open("wb") as file:
                yield file
            return
        fresh = target.with_name(f".{target.name[:100]}.{os.getpid()}-{next(_NUMBERS)}.part")
        try:
            with fresh.open("xb") as file:
                yield file
                file.flush()
                if mode is not None:
                    fresh.chmod(stat.S_IMODE(mode))
                if sync:
                    os.fsync(file.fileno())
            fresh.replace(target)
        except BaseException:
            with contextlib.suppress(OSError):
                fresh.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise cannot_write(path, error) from error


def write_file(path: Path, content: bytes | str, *, sync: bool = True) -> None:
    """Write a whole file, text as UTF-8 (``?`` for lone surrogates). ``sync`` and errors as :func:`whole_file`."""
    with whole_file(path, sync=sync) as file:
        file.write(content if isinstance(content, bytes) else content.encode(errors="replace"))


def make_writable(folder: Path) -> None:
    """Make the folder if it is missing. Raises OSError if no file can be made in it."""
    folder.mkdir(parents=True, exist_ok=True)
    probe = folder / f".{os.getpid()}-{next(_NUMBERS)}.part"
    probe.open("xb").close()
    probe.unlink()


def require_place(path: Path) -> None:
    """Make the folder of a file that is written later. Raises HarnessError if it cannot be written there."""
    try:
        if not path.exists():
            make_writable(path.parent)
        elif path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        elif not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        elif path.is_file():
            make_writable(path.resolve().parent)
    except OSError as error:
        raise cannot_write(path, error) from error


def refuse_device(path: Path) -> None:
    """Raise OSError for a device, such as ``/dev/zero``, which may never end."""
    if path.exists() and not (path.is_file() or path.is_dir() or path.is_fifo()):
        raise OSError(errno.EINVAL, "it is a device", str(path))


def read_regular(path: Path, most: int) -> bytes:
    """Return the contents of a regular file of at most ``most`` bytes.

    Raises UsageError for a larger file, a device or a pipe, OSError if the file cannot be read.
    """
    status = path.stat()
    if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
        raise UsageError(f"{path}: expected a file, got a device or a pipe")
    if status.st_size > most:
        raise UsageError(f"{path}: expected a file of at most {most:,} bytes, got {status.st_size:,}")
    with path.open("rb") as file:
        return file.read(most)


def unzipped(packed: bytes, most: int) -> bytes:
    """Return what a whole gzip file of at most ``most`` bytes contains. Raises ValueError or zlib.error for another."""
    unzip = zlib.decompressobj(zlib.MAX_WBITS | 16)
    content = unzip.decompress(packed, most)
    if unzip.unconsumed_tail or not unzip.eof:
        raise ValueError(f"not a whole file of at most {most >> 20} MB")
    return content


class WriterMark:
    """Marks a file as being written until :meth:`close`, or until this process ends in whatever way.

    The mark is a lock on the file itself (``flock``), which readers without permission to write can see. Windows would
    not let others read a locked file. There the lock is on ``<name>.lock``, a file beside it.
    """

    def __init__(self, path: Path, file: LineStream) -> None:
        self._beside: contextlib.ExitStack = contextlib.ExitStack()
        with contextlib.suppress(OSError):  # on a file system without locks, the file looks as if nobody wrote to it
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX)
            else:
                self._lock_beside(_mark_of(path))

    def _lock_beside(self, path: Path) -> None:
        from filelock import FileLock  # slow to import

        self._beside.callback(path.unlink, missing_ok=True)
        self._beside.enter_context(FileLock(path, thread_local=False).acquire(timeout=0))

    def close(self) -> None:
        """Remove the mark, after the file was closed."""
        with contextlib.suppress(OSError):
            self._beside.close()


def _mark_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.lock")


def is_being_written(path: Path) -> bool:
    """Return whether a process has marked the file with :class:`WriterMark`."""
    try:
        if fcntl is None:
            return _is_locked(_mark_of(path))
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _is_locked(path: Path) -> bool:
    from filelock import FileLock, Timeout

    if not path.exists():
        return False
    try:
        with FileLock(path, timeout=0):
            return False
    except Timeout:
        return True


class LineStream:
    """Appends lines to a new file, so that it ends with a whole line at any moment.

    Up to ``buffer`` bytes of lines are collected before they are written. After an error of the file system the file
    ends with the last whole line, and further lines are dropped.
    """

    def __init__(self, path: Path, buffer: int = 0) -> None:
        self._path = path
        self._buffer = buffer
        self._waiting = bytearray()
        self._length = 0
        self._broken = False
        try:
            self._file: io.FileIO = path.open("wb", buffering=0)
        except OSError as error:
            raise cannot_write(path, error) from error

    def fileno(self) -> int:
        return self._file.fileno()

    @property
    def closed(self) -> bool:
        return self._file.closed

    def write(self, line: bytes) -> None:
        """Append a line, which includes its line end. Raises HarnessError for the first line that cannot be written."""
        self._waiting += line
        if len(self._waiting) > self._buffer:
            self.flush()

    def flush(self) -> None:
        """Write the lines that wait. Raises HarnessError for the first that cannot be written."""
        lines, self._waiting = bytes(self._waiting), bytearray()
        if self._broken:
            return
        try:
            written = 0
            while written < len(lines):
                written += self._file.write(lines[written:]) or 0
            self._length += written
        except OSError as error:
            self._broken = True
            with contextlib.suppress(OSError):
                self._file.truncate(self._length + lines.rfind(b"\n", 0, written) + 1)
            raise cannot_write(self._path, error) from error

    def close(self) -> None:
        """Write what waits, and close the file."""
        if not self._file.closed:
            try:
                self.flush()
            finally:
                self._file.close()
