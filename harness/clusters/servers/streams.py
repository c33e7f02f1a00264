"""Streams of the proxy: one connection between a client and a server, and the damage to each of its directions."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from typing import Final

CHUNK: Final = 1 << 16
RETRANSMISSION_S: Final = 0.2
"""Linux's shortest time-out before a lost packet is sent again; it doubles each time."""
MOST_LOSSES: Final = 6
"""Consecutive losses of one packet that count; more would keep a connection silent for longer than any test."""
Connect = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]
"""Connects to the server."""
_RESET: Final = struct.pack("ii", 1, 0)
"""SO_LINGER with a time of 0: closing the socket resets the connection."""


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """Impairment of a flow; see :class:`harness.clusters.abilities.network.LinkShape`."""

    latency: float = 0.0
    jitter: float = 0.0
    loss: float = 0.0
    rate: float | None = None


@dataclass(slots=True, eq=False)
class Trap:
    """Trap for the next data that contains ``needle``: it is lost, or delayed by ``delay`` seconds."""

    needle: bytes
    delay: float | None
    used: bool = False


class Flow:
    """Damage to one direction of a link."""

    def __init__(self, rng: Random) -> None:
        self.shapes: list[Shape] = []
        self.traps: list[Trap] = []
        self.holes = 0
        self.swallowed = 0
        """Number of pieces of data that black holes have lost."""
        self._rng = rng
        self._cuts = 0
        self._free_at = 0.0
        """Time at which a slow link has sent all earlier data."""
        self._open = asyncio.Event()
        self._open.set()

    def cut(self, change: int) -> None:
        """Add or remove a cut. Cuts are counted."""
        self._cuts = max(0, self._cuts + change)
        if self._cuts:
            self._open.clear()
        else:
            self._open.set()

    @property
    def is_cut(self) -> bool:
        return self._cuts > 0

    async def passable(self) -> None:
        """Wait until the flow is not cut."""
        while self._cuts:
            await self._open.wait()

    def disarm(self, trap: Trap) -> None:
        if trap in self.traps:
            self.traps.remove(trap)

    def caught(self, data: bytes) -> Trap | None:
        """Return the trap that catches this data, which is then used; None if there is none."""
        for trap in self.traps:
            if trap.needle in data:
                trap.used = True
                self.traps.remove(trap)
                return trap
        return None

    def due(self, size: int) -> float:
        """Return the time (of the event loop) at which data that arrives now is delivered."""
        now = asyncio.get_running_loop().time()
        rates = [shape.rate for shape in self.shapes if shape.rate is not None]
        if rates:
            self._free_at = max(now, self._free_at) + size / min(rates)
        sent = max(now, self._free_at) if rates else now
        return sent + sum(map(self._delay, self.shapes))

    def _delay(self, shape: Shape) -> float:
        losses = 0
        while losses < MOST_LOSSES and shape.loss and self._rng.random() < shape.loss:
            losses += 1
        return shape.latency + shape.jitter * self._rng.random() + RETRANSMISSION_S * ((1 << losses) - 1)


class ProxiedConnection:
    """One connection of a client, and the one to the server that belongs to it."""

    def __init__(
        self, requests: Flow, replies: Flow, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._requests, self._replies = requests, replies
        self._reader, self._writer = reader, writer
        self._server: asyncio.StreamWriter | None = None
        self._silent: set[Flow] = set()
        """Flows that lost data: a TCP stream has no gaps, so they deliver no later data."""
        self.lost_data = False
        """True if a black hole has lost data of it."""

    async def carry(self, connect: Connect) -> None:
        """Connect to the server, and carry data until both directions have ended."""
        requests: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        receiving = asyncio.create_task(self._receive(self._reader, self._requests, requests))
        try:
            if await self._connected(connect, receiving):
                await self._exchange(requests, receiving)
        except (OSError, EOFError):
            self.reset()
        finally:
            receiving.cancel()
            self._close()

    async def _connected(self, connect: Connect, receiving: asyncio.Task[None]) -> bool:
        """Connect once the link is not cut; return False if the client has gone before."""
        while self._requests.is_cut or self._replies.is_cut:
            healed = asyncio.create_task(self._passable())
            await asyncio.wait({healed, receiving}, return_when=asyncio.FIRST_COMPLETED)
            if not healed.done():
                healed.cancel()
                return False
        self._server_reader, self._server = await connect()
        return True

    async def _passable(self) -> None:
        await self._requests.passable()
        await self._replies.passable()

    async def _exchange(self, requests: asyncio.Queue[tuple[float, bytes]], receiving: asyncio.Task[None]) -> None:
        assert self._server is not None
        replies: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        work = [
            receiving,
            asyncio.create_task(self._receive(self._server_reader, self._replies, replies)),
            asyncio.create_task(self._deliver(requests, self._requests, self._server)),
            asyncio.create_task(self._deliver(replies, self._replies, self._writer)),
        ]
        try:
            await asyncio.gather(*work)
        finally:
            for task in work:
                task.cancel()

    async def _receive(
        self, reader: asyncio.StreamReader, flow: Flow, queue: asyncio.Queue[tuple[float, bytes]]
    ) -> None:
        """Queue what arrives with the time of its delivery; empty data is the end of the stream."""
        last = 0.0
        data = b"begin"
        while data:
            try:
                data = await reader.read(CHUNK)
            except OSError:  # reset by the peer, which for the other side is an end
                data = b""
            if data and (flow in self._silent or self._swallowed(flow)):
                continue
            trap = flow.caught(data) if data else None
            if trap is not None and trap.delay is None:
                self._silent.add(flow)
                continue
            held = trap.delay if trap is not None and trap.delay is not None else 0.0
            last = max(last, flow.due(len(data)) + held)
            queue.put_nowait((last, data))

    def _swallowed(self, flow: Flow) -> bool:
        """Return whether a black hole loses data that arrives now."""
        if flow.holes:
            flow.swallowed += 1
            self.lost_data = True
        return bool(flow.holes)

    @staticmethod
    async def _deliver(queue: asyncio.Queue[tuple[float, bytes]], flow: Flow, writer: asyncio.StreamWriter) -> None:
        while True:
            due, data = await queue.get()
            wait = due - asyncio.get_running_loop().time()
            if wait > 0:
                await asyncio.sleep(wait)
            await flow.passable()
            if not data:
                with contextlib.suppress(OSError):
                    if writer.can_write_eof():
                        writer.write_eof()
                    else:  # TLS has no half-closed connections
                        writer.close()
                return
            with contextlib.suppress(OSError):  # its other direction may still have data for the other side
                writer.write(data)
                await writer.drain()

    def reset(self) -> None:
        """Reset both connections."""
        for writer in (self._writer, self._server):
            if writer is not None:
                found = writer.get_extra_info("socket")
                if found is not None:
                    with contextlib.suppress(OSError):
                        found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                writer.transport.abort()

    def _close(self) -> None:
        for writer in (self._writer, self._server):
            if writer is not None:
                writer.close()
