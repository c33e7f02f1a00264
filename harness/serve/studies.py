"""Lists of the studies in a store: comparisons of locks and of releases, sweeps, hunts and bisections."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import msgspec

from harness.documents.heads import ComparisonHead, HuntHead, ReleasesHead, SweepHead
from harness.run import store as stores
from harness.wording import counted

from . import files
from .index import LARGEST, when_of, why

INTERRUPTED = "Interrupted: the page shows what was measured before the interruption."
Head = ComparisonHead | SweepHead | HuntHead | ReleasesHead
SORTS: Final[dict[str, tuple[str, type[Head]]]] = {
    stores.COMPARISONS: ("comparison", ComparisonHead),
    stores.SWEEPS: ("sweep", SweepHead),
    stores.HUNTS: ("hunt", HuntHead),
    stores.BISECTIONS: ("bisect", ReleasesHead),
    stores.VERSIONS: ("versions", ReleasesHead),
}
"""Folder of the store → the stem of the file names in each of its studies, and what the list reads of a document."""
NOUNS: Final = {
    stores.COMPARISONS: ("comparison", "comparisons"),
    stores.SWEEPS: ("sweep", "sweeps"),
    stores.HUNTS: ("hunt", "hunts"),
    stores.BISECTIONS: ("bisection", "bisections"),
    stores.VERSIONS: ("comparison of releases", "comparisons of releases"),
}
_Stamp = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Study:
    """A comparison of locks or of releases, a sweep, a hunt or a bisection.

    ``parts`` is its folder in the store. ``when`` is in UTC. ``page`` is the name of its page, and ``others`` are the
    names of its other files. ``failures`` are those that a hunt found, without known limits; None for other studies.
    ``trouble`` says what is wrong with it, empty if nothing is.
    """

    parts: tuple[str, str]
    when: str
    title: str = ""
    about: str = ""
    command: str = ""
    page: str = ""
    others: tuple[str, ...] = ()
    failures: int | None = None
    trouble: str = ""


def title_of(head: Head) -> str:
    """Return the title of a study in the list."""
    if isinstance(head, ComparisonHead):
        return f"{counted(len(head.locks), 'lock')} under {counted(len(head.nemeses), 'fault')}"
    return head.lock


def about(head: Head) -> str:
    """Return what the list tells about a study beside its title."""
    match head:
        case ComparisonHead():
            where = f"on {head.cluster}: " if head.cluster else ""
            return f"{where}{', '.join(one.name for one in head.nemeses)}"
        case SweepHead():
            return counted(len(head.points), "point")
        case HuntHead():
            new = _failures(head)
            known = len(head.findings) - new
            found = counted(new, "failure") if new else "no failure"
            limits = f" and {counted(known, 'known limit')}" if known else ""
            return f"{found}{limits} in {counted(head.schedules, 'schedule')}"
        case ReleasesHead():
            return head.conclusion


def _failures(head: HuntHead) -> int:
    return sum(not found.known for found in head.findings)


def conclusion(folder: str, studies: Sequence[Study]) -> str:
    """Return in a sentence how many studies of one sort there are, and how many hunts found a failure."""
    one, several = NOUNS[folder]
    whole = sum(not study.trouble for study in studies)
    failing = sum(bool(study.failures) for study in studies)
    incomplete = f", {len(studies) - whole:,} incomplete" if whole < len(studies) else ""
    found = f"; {failing or 'none'} found a failure" if folder == stores.HUNTS else ""
    return f"{len(studies):,} {one if len(studies) == 1 else several}: {whole:,} complete{incomplete}{found}."


class Studies:
    """The studies in one folder of ``store``; each is read again when its document has changed."""

    def __init__(self, store: Path, folder: str) -> None:
        self.store, self.folder = store, folder
        self.name, head = SORTS[folder]
        self._decode: Callable[[bytes], Head] = msgspec.json.Decoder(head).decode
        self._seen: dict[Path, tuple[_Stamp, Study]] = {}

    def all(self) -> list[Study]:
        """Return all studies, the newest first."""
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
            head = self._decode(files.read(folder / f"{self.name}.json", LARGEST))
        except (OSError, ValueError, RecursionError) as error:
            return replace(study, trouble=self._trouble(error))
        return replace(
            study,
            title=title_of(head), about=about(head), command=head.command,
            failures=_failures(head) if isinstance(head, HuntHead) else None,
            trouble=INTERRUPTED if head.interrupted else "",
        )  # fmt: skip

    def _trouble(self, error: Exception) -> str:
        if isinstance(error, FileNotFoundError):
            return f"There is no {self.name}.json: the command is still running, or was killed."
        return f"{self.name}.json cannot be read: {why(error)}."
