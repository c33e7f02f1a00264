"""Files of the store that the published pages lead to, and their places in the folder of the pages."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Final, NamedTuple

from harness.documents.hunt import COUNTEREXAMPLE
from harness.documents.messages import LOG, TRACE
from harness.run.store import REPORT

RUNS: Final = "runs"
STUDIES: Final = "studies"
_PLAIN: Final = re.compile(r"[A-Za-z0-9._-]*[A-Za-z0-9][A-Za-z0-9._-]*")
"""Name of a folder in the store; ``..`` is none."""


class RunFiles(NamedTuple):
    """Places of a run's files, relative to the folder of the pages; empty for a file that is not stored.

    ``trace`` is the log of the messages, or the decoded messages of an older run.
    """

    report: str = ""
    trace: str = ""
    counterexample: str = ""


class Copies:
    """The files of one store that are copied, by their places in the folder of the pages.

    Stored documents name folders of runs relative to the folder in which a command ran, or to themselves. Only the last
    two parts of such a path count, and they are looked up in this store, so a document cannot make other files public.
    """

    def __init__(self, store: Path) -> None:
        self.store = store
        self.sources: dict[str, Path] = {}

    def run_folder(self, stored: str | None) -> Path | None:
        """Return the folder in this store of a run that a document names; None if it is not there."""
        names = _parts(stored or "")[-2:]
        if len(names) != 2 or not all(map(_PLAIN.fullmatch, names)):
            return None
        folder = self.store.joinpath(*names)
        return folder if folder.is_dir() and not folder.is_symlink() else None

    def run(self, stored: str | None) -> RunFiles:
        """Copy the files of a run that a document names, and return their places."""
        folder = self.run_folder(stored)
        if folder is None:
            return RunFiles()
        place = PurePosixPath(RUNS, folder.parent.name, folder.name)
        trace = LOG if (folder / LOG).is_file() else TRACE
        return RunFiles(*(self._file(folder / name, place / name) for name in (REPORT, trace, COUNTEREXAMPLE)))

    def study(self, folder: Path, name: str) -> str:
        """Copy the page ``name`` of a study in ``folder``, and return its place."""
        return self._file(folder / name, PurePosixPath(STUDIES, folder.parent.name, folder.name, name))

    def _file(self, source: Path, place: PurePosixPath) -> str:
        if not source.is_file() or source.is_symlink():
            return ""
        self.sources[str(place)] = source
        return str(place)


def _parts(text: str) -> tuple[str, ...]:
    return PureWindowsPath(text).parts if "\\" in text else PurePosixPath(text).parts
