"""Network operations in a container's namespace: packet filter rules, pings, delays, counts of connections."""

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
from .nfqueue import PacketQueue, PacketShape, QueueError

ESTABLISHED: Final = "01"
"""TCP_ESTABLISHED in /proc/net/tcp, from <net/tcp_states.h>."""
KNOCK: Final = b"PING " + b"x" * 57 + b"\r\n"
"""Request that a Redis server and the protected resource answer (https://redis.io/docs/latest/commands/ping/). It has
the size of a ping of the simulator, so that a slow link delays both by the same time."""
ECHO_REPLY, ECHO_REQUEST = 0, 8
"""ICMP, RFC 792."""
_ONE_AT_A_TIME: Final = threading.Lock()
"""Serialises calls of libnftables, which keeps state for the whole process."""
_identifiers: Final = itertools.count(os.getpid())


class FilterError(Exception):
    """nft refused a script; the message is nft's."""


@functools.cache
def _libnftables() -> Any:
    # The type is Any because ctypes creates functions on attribute access.
    library = ctypes.CDLL("libnftables.so.1")
    library.nft_ctx_new.argtypes, library.nft_ctx_new.restype = [ctypes.c_uint32], ctypes.c_void_p
    for name in ("nft_ctx_buffer_output", "nft_ctx_buffer_error", "nft_ctx_free"):
        getattr(library, name).argtypes = [ctypes.c_void_p]
    library.nft_run_cmd_from_buffer.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
    library.nft_ctx_get_error_buffer.argtypes = [ctypes.c_void_p]
    library.nft_ctx_get_error_buffer.restype = ctypes.c_char_p
    return library


class Nft:
    """A libnftables(3) context. It belongs to the namespace of the thread that creates it and must be used there.

    It is reused because closing its socket waits until the kernel has destroyed the removed rules: 12 ms (Linux 6.18),
    while a call takes 0.3 ms.
    """

    def __init__(self) -> None:
        with _ONE_AT_A_TIME:
            self._context = _libnftables().nft_ctx_new(0)
            _libnftables().nft_ctx_buffer_output(self._context)
            _libnftables().nft_ctx_buffer_error(self._context)

    def run(self, script: str) -> None:
        """Run a script, all of it or nothing.

        :raises FilterError: nft refused the script; the message is nft's.
        """
        with _ONE_AT_A_TIME:
            if _libnftables().nft_run_cmd_from_buffer(self._context, script.encode()):
                output = _libnftables().nft_ctx_get_error_buffer(self._context).decode(errors="replace")
                raise FilterError(output.strip() or "nft gave no reason")

    def close(self) -> None:
        with _ONE_AT_A_TIME:
            _libnftables().nft_ctx_free(self._context)


class Network:
    """The network of the container that a process lives in."""

    def __init__(self, pid: int) -> None:
        """:raises NamespaceError: there is no such network, or it is the machine's."""
        self.namespace = Namespace(pid)
        self._nft: Nft | None = None
        self._queue: PacketQueue | None = None
        self._shaping = threading.Lock()

    def filter(self, script: str) -> None:
        """Run an nft(8) script, all of it or nothing. A script must change only tables of its own: Docker has rules
        here too.

        :raises FilterError: nft refused the script.
        """
        self.namespace.call(lambda: self._filter(script))

    def _filter(self, script: str) -> None:
        # Calls in a namespace are serialised, so no other thread can create an Nft here meanwhile.
        if self._nft is None:
            self._nft = Nft()
        try:
            self._nft.run(script)
        except FilterError as error:
            raise FilterError(f"nft, in the network namespace of process {self.namespace.pid}: {error}") from None

    def ping(self, address: str, timeout: float) -> float | None:
        """Return the round trip of one ICMP echo in seconds; None if no answer came within ``timeout`` seconds, or if
        the request could not be sent (a rule or a missing route prevents it).

        :raises OSError: raw sockets are not permitted, or ``address`` is not an IPv4 address.
        """
        socket.inet_aton(address)
        with self.namespace.call(_icmp) as sock:
            try:
                sock.connect((address, 0))
                return _echo(sock, timeout)
            except OSError:
                # EPERM: a rule dropped the outgoing packet. ENETUNREACH, EHOSTUNREACH, ECONNREFUSED: there is no route,
                # or an answer reports that.
                return None

    def knock(
        self, address: str, port: int, timeout: float, hello: bytes = KNOCK, *, greets: bool = False
    ) -> float | None:
        """Return the seconds until a server answers ``hello`` (64 bytes) on a new connection; None if it does not in
        time.

        A server that ``greets`` sends data first. Only data shows the damage that a proxy does: a proxy answers no
        ping.

        :raises OSError: ``address`` is not an IPv4 address.
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

    def shape(self, shapes: Mapping[str, PacketShape], seed: int) -> None:
        """Shape packets that arrive from these addresses from now on; all others pass. See ``PacketQueue.shape``.

        :raises QueueError: the kernel refuses.
        """
        with self._shaping:
            if shapes:
                self._queue = self._queue or PacketQueue(self.namespace)
                self._queue.shape(shapes, seed)
            elif self._queue is not None:
                queue, self._queue = self._queue, None
                queue.stop()

    def close(self) -> None:
        """Stop shaping, so that packets pass; rules set by ``filter`` stay."""
        try:
            self.shape({}, 0)
        finally:
            if self._nft is not None:
                self.namespace.call(self._nft.close)
            self.namespace.close()


class Networks:
    """Networks of containers, entered on first use."""

    def __init__(self) -> None:
        self._known: dict[int, Network] = {}
        self._lock = threading.Lock()

    def of(self, pid: int) -> Network:
        """Return the network that a process lives in.

        :raises NamespaceError: there is no such network, or it is the machine's.
        """
        with self._lock:
            number = inode(pid, "net")
            if number not in self._known:
                # An entered namespace outlives its container, so leave those of containers that have ended.
                for gone in [key for key, network in self._known.items() if not network.namespace.inhabited]:
                    with suppress(QueueError):  # no process is left whose packets it could delay
                        self._known.pop(gone).close()
                self._known[number] = Network(pid)
            return self._known[number]

    def close(self) -> list[str]:
        """Leave all networks and return error messages."""
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
    """Return the checksum of RFC 1071 for an even number of bytes."""
    total: int = sum(struct.unpack(f">{len(data) // 2}H", data))
    total = (total >> 16) + (total & 0xFFFF)
    return ~(total + (total >> 16)) & 0xFFFF


def _echo(sock: socket.socket, timeout: float) -> float | None:
    """Send an echo request and return its round trip. A raw socket receives the answers to all pings, so this one is
    identified by its number and 16 random bytes."""
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
    """Count established TCP connections to these addresses and ports in the network that a process lives in.

    Connections of the user ``without_user`` are not counted (a proxy has connections of its own to the same servers).

    :raises NamespaceError: there is no such process.
    :raises OSError: an address is not IPv4.
    """
    wanted = {(socket.inet_aton(address), port) for address, port in addresses}
    # Java and Go use IPv6 sockets for IPv4.
    lines = [line for table in ("tcp", "tcp6") for line in _table(pid, table)]
    fields = [line.split() for line in lines]
    mine = [field for field in fields if field[3] == ESTABLISHED and int(field[7]) != without_user]
    return [_remote(field[2]) in wanted for field in mine].count(True)


def _table(pid: int, table: str) -> list[str]:
    try:
        return Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]
    except OSError as error:
        if table == "tcp6" and Path(f"/proc/{pid}").exists():
            return []  # the kernel has no IPv6
        raise NamespaceError(f"process {pid}: no list of connections: {error.strerror}") from error


def _remote(text: str) -> tuple[bytes, int]:
    """Parse ``0100007F:1F90`` into 4 bytes and a port. The kernel prints addresses as words in its own byte order."""
    address, _, port = text.partition(":")
    words = bytes.fromhex(address)
    if sys.byteorder == "little":
        words = b"".join(words[at : at + 4][::-1] for at in range(0, len(words), 4))
    return words.removeprefix(bytes(10) + b"\xff\xff"), int(port, 16)
