"""Requests to the application with exactly the address and headers of a test, and a real server on the loopback."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import uvicorn
from starlette.types import ASGIApp, Message

from harness.serve.app import application


@dataclass(frozen=True, slots=True)
class Answer:
    """A response; header names are lower case. ``most`` is the size of the largest piece that was sent."""

    status: int
    headers: dict[str, str]
    body: bytes
    most: int

    @property
    def text(self) -> str:
        return self.body.decode()


def request(
    app: ASGIApp, target: str | bytes, method: str = "GET", headers: Mapping[str, str] | None = None, **scope: Any
) -> Answer:
    """Return the response to one request for ``target``, as on the wire. ``scope`` overrides what a server would
    set."""
    raw, _, query = (target.encode("latin-1") if isinstance(target, str) else target).partition(b"?")
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    asked = {
        "type": "http", "asgi": {"version": "3.0", "spec_version": "2.4"}, "http_version": "1.1", "method": method,
        "scheme": "http", "path": unquote(raw.decode("latin-1")), "raw_path": raw, "query_string": query,
        "root_path": "", "server": ("127.0.0.1", 80), "client": ("127.0.0.1", 5),
        "headers": [(name.lower().encode(), value.encode("latin-1"))
                    for name, value in ({"host": "localhost"} | dict(headers or {})).items()],
    }  # fmt: skip
    with ThreadPoolExecutor(1) as apart:  # the event loop of a browser may be running in this thread
        apart.submit(lambda: asyncio.run(app(asked | scope, receive, send))).result()  # type: ignore[arg-type]
    pieces = [message.get("body", b"") for message in sent[1:]]
    told = {name.decode().lower(): value.decode("latin-1") for name, value in sent[0]["headers"]}
    return Answer(sent[0]["status"], told, b"".join(pieces), max(map(len, pieces), default=0))


@contextmanager
def serve_store(store: Path) -> Iterator[str]:
    """Run a real server that shows ``store``, and yield its address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(
            uvicorn.Config(application(store), log_level="critical", lifespan="off", timeout_graceful_shutdown=0)
        )
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
