"""Links between the run's programs: packet rules that cut them, and probes that show whether they carry data.

A host may run several programs, so an address does not name a program. Each program has a group id of its own, and so
have its sockets: rules match it by ``meta skgid``. A probe is a TCP connection from a socket with the group id of one
program to a port where a socket with the group id of the other answers; so it meets the same rules as the program's own
connections, and works also if the programs are stopped or dead.
"""

from __future__ import annotations

import ctypes
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

from harness.clusters.docker.helper.network import FilterError, Nft

T = TypeVar("T")
ECHO: Final = b"lock-harness-probe:".ljust(64, b"x")


class PacketRules:
    """The packet rules of this host's programs, in one table with the flag ``owner``: the kernel removes it when this
    process ends, in whatever way."""

    def __init__(self) -> None:
        self._nft: Nft | None = None
        self._lock = threading.Lock()

    def apply(self, script: str) -> None:
        """Run an nft(8) script, all of it or nothing.

        :raises FilterError: nft refused it, or libnftables is missing.
        """
        with self._lock:
            try:
                self._nft = self._nft or Nft()
            except OSError as error:
                raise FilterError(f"no libnftables (Debian: nftables): {error}") from error
            self._nft.run(script)


def in_group(gid: int | None, what: Callable[[], T]) -> T:
    """Call a function in a new thread whose sockets get the group id ``gid``.

    The system call setfsgid(2) changes the thread that makes it only.
    """
    results: list[T] = []
    errors: list[Exception] = []

    def run() -> None:
        try:
            if gid is not None:
                ctypes.CDLL(None).setfsgid(gid)
            results.append(what())
        except Exception as error:  # noqa: BLE001 - raised again in the caller's thread
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def answer_probes(address: str, gid: int | None) -> int:
    """Answer probes of the program with the group id ``gid`` on a new port of ``address``; return the port."""

    def listen() -> socket.socket:
        listener = socket.socket()
        listener.bind((address, 0))
        listener.listen(64)
        return listener

    listener = in_group(gid, listen)

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()  # the connection gets the group id of this thread
            except OSError:
                return
            threading.Thread(target=_echo, args=(connection,), daemon=True).start()

    threading.Thread(target=in_group, args=(gid, accept), daemon=True).start()
    return int(listener.getsockname()[1])


def _echo(connection: socket.socket) -> None:
    with connection, suppress(OSError):
        connection.settimeout(10)
        while data := connection.recv(len(ECHO)):
            connection.sendall(data)


def probe(gid: int | None, address: str, port: int, timeout: float) -> float | None:
    """Return the seconds until a program's probe port echoes data, from the program with the group id ``gid``; None if
    that takes longer than ``timeout``."""

    def attempt() -> float | None:
        began = time.monotonic()
        try:
            with socket.create_connection((address, port), timeout) as connection:
                connection.sendall(ECHO)
                connection.settimeout(max(0.001, timeout - (time.monotonic() - began)))
                return time.monotonic() - began if connection.recv(len(ECHO)) else None
        except OSError:
            return None

    return in_group(gid, attempt)


def converse(port: int, request: bytes, ends: bool, timeout: float) -> tuple[bytes, int, int]:
    """Send a request to a server of this host, and return its answer with the wall clock (ns) before and after.

    The answer is what comes until the server closes the connection if it ``ends``, else the first data.

    :raises OSError: it does not answer in time.
    """
    with socket.create_connection(("127.0.0.1", port), timeout) as connection:
        connection.settimeout(timeout)
        before = time.time_ns()
        connection.sendall(request)
        answer = connection.recv(1 << 16)
        after = time.time_ns()
        while ends and (more := connection.recv(1 << 16)):
            answer += more
        if not answer:
            raise ConnectionResetError("the server closed the connection")
        return answer, before, after
