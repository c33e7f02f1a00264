"""Cache of client files on this host: a folder for each content, which later runs use again.

Several runs may use it at the same time. A folder appears whole, by renaming, and its name is the hash of its contents,
so that it never changes. The process that uses a folder holds a shared lock (flock(2)) on its file :data:`MARK`, whose
time is that of the last use. A folder is removed only with the exclusive lock.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
import zipfile
from pathlib import Path
from typing import IO, Final

KEPT: Final = 4
"""Number of folders of each kind that are kept, besides those in use; the last used ones stay."""
MARK: Final = ".last-use"
STALE_S: Final = 3600.0
"""Age at which an unfinished folder counts as left behind by a killed process."""
_UNFINISHED: Final = ".unfinished-"


def home() -> Path:
    """Return the folder of this user's cache; it may not exist yet."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lock-harness" / "clients"


class ClientCache:
    """The cache in the folder ``home``. Names of its folders are ``KIND-HASH``."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._held: list[IO[bytes]] = []

    def find(self, name: str) -> Path | None:
        """Return the folder with this name, and keep it for as long as this process runs; None if there is none."""
        folder = self._home / name
        with contextlib.suppress(OSError):
            mark = (folder / MARK).open("r+b")
            fcntl.flock(mark, fcntl.LOCK_SH)
            if os.path.samestat(os.fstat(mark.fileno()), (folder / MARK).stat()):  # it was not removed meanwhile
                os.utime(folder / MARK)
                self._held.append(mark)
                return folder
            mark.close()
        return None

    def add(self, name: str, archive: Path) -> Path | None:
        """Unpack a zip file as the folder with this name and keep that as :meth:`find` does; remove old folders of its
        kind. Return None if the cache cannot be written to."""
        try:
            self._home.mkdir(mode=0o700, parents=True, exist_ok=True)
            fresh = self._unfinished()
        except OSError:
            return None
        try:
            with zipfile.ZipFile(archive) as packed:
                packed.extractall(fresh)
            mark = (fresh / MARK).open("x+b")
            fcntl.flock(mark, fcntl.LOCK_SH)
            fresh.rename(self._home / name)
            self._held.append(mark)
            return self._home / name
        except OSError:  # another run has made the folder meanwhile, or the disk is full
            return self.find(name)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
            self._remove_old(name.partition("-")[0])

    def _unfinished(self) -> Path:
        return Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=self._home))

    def _remove_old(self, kind: str) -> None:
        marks = sorted(self._home.glob(f"{kind}-*/{MARK}"), key=_changed, reverse=True)
        for mark in marks[KEPT:]:
            with contextlib.suppress(OSError), mark.open("r+b") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises BlockingIOError if it is in use
                old = self._unfinished()
                mark.parent.rename(old)
                shutil.rmtree(old)
        for left in self._home.glob(f"{_UNFINISHED}*"):
            if _changed(left) < time.time() - STALE_S:
                shutil.rmtree(left, ignore_errors=True)


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:  # it was removed meanwhile
        return time.time()
