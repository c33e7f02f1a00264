"""TLS to a MySQL for a client that connects without it.

A client of MySQL asks for TLS with the first half of its login, after the greeting of the server, and each packet of
the login phase has a number. So the greeting must reach the client before TLS begins, and later packets of that phase
need other numbers. The numbers begin anew with each command, so all later data is passed on as it is.
(MySQL's manual, "Connection Phase Packets": ``SSLRequest``.)
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from typing import Final

SSL_FLAG: Final = 0x0800
"""CLIENT_SSL, in the flags of a greeting and of a login."""
SSL_REQUEST_BYTES: Final = 32
"""Length of the beginning of a login that asks for TLS."""
HEADER_BYTES: Final = 4
OK: Final = b"\0"
ERROR: Final = b"\xff"
"""First byte of a reply."""
CHUNK: Final = 1 << 16
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]

_running: set[asyncio.Task[None]] = set()
"""The event loop itself keeps no reference to a task."""


async def connect_to_mysql(host: str, port: int, context: ssl.SSLContext) -> Streams:
    """Connect to a server, and return streams on which it speaks without TLS. Raises OSError."""
    server = await asyncio.open_connection(host, port)
    near, far = socket.socketpair()
    tunnel = _Tunnel(await asyncio.open_connection(sock=far), server, context, host)
    task = asyncio.create_task(tunnel.carry())
    _running.add(task)
    task.add_done_callback(_running.discard)
    return await asyncio.open_connection(sock=near)


class _Tunnel:
    """One connection: ``client`` without TLS, ``server`` with it."""

    def __init__(self, client: Streams, server: Streams, context: ssl.SSLContext, host: str) -> None:
        (self._from_client, self._to_client), (self._from_server, self._to_server) = client, server
        self._context, self._host = context, host
        self._logged_in = False

    async def carry(self) -> None:
        """Carry data until one side has ended; then end both."""
        # A handshake that fails ends the connection, as a server does that refuses it. ValueError: no MySQL.
        with contextlib.suppress(OSError, EOFError, ValueError):
            if await self._begin():
                await self._exchange()
        for writer in (self._to_client, self._to_server):
            writer.close()

    async def _begin(self) -> bool:
        """Pass on the greeting and the login, with TLS between them; return False if the server wants no login."""
        number, greeting = await _read_packet(self._from_server)
        if greeting[:1] == ERROR:  # such as: too many connections
            await _write_packet(self._to_client, number, greeting)
            return False
        await _write_packet(self._to_client, number, _without_ssl(greeting))
        number, login = await _read_packet(self._from_client)
        flags = int.from_bytes(login[:4], "little") | SSL_FLAG
        login = flags.to_bytes(4, "little") + login[4:]
        await _write_packet(self._to_server, number, login[:SSL_REQUEST_BYTES])
        await self._to_server.start_tls(self._context, server_hostname=self._host)
        await _write_packet(self._to_server, number + 1, login)
        return True

    async def _exchange(self) -> None:
        work = [asyncio.create_task(self._carry_replies()), asyncio.create_task(self._carry_requests())]
        try:
            await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in work:
                task.cancel()
            await asyncio.gather(*work, return_exceptions=True)

    async def _carry_replies(self) -> None:
        while not self._logged_in:
            number, reply = await _read_packet(self._from_server)
            self._logged_in = reply[:1] in (OK, ERROR)
            await _write_packet(self._to_client, number - 1, reply)
        await _copy(self._from_server, self._to_client)

    async def _carry_requests(self) -> None:
        while not self._logged_in:
            number, request = await _read_packet(self._from_client)
            # A client sends its first command after the end of the login phase only.
            await _write_packet(self._to_server, number if self._logged_in else number + 1, request)
        await _copy(self._from_client, self._to_server)


def _without_ssl(greeting: bytes) -> bytes:
    """Return a greeting that does not offer TLS. Raises ConnectionRefusedError if the server has none."""
    # Version of the protocol (1 byte), of the server (up to a 0), id of the connection (4), salt (8), a 0, flags (2).
    at = greeting.index(0, 1) + 1 + 4 + 8 + 1
    flags = int.from_bytes(greeting[at : at + 2], "little")
    if not flags & SSL_FLAG:
        raise ConnectionRefusedError("the server has no TLS")
    return greeting[:at] + (flags & ~SSL_FLAG).to_bytes(2, "little") + greeting[at + 2 :]


async def _read_packet(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """Return the number and the payload of a packet."""
    header = await reader.readexactly(HEADER_BYTES)
    return header[3], await reader.readexactly(int.from_bytes(header[:3], "little"))


async def _write_packet(writer: asyncio.StreamWriter, number: int, payload: bytes) -> None:
    writer.write(len(payload).to_bytes(3, "little") + bytes([number % 256]) + payload)
    await writer.drain()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(CHUNK):
        writer.write(data)
        await writer.drain()
