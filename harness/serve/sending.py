"""Send files of the store, with content types and with security policies that isolate them from this server."""

from __future__ import annotations

from pathlib import PurePath
from typing import BinaryIO, Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from . import files

WHOLE: Final = 1024 * 1024
"""The most bytes of a file that is sent in one piece."""
PAGES: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "sandbox allow-scripts allow-downloads allow-top-navigation-by-user-activation"
)
"""Policy of stored pages: their scripts run as another origin, which can read nothing from this server."""
OTHERS: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; sandbox"
)
"""Policy of all other files: no script runs, not even in a picture."""


def stored(request: Request, file: BinaryIO, name: str) -> Response:
    """Return a file that :func:`files.open_file` opened as the response to a request; the response closes the file."""
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
    return StreamingResponse(files.pieces(file, length), headers=headers)


def attachment(name: str) -> str:
    """Return the header that makes a browser save a file under this name."""
    return f"attachment; filename*=UTF-8''{quote(name.encode(errors='replace'), safe='')}"
