"""Entry point of the relay: ``python3 -m harness.clusters.docker.helper.relay``.

Connects to programs in other containers for a control side that reaches the engine only. Frames of
:mod:`.multiplexer` come on stdin and go to stdout. Each connection is made inside the network namespace of its target,
to an address of that container itself, so it passes no interface but the loopback one. Packet rules that cut, lose or
delay packets name other hosts' addresses, and do not apply to it.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
import sys
from typing import Final

from .multiplexer import Multiplexer
from .namespaces import NamespaceError
from .network import Networks

TARGET: Final = struct.Struct(">I4sH")
"""Target of a connection: a process in the container, an IPv4 address and a port."""
RECEIVED: Final = 1 << 16


class ProgramCarrier:
    """Carrier of :class:`.multiplexer.Multiplexer` on the stdin and stdout of this program."""

    def __init__(self, source: int, target: int) -> None:
        self._source, self._target = source, target
        os.set_blocking(source, False)
        os.set_blocking(target, False)

    def reading(self) -> int:
        return self._source

    def writing(self) -> int:
        return self._target

    def receive(self) -> bytes | None:
        try:
            return os.read(self._source, RECEIVED) or None
        except BlockingIOError:
            return b""

    def send(self, data: memoryview) -> int:
        return os.write(self._target, data)


class Connector:
    """Begins connections inside containers; see :data:`.multiplexer.Connect`."""

    def __init__(self) -> None:
        self._networks = Networks()

    def __call__(self, target: bytes) -> socket.socket:
        try:
            pid, address, port = TARGET.unpack(target)
            sock = self._networks.of(pid).namespace.call(_tcp)
        except (struct.error, NamespaceError) as error:
            raise OSError(errno.ENETUNREACH, str(error)) from error
        try:
            failed = sock.connect_ex((socket.inet_ntoa(address), port))
            if failed not in (0, errno.EINPROGRESS):
                raise OSError(failed, os.strerror(failed))
        except BaseException:
            sock.close()
            raise
        return sock

    def close(self) -> None:
        self._networks.close()


def _tcp() -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def main() -> None:
    connector = Connector()
    try:
        Multiplexer(ProgramCarrier(sys.stdin.fileno(), sys.stdout.fileno()), connector).serve()
    finally:
        connector.close()


if __name__ == "__main__":
    main()
