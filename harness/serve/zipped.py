"""All files of a folder in one, made while it is being sent: memory stays the same however large they are."""

from __future__ import annotations

import io
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from . import files

CHUNK: Final = 256 * 1024
PACKED: Final = frozenset({".png", ".gz", ".zip"})
"""What does not get smaller."""


class _Pipe(io.RawIOBase):
    """Takes what a ZipFile writes until somebody fetches it. It cannot be rewound, which the ZipFile notices."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: bytes, /) -> int:  # type: ignore[override]
        self._parts.append(bytes(data))
        return len(data)

    def fetch(self) -> bytes:
        parts, self._parts = self._parts, []
        return b"".join(parts)


def stream(store: Path, folder: tuple[str, ...]) -> Iterator[bytes]:
    """The bytes of a zip file of ``folder`` of the store (its parts). Each file is taken as long as it is when its turn
    comes, also one that grows; what cannot be read is left out."""
    pipe = _Pipe()
    with zipfile.ZipFile(pipe, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for entry in files.listing(store.joinpath(*folder)):
            file = files.open_file(store, (*folder, *entry.parts))
            if file is not None:
                with file:
                    for _ in _add(archive, "/".join((folder[-1], *entry.parts)), file):
                        yield pipe.fetch()
    yield pipe.fetch()


def _add(archive: zipfile.ZipFile, name: str, file: BinaryIO) -> Iterator[None]:
    """Put a file into the archive, a piece at a time."""
    with archive.open(_about(name, file), "w", force_zip64=True) as into:
        left = files.size(file)
        while left > 0 and (piece := file.read(min(CHUNK, left))):
            into.write(piece)
            left -= len(piece)
            yield


def _about(name: str, file: BinaryIO) -> zipfile.ZipInfo:
    moment = time.gmtime(min(max(files.changed_ns(file) // 1_000_000_000, 315_532_800), 4_354_819_198))  # 1980 to 2107
    info = zipfile.ZipInfo(name.encode(errors="replace").decode(), moment[:6])
    info.compress_type = zipfile.ZIP_STORED if Path(name).suffix in PACKED else zipfile.ZIP_DEFLATED
    info.external_attr = 0o644 << 16
    return info
