"""Stream all files of a folder as one zip file, in constant memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final
from zipfile import ZIP_DEFLATED, ZIP_STORED

from zipstream import ZipStream

from . import files

COMPRESSED: Final = frozenset({".png", ".gz", ".zip"})
"""Suffixes of files that are compressed already."""

_STORED: Final[dict[str, int]] = {"compress_type": ZIP_STORED}
_DEFLATED: Final[dict[str, int]] = {"compress_type": ZIP_DEFLATED, "compress_level": 6}
"""The level is given for each file: given for the archive, zipstream warns of it at each stored file."""


def stream(store: Path, folder: tuple[str, ...]) -> Iterator[bytes]:
    """Yield the bytes of a zip file of ``folder`` (its parts in the store).

    Unreadable files are left out; of a file that grows, only the part that exists at its turn is sent.
    """
    archive = ZipStream(compress_type=ZIP_DEFLATED)
    for entry in files.listing(store.joinpath(*folder)):
        file = files.open_file(store, (*folder, *entry.parts))
        if file is None:
            continue
        name = "/".join((folder[-1], *entry.parts)).encode(errors="replace").decode()
        stored = Path(name).suffix in COMPRESSED
        pieces = files.pieces(file, files.size(file))
        archive.add(pieces, name, **(_STORED if stored else _DEFLATED))
        yield from archive.all_files()
    yield from archive.footer()
