"""Recording of the TCP packets of a server's port, by means of a packet(7) socket in the server's network namespace.

Each packet that carries data, or opens or closes a connection, is kept with the kernel's time of it. A packet is seen
before the filters of its way in, and after those of its way out. So a request is seen no later than the server gets it,
and a reply no earlier than the server sends it.

The kernel writes packets into blocks of memory that this process shares (TPACKET_V3), and wakes it once a block: a
system call and a switch of threads for each packet would take processor time from servers and clients.
"""

from __future__ import annotations

import ctypes
import mmap
import select
import socket
import struct
import threading
import time
from typing import Final

from .libc import libc, succeeded
from .namespaces import Namespace

RECORD: Final = struct.Struct(">QB4sHIBI")
"""Time (CLOCK_MONOTONIC, ns), 1 for a packet from the server, the client's address, port and sequence number, the TCP
flags, the length of the data, which follows."""
FIN, SYN, RST = 1, 2, 4
"""TCP flags, RFC 9293."""
MOST_BYTES: Final = 64 << 20
"""Size at which a recording is cut off."""
BLOCK: Final = 1 << 18
"""Bytes of a block: more than a packet has."""
BLOCKS: Final = 64
BLOCK_MS: Final = 40
"""Time after which the kernel passes on a block that is not full, ms."""
IDLE_S: Final = 0.1
"""Time after which a thread without packets looks whether to stop, s."""
LAST_WAITS: Final = 10
"""How often :data:`IDLE_S` a thread that is to stop waits for packets that the kernel has counted and not passed on."""
CLOCK_STEP_NS: Final = 50_000_000
"""Change of the machine's wall clock against the monotonic one that makes the packets' times useless."""
ETH_P_ALL: Final = 3
SO_ATTACH_FILTER: Final = 26
SOL_PACKET, PACKET_RX_RING, PACKET_STATISTICS, PACKET_VERSION, TPACKET_V3 = 263, 5, 6, 10, 2
"""Linux's numbers, which Python's socket module lacks."""
_RING: Final = struct.Struct("7I")
"""Size and number of blocks, size and number of frames (unused), :data:`BLOCK_MS`, bytes of our own, features."""
_STATUS_AT: Final = 8
"""Place in a block of its status: 0 while the block is the kernel's."""
_STATUS: Final = struct.Struct("I")
_BLOCK: Final = struct.Struct("12xIII")
"""Beginning of a block: the number of packets, the place of the first, the bytes used."""
_PACKET: Final = struct.Struct("4I10xH30xB")
"""Header of a packet in a block: the distance to the next, seconds, ns, and size of the packet; its place after this
header; its type."""
_ADDRESS: Final = struct.Struct("HHi12x")
"""An address of a packet socket: family, protocol, and number of the interface (0: all)."""
_IP: Final = struct.Struct(">BxHxxxxxBxx4s4s")
_TCP: Final = struct.Struct(">HHIIBB")
_REJECT: Final = (0x06, 0, 0, 0)
"""The instruction of a BPF program that rejects the packet."""


def _set_filter(opened: socket.socket, code: list[tuple[int, int, int, int]]) -> None:
    """Let the socket receive from now on what a classic BPF program accepts."""
    program = b"".join(struct.pack("HBBI", *line) for line in code)
    buffer = ctypes.create_string_buffer(program)
    pointer = struct.pack("HxxxxxxP", len(code), ctypes.addressof(buffer))
    opened.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, pointer)


def _to_and_from(port: int) -> list[tuple[int, int, int, int]]:
    """Return a classic BPF program that accepts TCP packets over IPv4 to and from a port, if they carry data, or open
    or close a connection."""
    return [
        (0x30, 0, 0, 9),  # protocol of the IP header
        (0x15, 0, 15, socket.IPPROTO_TCP),
        (0xB1, 0, 0, 0),  # x = length of the IP header
        (0x48, 0, 0, 0),  # source port
        (0x15, 2, 0, port),
        (0x48, 0, 0, 2),  # destination port
        (0x15, 0, 10, port),
        (0x50, 0, 0, 13),  # flags
        (0x45, 7, 0, FIN | SYN | RST),
        (0x50, 0, 0, 12),  # length of the TCP header, in words, and four bits
        (0x54, 0, 0, 0xF0),
        (0x74, 0, 0, 2),
        (0x0C, 0, 0, 0),  # + x
        (0x07, 0, 0, 0),  # x = length of both headers
        (0x28, 0, 0, 2),  # length of the packet
        (0x2D, 0, 1, 0),  # greater than x
        (0x06, 0, 0, 0x40000),  # accept
        _REJECT,
    ]


def clock_difference() -> int:
    """Return how far the wall clock is ahead of the monotonic one, ns: the most exact of three readings."""
    best = (1 << 63, 0)
    for _ in range(3):
        before, wall, after = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
        best = min(best, (after - before, wall - (before + after) // 2))
    return best[1]


class Capture:
    """Records a server's packets in a thread of its own until :meth:`stop`."""

    def __init__(self, namespace: Namespace, port: int) -> None:
        """:raises NamespaceError: the namespace cannot be entered. :raises OSError: the kernel refuses the socket."""
        self._port = port
        self._records = bytearray()
        self._lost = 1  # until the thread has seen the end
        self._cut_ns = 0
        self._difference = clock_difference()
        self._stopping = threading.Event()
        self._socket = namespace.call(lambda: _open(port))
        self._ring = mmap.mmap(self._socket.fileno(), BLOCK * BLOCKS)
        self._thread = threading.Thread(target=self._run, name=f"capture-{namespace.pid}", daemon=True)
        self._thread.start()

    def stop(self) -> dict[str, int]:
        """Stop, and return the number of recorded bytes, of lost packets, the time at which the recording was cut off
        because of its size (0: it was not), and the wall clock at time 0. The kernel dates packets by the wall clock:
        all are lost if somebody set that."""
        if not self._stopping.is_set():
            time.sleep(IDLE_S)  # packets of this moment
            _set_filter(self._socket, [_REJECT])  # so that the thread comes to an end while servers go on sending
            self._stopping.set()
            self._thread.join()
            self._ring.close()
            self._socket.close()
            self._lost += abs(clock_difference() - self._difference) > CLOCK_STEP_NS
        return {
            "bytes": len(self._records), "lost": self._lost, "cut_ns": self._cut_ns, "wall_ns": self._difference
        }  # fmt: skip

    def part(self, start: int, size: int) -> bytes:
        """Return ``size`` recorded bytes from ``start`` on."""
        return bytes(self._records[start : start + size])

    def _run(self) -> None:
        ready = select.poll()
        ready.register(self._socket, select.POLLIN)
        missing, dropped, number, waits = 0, 0, 0, 0
        while True:
            if _STATUS.unpack_from(self._ring, number * BLOCK + _STATUS_AT)[0]:
                missing -= self._take(number * BLOCK)
                number = (number + 1) % BLOCKS
            elif not ready.poll(IDLE_S * 1e3) and self._stopping.is_set():
                counted, without_block = self._counted()
                missing, dropped, waits = missing + counted, dropped + without_block, waits + 1
                if missing == dropped or waits == LAST_WAITS:
                    break
        self._lost = missing

    def _counted(self) -> tuple[int, int]:
        """Return how many packets the kernel has counted since the last call, and how many of them it dropped because
        there was no free block."""
        counted, dropped, _ = struct.unpack("3I", self._socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 12))
        return counted, dropped

    def _take(self, start: int) -> int:
        """Keep the packets of a block, give it back to the kernel, and return the number of its packets."""
        count, place, size = _BLOCK.unpack_from(self._ring, start)
        block = self._ring[start : start + size]
        _STATUS.pack_into(self._ring, start + _STATUS_AT, 0)
        for _ in range(count):
            if self._cut_ns:
                break
            to_next, seconds, ns, length, header, kind = _PACKET.unpack_from(block, place)
            moment = seconds * 1_000_000_000 + ns - self._difference
            self._keep(moment, block[place + header : place + header + length], outgoing=kind == socket.PACKET_OUTGOING)
            place += to_next
        return int(count)

    def _keep(self, moment: int, packet: bytes, *, outgoing: bool) -> None:
        first, length, _, source, target = _IP.unpack_from(packet)
        start = (first & 15) * 4
        from_port, to_port, sequence, _, offset, flags = _TCP.unpack_from(packet, start)
        data = packet[start + (offset >> 4) * 4 : length]
        if outgoing and from_port == self._port:
            client, port = target, to_port
        elif not outgoing and to_port == self._port:
            client, port = source, from_port
        else:
            return  # of a connection that this host opened to another server
        if len(self._records) + len(data) > MOST_BYTES:
            self._cut_ns = moment
            return
        self._records += RECORD.pack(moment, outgoing, client, port, sequence, flags & 7, len(data)) + data


def _open(port: int) -> socket.socket:
    opened = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM)
    _set_filter(opened, _to_and_from(port))
    opened.setsockopt(SOL_PACKET, PACKET_VERSION, TPACKET_V3)
    opened.setsockopt(SOL_PACKET, PACKET_RX_RING, _RING.pack(BLOCK, BLOCKS, BLOCK, BLOCKS, BLOCK_MS, 0, 0))
    # The socket gets nothing before it has a protocol. Packets that came before the blocks would count as lost.
    address = _ADDRESS.pack(socket.AF_PACKET, socket.htons(ETH_P_ALL), 0)
    succeeded(libc().bind(opened.fileno(), address, len(address)), "bind")
    return opened
