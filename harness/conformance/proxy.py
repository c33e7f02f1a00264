"""TCP proxy on the loopback that can discard data while connections stay open."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Final

from .testbed import LostData

LOOPBACK: Final = "127.0.0.1"
CONNECT_TIMEOUT_S: Final = 5.0
"""Seconds within which a server takes a connection."""
Address = tuple[str, int]


class _Connection:
    """A client's connection and the matching one to the server. ``damaged`` is True once data was lost."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self.damaged = False
        self._proxy = proxy
        self._ends = client, server
        for source, target, answers in ((client, server, False), (server, client, True)):
            threading.Thread(target=self._pump, args=(source, target, answers), name="proxy", daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket, answers: bool) -> None:
        with contextlib.suppress(OSError):
            while True:
                data = source.recv(1 << 16)
                if self._proxy.loses(answers=answers):  # the end of a stream is lost as well
                    self.damaged = True
                    if not data:
                        return
                elif data:
                    target.sendall(data)
                else:
                    target.shutdown(socket.SHUT_WR)
                    return

    def close(self) -> None:
        for end in self._ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


class Proxy:
    """Proxy of one server for one client."""

    def __init__(self, server: Address) -> None:
        self._server = server
        self._lost: LostData | None = None
        self._connections: list[_Connection] = []
        self._listener = socket.create_server((LOOPBACK, 0))
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, name="proxy", daemon=True).start()

    @property
    def address(self) -> Address:
        host, port = self._listener.getsockname()
        return host, port

    def loses(self, *, answers: bool) -> bool:
        return self._lost == "everything" or (answers and self._lost == "answers")

    def start_losing(self, lost_data: LostData) -> None:
        self._lost = lost_data

    def stop_losing(self) -> None:
        """Stop losing data and close the connections in which data was lost."""
        with self._lock:
            self._lost = None
            for connection in self._connections:
                if connection.damaged:
                    connection.close()
            self._connections = [connection for connection in self._connections if not connection.damaged]

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for connection in self._connections:
                connection.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:  # closed
                return
            try:
                server = socket.create_connection(self._server, CONNECT_TIMEOUT_S)
            except OSError:
                client.close()
                continue
            for end in (client, server):
                end.settimeout(None)
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._connections.append(_Connection(self, client, server))


def check_reachable(server: Address) -> None:
    """Raise OSError if the server does not accept connections."""
    socket.create_connection(server, CONNECT_TIMEOUT_S).close()
