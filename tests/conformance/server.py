"""A minimal lock server over TCP: each request is a JSON array on a line, each answer a value on a line."""

from __future__ import annotations

import json
import socketserver
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class LockServer(socketserver.ThreadingTCPServer):
    """``take key token ttl`` answers with a fence, or null if the lock is busy. ``drop key token`` and ``keep key
    token ttl`` answer whether the token held it; a null token matches any holder."""

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        self._held: dict[str, tuple[str, float]] = {}
        self._fence = 0
        self._lock = threading.Lock()

    def answer(self, op: str, key: str, token: str | None, ttl: float = 0.0) -> Any:
        now = time.monotonic()
        with self._lock:
            holder, until = self._held.get(key, ("", 0.0))
            held = until > now
            if op == "take":
                if held or token is None:
                    return None
                self._held[key] = token, now + ttl
                self._fence += 1
                return self._fence
            mine = held and token in (holder, None)
            if mine and op == "drop":
                del self._held[key]
            elif mine:
                self._held[key] = holder, now + ttl
            return mine


class _Connection(socketserver.StreamRequestHandler):
    server: LockServer
    disable_nagle_algorithm = True

    def handle(self) -> None:
        for line in self.rfile:
            self.wfile.write(json.dumps(self.server.answer(*json.loads(line))).encode() + b"\n")


@contextmanager
def running() -> Iterator[tuple[str, int]]:
    """Run the server, and yield its address."""
    with LockServer() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        host, port = server.server_address[:2]
        try:
            yield str(host), int(port)
        finally:
            server.shutdown()
