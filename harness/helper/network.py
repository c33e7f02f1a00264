"""The network of a container, seen and disturbed from within its namespace: rules, pings, connections."""

from __future__ import annotations

import ctypes
import functools
import itertools
import os
import socket
import struct
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from .namespaces import Namespace, NamespaceError, inode
from .nfqueue import Queue, QueueError, Shape

ESTABLISHED: Final = "01"
"""TCP_ESTABLISHED in /proc/net/tcp, from <net/tcp_states.h>."""
KNOCK: Final = b"PING " + b"x" * 57 + b"\r\n"
"""What a Redis server or the protected resource answers."""
"""As long as a ping of the simulator, so that a slow link is as slow. https://redis.io/docs/latest/commands/ping/"""
ECHO_REPLY, ECHO_REQUEST = 0, 8
"""ICMP, RFC 792."""
_ONE_AT_A_TIME: Final = threading.Lock()
"""libnftables keeps state for the whole process."""
_identifiers: Final = itertools.count(os.getpid())


class FilterError(Exception):
    """What nft says about a script it does not take."""


@functools.cache
def _libnftables() -> Any:
    # Any: ctypes makes functions up as they are named.
    library = ctypes.CDLL("libnftables.so.1")
    library.nft_ctx_new.argtypes, library.nft_ctx_new.restype = [ctypes.c_uint32], ctypes.c_void_p
    for name in ("nft_ctx_buffer_output", "nft_ctx_buffer_error", "nft_ctx_free"):
        getattr(library, name).argtypes = [ctypes.c_void_p]
    library.nft_run_cmd_from_buffer.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
    library.nft_ctx_get_error_buffer.argtypes = [ctypes.c_void_p]
    library.nft_ctx_get_error_buffer.restype = ctypes.c_char_p
    return library


class Nft:
    """libnftables(3) in the namespace of the thread that makes it, and in the one that calls it.

    Kept rather than made anew each time: closing its socket waits for the kernel to destroy the rules that it removed,
    12 ms (Linux 6.18) for a call of 0.3.
    """

    def __init__(self) -> None:
        with _ONE_AT_A_TIME:
            self._context = _libnftables().nft_ctx_new(0)
            _libnftables().nft_ctx_buffer_output(self._context)
            _libnftables().nft_ctx_buffer_error(self._context)

    def run(self, script: str) -> None:
        """:raises FilterError: with nft's words; nothing of the script was applied."""
        with _ONE_AT_A_TIME:
            if _libnftables().nft_run_cmd_from_buffer(self._context, script.encode()):
                said = _libnftables().nft_ctx_get_error_buffer(self._context).decode(errors="replace")
                raise FilterError(said.strip() or "nft gave no reason")

    def close(self) -> None:
        with _ONE_AT_A_TIME:
            _libnftables().nft_ctx_free(self._context)


class Network:
    """The network of the container that a process lives in."""

    def __init__(self, pid: int) -> None:
        """:raises NamespaceError: there is none, or it is the machine's."""
        self.namespace = Namespace(pid)
        self._nft: Nft | None = None
        self._queue: Queue | None = None
        self._shaping = threading.Lock()

    def filter(self, script: str) -> None:
        """Run an nft(8) script, all of it or nothing. Own a table and delete that; Docker keeps rules here too.

        :raises FilterError: nft does not take it.
        """
        self.namespace.call(lambda: self._filter(script))

    def _filter(self, script: str) -> None:
        # Calls of a namespace come one after the other: no second thread makes another Nft meanwhile.
        if self._nft is None:
            self._nft = Nft()
        try:
            self._nft.run(script)
        except FilterError as error:
            raise FilterError(f"nft, in the network namespace of process {self.namespace.pid}: {error}") from None

    def ping(self, address: str, timeout: float) -> float | None:
        """Round trip of one ICMP echo, seconds; None if no answer came within ``timeout`` seconds or none could be
        asked for (a rule or a missing route forbids it).

        :raises OSError: no raw socket may be had, or ``address`` is no IPv4 address.
        """
        socket.inet_aton(address)
        with self.namespace.call(_icmp) as sock:
            try:
                sock.connect((address, 0))
                return _echo(sock, timeout)
            except OSError:
                # EPERM: dropped by a rule on its way out. ENETUNREACH, EHOSTUNREACH, ECONNREFUSED: no way, or an
                # answer that says so.
                return None

    def knock(
        self, address: str, port: int, timeout: float, hello: bytes = KNOCK, *, greets: bool = False
    ) -> float | None:
        """Seconds until a server answers ``hello`` (64 bytes) on a new connection; None if it does not in time. One
        that ``greets`` is let speak first. What a proxy does to data is seen by data only: a proxy answers no ping.

        :raises OSError: ``address`` is no IPv4 address.
        """
        socket.inet_aton(address)
        with self.namespace.call(_tcp) as sock:
            sock.settimeout(timeout)
            try:
                sock.connect((address, port))
                if greets and not sock.recv(4096):
                    return None
                start = time.monotonic()
                sock.sendall(hello)
                return time.monotonic() - start if sock.recv(16) else None
            except OSError:
                return None

    def shape(self, shapes: Mapping[str, Shape], seed: int) -> None:
        """Packets that arrive from these addresses fare so from now on, and all others pass; see ``Queue.shape``.

        :raises QueueError: the kernel does not let us.
        """
        with self._shaping:
            if shapes:
                self._queue = self._queue or Queue(self.namespace)
                self._queue.shape(shapes, seed)
            elif self._queue is not None:
                queue, self._queue = self._queue, None
                queue.stop()

    def close(self) -> None:
        """Packets pass again; rules of ``filter`` stay."""
        try:
            self.shape({}, 0)
        finally:
            if self._nft is not None:
                self.namespace.call(self._nft.close)
            self.namespace.close()


class Networks:
    """Networks entered so far."""

    def __init__(self) -> None:
        self._known: dict[int, Network] = {}
        self._lock = threading.Lock()

    def of(self, pid: int) -> Network:
        """The network that a process lives in.

        :raises NamespaceError: there is none, or it is the machine's.
        """
        with self._lock:
            number = inode(pid, "net")
            if number not in self._known:
                # An entered namespace outlives its container: let go those of containers that have ended.
                for gone in [key for key, network in self._known.items() if not network.namespace.inhabited]:
                    with suppress(QueueError):  # Nobody is left whose packets it could hold up.
                        self._known.pop(gone).close()
                self._known[number] = Network(pid)
            return self._known[number]

    def close(self) -> list[str]:
        """Leave all of them; returns what went wrong."""
        wrong = []
        with self._lock:
            while self._known:
                _, network = self._known.popitem()
                try:
                    network.close()
                except Exception as error:  # noqa: BLE001 - the others must be left too
                    wrong.append(f"network of process {network.namespace.pid}: {error}")
        return wrong


def _icmp() -> socket.socket:
    return socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)


def _tcp() -> socket.socket:
    return socket.socket(socket.AF_INET, socket.SOCK_STREAM)


def _checksum(data: bytes) -> int:
    """RFC 1071, of an even number of bytes."""
    total: int = sum(struct.unpack(f">{len(data) // 2}H", data))
    total = (total >> 16) + (total & 0xFFFF)
    return ~(total + (total >> 16)) & 0xFFFF


def _echo(sock: socket.socket, timeout: float) -> float | None:
    """A raw socket gets the answers to everybody's pings: ours bears our number and 16 bytes nobody else has."""
    identifier = next(_identifiers) & 0xFFFF
    token = os.urandom(16)
    blank = struct.pack(">BBHHH", ECHO_REQUEST, 0, 0, identifier, 1)
    request = struct.pack(">BBHHH", ECHO_REQUEST, 0, _checksum(blank + token), identifier, 1) + token
    wanted = struct.pack(">HH", identifier, 1) + token
    start = time.monotonic()
    sock.settimeout(timeout)
    sock.send(request)
    while (left := start + timeout - time.monotonic()) > 0:
        sock.settimeout(left)
        packet = sock.recv(2048)
        now = time.monotonic()
        answer = packet[(packet[0] & 15) * 4 :]
        if answer[0] == ECHO_REPLY and answer[4:] == wanted:
            return now - start
    return None


def connections(pid: int, addresses: Iterable[tuple[str, int]], without_user: int = -1) -> int:
    """Established TCP connections of the network that a process lives in, to these addresses and ports; not those of
    the user ``without_user`` (a proxy has connections of its own to the same servers).

    :raises NamespaceError: there is no such process.
    :raises OSError: an address is not IPv4.
    """
    wanted = {(socket.inet_aton(address), port) for address, port in addresses}
    # Java and Go speak IPv4 through IPv6 sockets.
    lines = [line for table in ("tcp", "tcp6") for line in _table(pid, table)]
    fields = [line.split() for line in lines]
    mine = [field for field in fields if field[3] == ESTABLISHED and int(field[7]) != without_user]
    return [_remote(field[2]) in wanted for field in mine].count(True)


def _table(pid: int, table: str) -> list[str]:
    try:
        return Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]
    except OSError as error:
        if table == "tcp6" and Path(f"/proc/{pid}").exists():
            return []  # A kernel without IPv6.
        raise NamespaceError(f"process {pid}: no list of connections: {error.strerror}") from error


def _remote(text: str) -> tuple[bytes, int]:
    """``0100007F:1F90`` as 4 bytes and a port. The address is printed in 32-bit words of the machine's byte order."""
    address, _, port = text.partition(":")
    words = bytes.fromhex(address)
    if sys.byteorder == "little":
        words = b"".join(words[at : at + 4][::-1] for at in range(0, len(words), 4))
    return words.removeprefix(bytes(10) + b"\xff\xff"), int(port, 16)
