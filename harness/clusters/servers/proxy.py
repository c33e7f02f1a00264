"""The TCP proxy between clients and servers: ``python -m harness.clusters.servers.proxy PARENT SEED``.

It listens on a port of the loopback interface for each link (client, server), and does to the bytes of a link what
faults demand: hold them, delay them, lose them, or reset the connections. :mod:`.links` controls it over stdin and
stdout with JSON lines; requests and answers are those of :class:`harness.clusters.conversation.Conversation`.

Connections to a server with TLS are encrypted here, since faults of single messages look at their contents.

A proxy has streams, not packets. A cut holds all data until it is healed, as TCP retransmits what packets lost, also
for a client that has died meanwhile. A lost packet delays its data by the time of a retransmission.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from random import Random
from typing import Any, Final

import msgspec

from harness.worker.lifetime import end_with_parent

from .streams import Connect, Flow, ProxiedConnection, Shape, Trap
from .tls import TlsSettings
from .tls_connections import connect_to

LOOPBACK: Final = "127.0.0.1"
Message = dict[str, Any]


class Link:
    """One client's connections to one server. ``flows`` are those of its requests and its replies."""

    def __init__(self, connect: Connect, rng: Random) -> None:
        self._connect = connect
        self.flows = {"request": Flow(rng), "reply": Flow(rng)}
        self.open: set[ProxiedConnection] = set()
        self.holes: Counter[int] = Counter()
        """Whether data was lost in each present black hole, by its number."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one connection of the client."""
        connection = ProxiedConnection(self.flows["request"], self.flows["reply"], reader, writer)
        self.open.add(connection)
        try:
            await connection.carry(self._connect)
        finally:
            self.open.discard(connection)

    def reset(self, *, damaged: bool = False) -> int:
        """Reset the connections, or only those that lost data; return how many."""
        found = [one for one in self.open if one.lost_data or not damaged]
        self.open.difference_update(found)  # their tasks end later, and they count once
        for one in found:
            one.reset()
        return len(found)


class Proxy:
    """All links, and the damage to them. Each fault's damage has a number, by which it is undone."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._links: dict[tuple[str, str], Link] = {}
        self._damage: dict[int, Callable[[], None]] = {}
        self._used: dict[int, Callable[[], bool]] = {}
        self._numbers = iter(range(1, sys.maxsize))

    async def do(self, message: Message) -> Any:
        """Execute a request and return its answer."""
        answer = getattr(self, f"_do_{message['op']}")(message)
        return await answer if isinstance(answer, Awaitable) else answer

    async def _do_open(self, message: Message) -> list[int]:
        """Listen for each (client, server, host, port); return the ports. ``tls`` has the settings of servers with
        TLS, by name; their connections begin as ``begin`` says."""
        ports = []
        settings = {name: msgspec.convert(tls, TlsSettings) for name, tls in message["tls"].items()}
        for client, server, host, port in message["links"]:
            connect = partial(connect_to, host, port, settings.get(server), message["begin"])
            link = self._links[client, server] = Link(connect, self._rng)
            listener = await asyncio.start_server(link.serve, LOOPBACK, 0)
            ports.append(int(listener.sockets[0].getsockname()[1]))
        return ports

    def _flow(self, source: str, target: str) -> Flow:
        if (source, target) in self._links:
            return self._links[source, target].flows["request"]
        return self._links[target, source].flows["reply"]

    def _do_cut(self, message: Message) -> None:
        for source, target in message["links"]:
            self._flow(source, target).cut(+1)

    def _do_heal(self, message: Message) -> None:
        for source, target in message["links"]:
            self._flow(source, target).cut(-1)

    def _do_shape(self, message: Message) -> int:
        flows = [self._flow(source, target) for source, target in message["links"]]
        shape = Shape(**message["shape"])
        for flow in flows:
            flow.shapes.append(shape)

        def undo() -> None:
            for flow in flows:
                flow.shapes.remove(shape)

        return self._add(undo, lambda: True)

    def _do_trap(self, message: Message) -> int:
        flow = self._flow(message["source"], message["target"])
        trap = Trap(base64.b64decode(message["needle"]), message["delay"])
        flow.traps.append(trap)
        return self._add(lambda: flow.disarm(trap), lambda: trap.used)

    def _do_black_hole(self, message: Message) -> int:
        link = self._links[message["client"], message["server"]]
        flows = list(link.flows.values())
        before = sum(flow.swallowed for flow in flows)
        for flow in flows:
            flow.holes += 1

        def undo() -> None:
            for flow in flows:
                flow.holes -= 1
            link.reset(damaged=True)

        return self._add(undo, lambda: sum(flow.swallowed for flow in flows) > before)

    def _do_reset(self, message: Message) -> int:
        """Reset all connections of a client to the servers; return how many there were."""
        servers = message["servers"]
        return sum(
            link.reset()
            for (client, server), link in self._links.items()
            if client == message["client"] and server in servers
        )

    def _add(self, undo: Callable[[], None], used: Callable[[], bool]) -> int:
        number = next(self._numbers)
        self._damage[number], self._used[number] = undo, used
        return number

    def _do_used(self, message: Message) -> bool:
        """Return whether a trap has caught its message, or a black hole has lost data."""
        return self._used[message["number"]]()

    def _do_undo(self, message: Message) -> None:
        undo = self._damage.pop(message["number"], None)
        if undo is not None:
            undo()


async def serve(rng: Random) -> None:
    """Execute requests until stdin ends."""
    reader = asyncio.StreamReader(limit=1 << 20)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer)
    proxy = Proxy(rng)
    while line := await reader.readline():
        message = msgspec.json.decode(line, type=Message)
        try:
            answer: Message = {"ok": await proxy.do(message)}
        except (KeyError, ValueError, TypeError, AttributeError, OSError) as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        if "id" in message:
            os.write(1, msgspec.json.encode({"id": message["id"], **answer}) + b"\n")


def main() -> None:
    """Serve the control side until it ends."""
    end_with_parent(int(sys.argv[1]))
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(Random(sys.argv[2])))


if __name__ == "__main__":
    main()
