"""A host for a service of the simulator that runs as a process: real clocks, timers and TCP connections.

A program of this package uses it to run a server of which only our own implementation exists.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from random import Random
from typing import Any, Final

from harness.sim.service import Conn, Handler, Service, Timer

SECOND: Final = 1_000_000_000
Save = Callable[[], None]
"""Makes durable what the service has changed."""


class ProcessHost:
    """A :class:`harness.sim.service.ServiceHost` on the running event loop. ``name`` is the address from which it opens
    connections, and by which its peers know it. ``save`` is called before anything is sent, so that no other process
    knows of a change that a kill would undo."""

    def __init__(self, name: str, save: Save) -> None:
        self.name = name
        self.rng = Random()
        self._save = save
        self._loop = asyncio.get_running_loop()
        self._dialling: set[asyncio.Task[None]] = set()
        self._loop.set_exception_handler(_end_program)

    def wall_ns(self) -> int:
        return time.time_ns()

    def monotonic_ns(self) -> int:
        return time.monotonic_ns()

    def call_later(self, delay_ns: int, fn: Callable[..., None], *args: Any) -> Timer:
        return self._loop.call_later(delay_ns / SECOND, fn, *args)

    def dial(self, host: str, port: int, handler: Handler) -> Conn:
        link = TcpLink(handler, self._save)
        task = self._loop.create_task(self._connect(link, host, port))
        self._dialling.add(task)  # the event loop itself holds no reference
        task.add_done_callback(self._dialling.discard)
        return link

    async def _connect(self, link: TcpLink, host: str, port: int) -> None:
        try:
            await self._loop.create_connection(lambda: link, host, port, local_addr=(self.name, 0))
        except OSError as error:
            link.connection_lost(error)

    async def serve(self, service: Service) -> None:
        """Accept connections to a service."""
        await self._loop.create_server(lambda: TcpLink(service, self._save), self.name, service.port)

    def log(self, line: str) -> None:
        print(line, flush=True)

    def lacks(self, client: str, what: str) -> None:
        self.log(f"{client} called {what}, which this server lacks")


class TcpLink(asyncio.Protocol):
    """A :class:`harness.sim.service.Conn` over TCP. ``peer`` is the address of the other end."""

    def __init__(self, handler: Handler, save: Save) -> None:
        self.peer = ""
        self.session: Any = None
        self._handler = handler
        self._save = save
        self._transport: asyncio.Transport | None = None
        self._closed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.peer = transport.get_extra_info("peername")[0]
        if self._closed:  # while it was being opened
            transport.close()
        else:
            self._handler.opened(self)

    def data_received(self, data: bytes) -> None:
        if not self._closed:
            self._handler.received(self, data)

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002
        if not self._closed:
            self._closed = True
            self._handler.closed(self)

    def send(self, data: bytes) -> None:
        if self._transport is not None and not self._closed:
            self._save()
            self._transport.write(data)

    def close(self) -> None:
        self._closed = True
        if self._transport is not None:
            self._transport.close()


def _end_program(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """End the program on an error in it, which is not to look like a server that works."""
    loop.default_exception_handler(context)
    sys.exit(1)
