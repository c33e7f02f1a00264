"""Connections of the proxy to servers, with TLS where a server has it; the client's own protocol has none."""

from __future__ import annotations

import asyncio
from typing import Final

from .mysql_tunnel import connect_to_mysql
from .tls import TlsBegin, TlsSettings

SSL_REQUEST: Final = b"\0\0\0\x08\x04\xd2\x16\x2f"
"""Request for TLS in PostgreSQL's protocol (message SSLRequest)."""
HTTP2: Final = "h2"
"""Name of HTTP/2 in a TLS handshake. Without it etcd takes a request of gRPC for one of HTTP/1.1."""
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def connect_to(host: str, port: int, tls: TlsSettings | None, begin: TlsBegin) -> Streams:
    """Connect to a server. Raises OSError, also if it has no TLS."""
    if tls is None:
        return await asyncio.open_connection(host, port)
    context = tls.context((HTTP2,) if begin == "http2" else ())
    if begin == "postgres":
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(SSL_REQUEST)
        if await reader.readexactly(1) != b"S":
            writer.close()
            raise ConnectionRefusedError(f"{host}:{port} has no TLS")
        await writer.start_tls(context, server_hostname=host)
        return reader, writer
    if begin == "mysql":
        return await connect_to_mysql(host, port, context)
    return await asyncio.open_connection(host, port, ssl=context, server_hostname=host)
