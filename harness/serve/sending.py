"""Files of the store as answers: what a browser is told of them, and what they may do there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath
from typing import BinaryIO, Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from . import files, zipped

WHOLE: Final = 1024 * 1024
"""Bytes of a file that is sent in one piece."""
PAGES: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "sandbox allow-scripts allow-downloads allow-top-navigation-by-user-activation"
)
"""Of stored pages: their scripts run, but as those of a stranger, who can read nothing of this server."""
OTHERS: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; sandbox"
)
"""Of everything else: no script runs, also not in a picture."""


def stored(request: Request, file: BinaryIO, name: str) -> Response:
    """A file that was opened with :func:`files.open_file`, as the answer to a request; closes it."""
    kind = files.KINDS.get(PurePath(name).suffix.lower(), "application/octet-stream")
    length = files.size(file)
    tag = f'"{files.changed_ns(file):x}-{length:x}"'
    headers = {"etag": tag, "cache-control": "no-cache", "content-type": kind}
    headers["content-security-policy"] = PAGES if kind.startswith("text/html") else OTHERS
    if kind == "application/octet-stream":
        headers["content-disposition"] = attachment(name)
    if request.headers.get("if-none-match") == tag:
        file.close()
        return Response(status_code=304, headers=headers)
    headers["content-length"] = str(length)
    if request.method == "HEAD" or length <= WHOLE:
        with file:
            return Response(b"" if request.method == "HEAD" else file.read(length), headers=headers)
    return StreamingResponse(_pieces(file, length), headers=headers)


def _pieces(file: BinaryIO, length: int) -> Iterator[bytes]:
    """So many bytes of a file, also if it grows meanwhile."""
    with file:
        while length > 0 and (piece := file.read(min(zipped.CHUNK, length))):
            length -= len(piece)
            yield piece


def attachment(name: str) -> str:
    """The header that has a browser keep a file under this name."""
    return f"attachment; filename*=UTF-8''{quote(name.encode(errors='replace'), safe='')}"
