"""A package index in a thread of this process."""

from __future__ import annotations

import io
import tarfile
import threading
import zipfile
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class PackageIndex:
    """Serves ``pages`` (path → media type and bytes); any other path is absent. ``asked`` are (path, Authorization)."""

    def __init__(self, pages: Mapping[str, tuple[str, bytes]]) -> None:
        self.asked: list[tuple[str, str | None]] = []
        index = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                index.asked.append((self.path, self.headers["Authorization"]))
                found = pages.get(self.path)
                self.send_response(200 if found else 404)
                self.send_header("Content-Type", found[0] if found else "text/plain")
                self.end_headers()
                self.wfile.write(found[1] if found else b"absent")

            def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002 - the name of the base class

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server.server_port}"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


def sdist(files: Mapping[str, str]) -> bytes:
    """Return a source distribution with these files."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    return data.getvalue()


def wheel(files: Mapping[str, str]) -> bytes:
    """Return a wheel with these files."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return data.getvalue()
