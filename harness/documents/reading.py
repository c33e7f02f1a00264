"""Read stored documents: JSON bytes in, a typed struct out, and one bounded error for whatever is wrong with them.

msgspec decodes and checks a document in one pass. Its error names neither the key of a mapping nor the value, so
:func:`harness.documents.faulty.first_problem` looks for the problem in a document that msgspec refused.
"""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
from msgspec import UnsetType

from harness.errors import UsageError

from .faulty import first_problem

LARGEST: Final = 256 * 1024 * 1024
"""Bytes of the largest document that is read."""
LONGEST_MESSAGE: Final = 600
"""Characters of an error."""

D = TypeVar("D", bound=msgspec.Struct)
T = TypeVar("T")


class DocumentError(UsageError):
    """A stored file is not what it should be. The message names the file, the place in it and what was expected."""

    def __init__(self, message: str) -> None:
        super().__init__(message if len(message) <= LONGEST_MESSAGE else f"{message[: LONGEST_MESSAGE - 1]}…")


def load(path: Path, kind: type[D]) -> D:
    """Read the document in the file ``path``; DocumentError if it cannot be read or is malformed."""
    return decode(_bytes(path), kind, str(path))


def decode(data: bytes, kind: type[D], place: str) -> D:
    """Decode the bytes of a document; ``place`` is what an error calls it."""
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError as error:
        raise _malformed(_parsed(data, place), kind, place, error) from error
    except (ValueError, RecursionError) as error:  # DecodeError is a ValueError, as is that of wrong UTF-8
        _parsed(data, place)
        raise DocumentError(f"{place}: expected a JSON object: {error}") from error


def convert(data: object, kind: type[D], place: str) -> D:
    """Make a document of plain data; ``place`` is what an error calls it."""
    try:
        return msgspec.convert(data, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise _malformed(data, kind, place, error) from error


def plain(document: msgspec.Struct) -> dict[str, Any]:
    """Return the document as it is stored: dicts, lists, strings, numbers."""
    data: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(document))
    return data


def indented(document: msgspec.Struct | dict[str, Any]) -> bytes:
    """Return the bytes of the document's file: JSON with an entry a line, and a line end."""
    return msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n"


def present(value: T | UnsetType) -> T | None:
    """Return the value of a field that older documents may lack; None if it is not there."""
    return None if isinstance(value, UnsetType) else value


def _bytes(path: Path) -> bytes:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise DocumentError(f"{path}: cannot read it: it is not a file")
        if status.st_size > LARGEST:
            raise DocumentError(f"{path}: expected at most {LARGEST:,} bytes, got {status.st_size:,}")
        return path.read_bytes()
    except OSError as error:
        raise DocumentError(f"{path}: cannot read it: {error.strerror}") from error


def _parsed(data: bytes, place: str) -> object:
    """Parse JSON that msgspec refused, for an error that names the line."""
    try:
        return json.loads(data)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise DocumentError(f"{place}, {where}: expected a JSON object: {error.msg}; is the file truncated?") from error
    except UnicodeDecodeError as error:
        raise DocumentError(f"{place}, byte {error.start}: expected a JSON object in UTF-8: {error.reason}") from error
    except RecursionError as error:
        raise DocumentError(f"{place}: expected a JSON object, got one that is nested too deeply") from error


def _malformed(data: object, kind: type[msgspec.Struct], place: str, error: Exception) -> DocumentError:
    try:
        problem = first_problem(data, kind)
    except RecursionError:
        problem = None
    if problem is None:
        return DocumentError(f"{place}: {error}")
    where = f"{problem.path}: " if problem.path else ""
    return DocumentError(f"{place}: {where}{problem.text}")
