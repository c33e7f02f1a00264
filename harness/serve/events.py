"""Server-sent events that tell open pages when the list of runs has changed.

An event has numbers only, so stored text cannot reach a page this way. A page fetches its own address again after one.
https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from . import pages
from .index import Index, Run

PERIOD_S: Final = 1.0
"""Seconds between two looks at the store."""
SILENCE_S: Final = 15.0
"""A comment is sent after so many seconds without an event, so that nothing between closes the connection."""
RETRY_MS: Final = 3000
"""A browser connects again after so many milliseconds."""
MOST_STREAMS: Final = 64
"""The most open connections; a further one is refused, and its page is then not live."""
TYPE: Final = "text/event-stream"


class _EventStream(StreamingResponse):
    """A response that calls ``closed`` when it ends, also if it never began."""

    def __init__(self, content: AsyncIterator[bytes], closed: Callable[[], None]) -> None:
        super().__init__(content, media_type=TYPE)
        self._closed = closed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._closed()


class RunEvents:
    """The stream of changes of an index; all streams share its scans of the store."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._open = 0

    async def stream(self, request: Request) -> Response:
        """Send an event now, and another one whenever the list of runs has changed."""
        if request.method == "HEAD":
            return Response(media_type=TYPE)
        if self._open >= MOST_STREAMS:
            return pages.problem(503, f"This server already has {MOST_STREAMS} live pages; reload to see new runs.")
        self._open += 1
        return _EventStream(self._events(), self._close)

    def _close(self) -> None:
        self._open -= 1

    async def _events(self) -> AsyncIterator[bytes]:
        yield f"retry: {RETRY_MS}\n\n".encode()
        last: list[Run] | None = None
        silent_s = 0.0
        while True:
            runs = await asyncio.to_thread(self._index.runs)
            if runs is not last:
                last, silent_s = runs, 0.0
                yield event(runs)
            elif silent_s >= SILENCE_S:
                silent_s = 0.0
                yield b": nothing new\n\n"
            await asyncio.sleep(PERIOD_S)
            silent_s += PERIOD_S


def event(runs: list[Run]) -> bytes:
    """Return the event for a list of runs: how many there are, and how many are in progress."""
    running = sum(run.state == "running" for run in runs)
    return f"event: runs\ndata: {json.dumps({'runs': len(runs), 'running': running})}\n\n".encode()
