"""What many runs were made for: the comparisons, the sweeps and the hunts of a store."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from .. import store as stores
from ..options import counted
from . import files
from .index import LARGEST, when_of, why

_Stamp = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Study:
    """A comparison, a sweep or a hunt. ``parts`` is its folder in the store, ``when`` in UTC, ``page`` the name of its
    page and ``others`` those of its other files, ``trouble`` what is wrong with it, empty if nothing is."""

    parts: tuple[str, str]
    when: str
    title: str = ""
    about: str = ""
    command: str = ""
    page: str = ""
    others: tuple[str, ...] = ()
    trouble: str = ""


class _Named(msgspec.Struct):
    name: str


class _Document(msgspec.Struct, kw_only=True):
    started_at: str = ""
    command: str = ""
    interrupted: bool = False


class _Comparison(_Document, kw_only=True):
    locks: list[_Named]
    nemeses: list[_Named]
    cluster: str = ""

    @property
    def title(self) -> str:
        return f"{counted(len(self.locks), 'lock')} under {counted(len(self.nemeses), 'fault')}"

    @property
    def about(self) -> str:
        where = f"on {self.cluster}: " if self.cluster else ""
        return f"{where}{', '.join(one.name for one in self.nemeses)}"


class _OfALock(_Document, kw_only=True):
    lock: str

    @property
    def title(self) -> str:
        return self.lock


class _Sweep(_OfALock, kw_only=True):
    points: list[dict[str, Any]]

    @property
    def about(self) -> str:
        return counted(len(self.points), "point")


class _Hunt(_OfALock, kw_only=True):
    findings: list[dict[str, Any]]
    schedules: int

    @property
    def about(self) -> str:
        found = counted(len(self.findings), "failure") if self.findings else "no failure"
        return f"{found} in {counted(self.schedules, 'schedule')}"


class Studies:
    """The comparisons, the sweeps, or the hunts, of ``store``; each is read again when its document has changed."""

    def __init__(self, store: Path, folder: str) -> None:
        self.store, self.folder = store, folder
        self.name = folder.removesuffix("s")
        """Of the files of each."""
        document = {stores.COMPARISONS: _Comparison, stores.SWEEPS: _Sweep, stores.HUNTS: _Hunt}[folder]
        self._decode: Callable[[bytes], _Comparison | _Sweep | _Hunt] = msgspec.json.Decoder(document).decode
        self._seen: dict[Path, tuple[_Stamp, Study]] = {}

    def all(self) -> list[Study]:
        """The newest first."""
        found = [self._study(folder) for folder in self._folders()]
        return sorted(found, key=lambda study: (study.when, study.parts), reverse=True)

    def _folders(self) -> Iterator[Path]:
        folder = files.resolve(self.store, (self.folder,))
        if folder is not None:
            with suppress(OSError), os.scandir(folder) as entries:
                for entry in entries:
                    if files.plain(entry.name) and entry.is_dir(follow_symlinks=False):
                        yield Path(entry)

    def _study(self, folder: Path) -> Study:
        try:
            status = (folder / f"{self.name}.json").lstat()
            stamp: _Stamp = (status.st_mtime_ns, status.st_size, folder.stat().st_mtime_ns)
        except OSError:
            return self._read(folder)
        if folder not in self._seen or self._seen[folder][0] != stamp:
            self._seen[folder] = stamp, self._read(folder)
        return self._seen[folder][1]

    def _read(self, folder: Path) -> Study:
        names = [entry.parts[0] for entry in files.listing(folder) if len(entry.parts) == 1]
        page = f"{self.name}.html"
        study = Study(
            parts=(self.folder, folder.name),
            when=when_of(folder.name),
            page=page if page in names else "",
            others=tuple(name for name in names if name != page),
        )
        try:
            document = self._decode(files.read(folder / f"{self.name}.json", LARGEST))
        except (OSError, ValueError, RecursionError) as error:
            return replace(study, trouble=self._trouble(error))
        return replace(
            study,
            title=document.title, about=document.about, command=document.command,
            trouble="It was interrupted: what was measured until then is shown." if document.interrupted else "",
        )  # fmt: skip

    def _trouble(self, error: Exception) -> str:
        if isinstance(error, FileNotFoundError):
            return f"There is no {self.name}.json: it is at work at this moment, or was killed."
        return f"{self.name}.json cannot be read: {why(error)}."
