"""Write the published files into a folder, and leave every other file in it alone.

``published.json`` lists the files that are ours, each with a digest. A file that is not in the list is never replaced
or removed. A listed file that is no longer published is removed, unless somebody has changed it.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Final, Literal

import msgspec

from harness.documents.reading import load
from harness.errors import UsageError
from harness.files import cannot_write, make_writable, write_file
from harness.run.progress import Progress

MANIFEST: Final = "published.json"


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The list of the files that ``harness publish`` wrote."""

    schema: Literal[1]
    files: dict[str, str]
    """The SHA-256 of each file, by its path in the folder; empty while the command runs."""


def check_folder(folder: Path, store: Path) -> None:
    """Check that pages can be written into ``folder`` before anything is read. Raises HarnessError."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder}: expected a folder for the pages, got a file")
    if folder.resolve() == store.resolve():
        raise UsageError(f"{folder}: this is the store itself; give another folder for the pages")
    _known(folder)


def write_folder(folder: Path, files: Mapping[str, bytes | Path], progress: Progress) -> None:
    """Write ``files``, by their paths in ``folder``: their bytes, or the file that is copied.

    Raises UsageError, before anything is written, if a file of another origin is in the way. Raises HarnessError if a
    file cannot be written."""
    known, paths = _known(folder), sorted(files)
    for path in paths:
        if path not in known:
            _refuse_strange(folder / path, files[path])
    try:
        make_writable(folder)
    except OSError as error:
        raise cannot_write(folder, error) from error
    # Listed first, so that an interrupted command leaves no file without an owner.
    _write_manifest(folder, dict.fromkeys(paths, "") | known)
    digests: dict[str, str] = {}
    for number, path in enumerate(paths, 1):
        progress(0.7 + 0.3 * number / len(paths), f"writing: {path}")
        content = _bytes(files[path])
        digests[path] = hashlib.sha256(content).hexdigest()
        _write(folder / path, content)
    for path in known.keys() - digests.keys():
        _remove(folder, path, known[path])
    _write_manifest(folder, digests)


def _known(folder: Path) -> dict[str, str]:
    path = folder / MANIFEST
    return load(path, Manifest).files if path.exists() else {}


def _bytes(content: bytes | Path) -> bytes:
    if isinstance(content, bytes):
        return content
    try:
        return content.read_bytes()
    except OSError as error:
        raise UsageError(f"{content}: cannot read it: {error.strerror}") from error


def _refuse_strange(file: Path, content: bytes | Path) -> None:
    """Raise UsageError for a file that is not listed, unless it has the bytes that it would get."""
    if not (file.exists() or file.is_symlink()):
        return
    if file.is_file() and file.read_bytes() == _bytes(content):
        return
    raise UsageError(
        f"{file}: exists, and 'harness publish' did not write it; give another folder, or move the file away"
    )


def _write(file: Path, content: bytes) -> None:
    with contextlib.suppress(OSError):
        if file.read_bytes() == content:
            return
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(file.parent, error) from error
    write_file(file, content, sync=False)  # of hundreds of files, each sync may take a tenth of a second


def _remove(folder: Path, path: str, digest: str) -> None:
    """Remove a file of ours that is no longer published, and the folders that are empty then."""
    if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
        return
    file = folder / path
    with contextlib.suppress(OSError):
        if hashlib.sha256(file.read_bytes()).hexdigest() == digest:
            file.unlink()
            for parent in PurePosixPath(path).parents[:-1]:
                (folder / parent).rmdir()


def _write_manifest(folder: Path, digests: Mapping[str, str]) -> None:
    document = Manifest(schema=1, files=dict(sorted(digests.items())))
    write_file(folder / MANIFEST, msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n")
