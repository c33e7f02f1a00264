"""Delay, lose, slow down, reorder and damage packets in user space, for kernels without ``tc netem``.

The kernel puts packets that arrive in a namespace into a queue (iptables NFQUEUE), and a thread here decides when each
one continues.

The messages are those of <linux/netfilter/nfnetlink.h> and <linux/netfilter/nfnetlink_queue.h>. IPv4 only.
"""

from __future__ import annotations

import errno
import heapq
import os
import select
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final, NamedTuple

from .namespaces import Namespace

CHAIN: Final = "LOCK-HARNESS"
NUMBER: Final = 77
"""Number of this program's queue; a network namespace numbers its queues."""
NETLINK_NETFILTER: Final = 12
SUBSYSTEM: Final = 3
"""NFNL_SUBSYS_QUEUE"""
PACKET, VERDICT, CONFIG = 0, 1, 2
"""Kinds of message."""
CFG_COMMAND, CFG_PARAMETERS, CFG_LENGTH = 1, 2, 3
BIND, COPY_PACKET = 1, 2
PACKET_HEADER, VERDICT_HEADER, PAYLOAD = 1, 2, 10
"""Attributes."""
REQUEST, ACK = 1, 4
DROP, ACCEPT = 0, 1
IPV4_HEADER: Final = 20
"""Bytes of a header without options, which has the packet's length and source."""
WHOLE: Final = 0xFFFF
"""Bytes of each packet that the kernel hands over; it divides large ones before."""
HELD_MAX: Final = 100_000
"""Maximum number of packets in the queue; the kernel drops further ones."""
BATCH: Final = 256
"""Maximum number of packets read before due packets are released, and of verdicts in one message to the kernel."""


class QueueError(Exception):
    """Packets in a namespace cannot be delayed."""


@dataclass(frozen=True)
class PacketShape:
    """Treatment of packets from one source, in seconds.

    ``loss`` is a probability; ``rate`` is in bytes a second, None for no limit; ``jitter`` is the maximum delay in
    addition to ``delay``. With ``reorder`` a packet may overtake earlier ones. ``corrupt`` is the probability that one
    bit behind the IP header is flipped; the checksums stay as they are.
    """

    delay: float = 0.0
    jitter: float = 0.0
    loss: float = 0.0
    rate: float | None = None
    reorder: bool = False
    corrupt: float = 0.0

    def __post_init__(self) -> None:
        if not (0 <= self.delay < 3600 and 0 <= self.jitter < 3600):
            raise QueueError(f"delay and jitter: got {self.delay} and {self.jitter}, expected seconds below 3600")
        if not 0 <= self.loss <= 1:
            raise QueueError(f"loss: got {self.loss}, expected 0 to 1")
        if not 0 <= self.corrupt <= 1:
            raise QueueError(f"corrupt: got {self.corrupt}, expected 0 to 1")
        if self.rate is not None and self.rate <= 0:
            raise QueueError(f"rate: got {self.rate}, expected bytes a second above 0, or none")


class Packet(NamedTuple):
    number: int
    source: str
    length: int
    """Bytes, IPv4 header included."""
    data: bytes = b""


class DelayedPacket(NamedTuple):
    """A delayed packet. ``order`` is the order of arrival, in which packets due at the same moment are released;
    ``damaged`` is its new contents, empty if it was not damaged."""

    due: float
    order: int
    number: int
    source: str
    damaged: bytes = b""


class PacketLine:
    """Computes when packets from one source are due, given the earlier ones."""

    def __init__(self, shape: PacketShape, rng: Random) -> None:
        self.shape = shape
        self._rng = rng
        self._free = 0.0
        self._last = 0.0

    def due(self, now: float, length: int) -> float | None:
        """Return the monotonic time at which a packet that arrives now is released; None if it is lost."""
        shape = self.shape
        if shape.loss and self._rng.random() < shape.loss:
            return None
        sent = now
        if shape.rate is not None:
            sent = self._free = max(now, self._free) + length / shape.rate
        due = sent + shape.delay + (self._rng.random() * shape.jitter if shape.jitter else 0.0)
        if not shape.reorder:
            due = self._last = max(due, self._last)
        return due

    def damaged(self, data: bytes) -> bytes:
        """Return the packet with a flipped bit if it is to be damaged, else nothing."""
        if not self.shape.corrupt or self._rng.random() >= self.shape.corrupt:
            return b""
        first = (data[0] & 15) * 4
        if first >= len(data):
            return b""
        changed = bytearray(data)
        changed[self._rng.randrange(first, len(data))] ^= 1 << self._rng.randrange(8)
        return bytes(changed)

    def become(self, shape: PacketShape, rng: Random, latest: float) -> None:
        """Change the shape. Packets held so far are released at ``latest`` at the latest, later packets after them."""
        self.shape, self._rng = shape, rng
        self._last = min(self._last, latest)
        if shape.rate is None:
            self._free = 0.0


class KernelQueue:
    """The kernel's end of the queue, in the namespace of the thread that creates it."""

    def __init__(self) -> None:
        """:raises QueueError: permission is missing, the kernel has no NFQUEUE, or another program uses the queue."""
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER)
        try:
            self._socket.bind((0, 0))
            self._socket.setsockopt(socket.SOL_SOCKET, 33, 8 << 20)  # SO_RCVBUFFORCE
            self._socket.setsockopt(270, 5, 1)  # SOL_NETLINK, NETLINK_NO_ENOBUFS: packets that do not fit are lost
            # Packets that fit no buffer are lost, as in a full router; otherwise they would overtake the others.
            self._configure(CFG_COMMAND, struct.pack(">BBH", BIND, 0, socket.AF_INET))
            self._configure(CFG_PARAMETERS, struct.pack(">IB", WHOLE, COPY_PACKET))
            self._configure(CFG_LENGTH, struct.pack(">I", HELD_MAX))
        except OSError as error:
            self._socket.close()
            raise QueueError(f"queue {NUMBER}: {error}") from error
        self._socket.setblocking(False)

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def receive(self) -> list[Packet]:
        """Return the packets that have arrived, at most BATCH."""
        packets = []
        for _ in range(BATCH):
            try:
                message = self._socket.recv(1 << 17)
            except BlockingIOError:
                break
            # Other messages are errors about verdicts on packets that are gone, for example after an interface went
            # down.
            if len(message) > 20 and message[4:6] == bytes((PACKET, SUBSYSTEM)):
                packets.append(_packet(message))
        return packets

    def decide(self, numbers: Sequence[int], verdict: int) -> None:
        """Give one verdict, ACCEPT or DROP, on packets in this order."""
        for start in range(0, len(numbers), BATCH):
            some = numbers[start : start + BATCH]
            body = (_attribute(VERDICT_HEADER, struct.pack(">II", verdict, number)) for number in some)
            self._socket.send(b"".join(_message(VERDICT, REQUEST, attribute) for attribute in body))

    def replace(self, number: int, data: bytes) -> None:
        """Let a packet pass with other contents of the same length."""
        header = _attribute(VERDICT_HEADER, struct.pack(">II", ACCEPT, number))
        self._socket.send(_message(VERDICT, REQUEST, header + _attribute(PAYLOAD, data)))

    def _configure(self, attribute: int, value: bytes) -> None:
        self._socket.send(_message(CONFIG, REQUEST | ACK, _attribute(attribute, value)))
        # An acknowledgement is an error message with error 0.
        (failed,) = struct.unpack_from("=i", self._socket.recv(4096), 16)
        if failed:
            reason = "another program has it" if -failed in (errno.EPERM, errno.EBUSY) else os.strerror(-failed)
            raise OSError(-failed, reason)


def _attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def _message(kind: int, flags: int, attributes: bytes) -> bytes:
    body = struct.pack(">BBH", 0, 0, NUMBER) + attributes
    return struct.pack("=IBBHII", 16 + len(body), kind, SUBSYSTEM, flags, 0, 0) + body


def _packet(message: bytes) -> Packet:
    number, source, length, data = 0, "", 0, b""
    at = 20
    while at + 4 <= len(message):
        size, kind = struct.unpack_from("=HH", message, at)
        if kind == PACKET_HEADER:
            (number,) = struct.unpack_from(">I", message, at + 4)
        elif kind == PAYLOAD and size >= 4 + IPV4_HEADER:
            (length,) = struct.unpack_from(">H", message, at + 6)
            source = socket.inet_ntoa(message[at + 16 : at + 20])
            data = message[at + 4 : at + size]
        at += max(4, (size + 3) & ~3)
    return Packet(number, source, length, data)


class PacketQueue:
    """Shapes packets that arrive in a namespace, by source address. If its thread dies, packets pass unshaped."""

    def __init__(self, namespace: Namespace) -> None:
        """:raises QueueError: the queue or its rules cannot be set up."""
        self._namespace = namespace
        self._lines: dict[str, PacketLine] = {}
        self._held: list[DelayedPacket] = []
        self._arrived = 0
        self._lock = threading.Lock()
        self._stopping = False
        self._ruled: list[str] | None = None
        self._channel = namespace.call(KernelQueue)
        self._woken, self._wake = socket.socketpair()
        self._thread = threading.Thread(target=self._work, name=f"queue-{namespace.pid}", daemon=True)
        self._thread.start()

    def shape(self, shapes: Mapping[str, PacketShape], seed: int) -> None:
        """Shape packets from these sources from now on; others pass.

        Packets already held are released at the new, earlier time, or at once if their source is no longer shaped. Only
        a backlog caused by ``rate`` stays, if the source still has a rate.

        :raises QueueError: the rules cannot be set; packets from new sources then pass unshaped.
        """
        if not self._thread.is_alive():
            raise QueueError(f"the queue in the network namespace of process {self._namespace.pid} has died")
        # Set the table before the rules: a packet from a source that is not in the table passes.
        with self._lock:
            self._replace(shapes, seed)
            self._release(time.monotonic())
        self._wake.send(b"x")
        self._rule(sorted(shapes))

    def stop(self) -> None:
        """Release all held packets in order and remove the rules. The queue cannot be used again."""
        try:
            if self._thread.is_alive():
                self.shape({}, 0)
            else:
                self._rule([])
        finally:
            # Packets that arrived before the rules were removed are still in the queue, and closing it now would lose
            # them.
            self._stopping = True
            self._wake.send(b"x")
            self._thread.join()
            self._woken.close()
            self._wake.close()

    def _replace(self, shapes: Mapping[str, PacketShape], seed: int) -> None:
        now = time.monotonic()
        lines = {}
        latest: dict[str, float] = {}
        for source, shape in shapes.items():
            # Each source has its own generator, so that its losses do not depend on other sources' packets.
            rng = Random(f"{seed}/{source}")
            line = lines[source] = self._lines.get(source) or PacketLine(shape, rng)
            latest[source] = now + shape.delay + shape.jitter if shape.rate is None else float("inf")
            line.become(shape, rng, latest[source])
        self._lines = lines
        self._held = [held._replace(due=min(held.due, latest.get(held.source, now))) for held in self._held]
        heapq.heapify(self._held)

    def _work(self) -> None:
        try:
            while not self._stopping:
                self._wait()
                with self._lock:
                    self._take_in()
                    self._release(time.monotonic())
            with self._lock:
                while self._take_in():
                    pass
                self._release(float("inf"))
        finally:
            # The kernel bypasses a queue that no program has open.
            self._channel.close()

    def _wait(self) -> None:
        # select, because poll and epoll count in whole milliseconds.
        with self._lock:
            wait = max(0.0, self._held[0].due - time.monotonic()) if self._held else None
        sources: list[KernelQueue | socket.socket] = [self._channel, self._woken]
        ready, _, _ = select.select(sources, [], [], wait)
        if self._woken in ready:
            self._woken.recv(64)

    def _take_in(self) -> int:
        packets = self._channel.receive()
        now = time.monotonic()
        lost, passing = [], []
        for packet in packets:
            line = self._lines.get(packet.source)
            due = line.due(now, packet.length) if line else now
            self._arrived += 1
            if due is None:
                lost.append(packet.number)
            elif line is None:
                passing.append(packet.number)
            else:
                damaged = line.damaged(packet.data)
                heapq.heappush(self._held, DelayedPacket(due, self._arrived, packet.number, packet.source, damaged))
        self._channel.decide(lost, DROP)
        self._channel.decide(passing, ACCEPT)
        return len(packets)

    def _release(self, until: float) -> None:
        due: list[int] = []
        while self._held and self._held[0].due <= until:
            packet = heapq.heappop(self._held)
            if packet.damaged:
                self._channel.decide(due, ACCEPT)
                due = []
                self._channel.replace(packet.number, packet.damaged)
            else:
                due.append(packet.number)
        self._channel.decide(due, ACCEPT)

    def _rule(self, sources: list[str]) -> None:
        """Send exactly these sources' packets to the queue; without sources, remove the chain."""
        if sources == self._ruled:
            return  # saves 15 ms
        if not self._ruled:
            # Remove the rule of a helper that was killed. It fails if there is none, which is the usual case.
            self._iptables("iptables", "-t", "mangle", "-D", "INPUT", "-j", CHAIN)
        lines = ["*mangle", f":{CHAIN} - [0:0]"]
        if sources:
            lines += [f"-A {CHAIN} -s {source} -j NFQUEUE --queue-num {NUMBER} --queue-bypass" for source in sources]
            lines += [] if self._ruled else [f"-A INPUT -j {CHAIN}"]
        else:
            lines += [f"-D INPUT -j {CHAIN}"] if self._ruled else []
            lines += [f"-X {CHAIN}"]
        script = "\n".join([*lines, "COMMIT", ""])
        done = self._iptables("iptables-restore", "--noflush", script=script)
        if done.returncode:
            raise QueueError(f"iptables-restore: {done.stderr.strip()}; the rules were:\n{script}")
        self._ruled = sources

    def _iptables(self, *command: str, script: str = "") -> subprocess.CompletedProcess[str]:
        def run() -> subprocess.CompletedProcess[str]:
            return subprocess.run(command, input=script, capture_output=True, text=True, check=False, timeout=10)

        try:
            return self._namespace.call(run)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise QueueError(f"{command[0]}: {error}") from error
