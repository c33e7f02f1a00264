"""Numbered datagrams from one network to another, to count what the network between them does to packets."""

from __future__ import annotations

import socket
import struct
import time
import zlib
from typing import Final

from .network import Network

HEADER: Final = struct.Struct(">II")
"""Number of a datagram, and the CRC-32 of its number."""
FILLER: Final = bytes(range(56))
GAP_S: Final = 0.001
QUIET_S: Final = 0.5
"""Seconds without an arrival after which no further datagram is expected."""
SO_NO_CHECK: Final = 11
"""Linux: datagrams are sent without a checksum, so that the receiver's kernel does not drop the damaged ones."""


def exchange(source: Network, target: Network, address: str, count: int) -> dict[str, int]:
    """Send ``count`` datagrams to ``address``, which is the target's, and count them by what happened on the way.

    ``received`` counts different intact datagrams; ``damaged``, ``duplicated`` and ``reordered`` (after a later one)
    say themselves. A datagram whose header was damaged is lost.
    """
    receiver = target.namespace.call(_udp)
    sender = source.namespace.call(_udp)
    with receiver, sender:
        receiver.bind((address, 0))
        sender.setsockopt(socket.SOL_SOCKET, SO_NO_CHECK, 1)
        for number in range(count):
            sender.sendto(_datagram(number), receiver.getsockname())
            time.sleep(GAP_S)
        return {"sent": count, **counted(_received(receiver))}


def _udp() -> socket.socket:
    return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)


def _datagram(number: int) -> bytes:
    return HEADER.pack(number, zlib.crc32(struct.pack(">I", number))) + FILLER


def _received(receiver: socket.socket) -> list[bytes]:
    receiver.settimeout(QUIET_S)
    found = []
    while True:
        try:
            found.append(receiver.recv(2048))
        except TimeoutError:
            return found


def counted(datagrams: list[bytes]) -> dict[str, int]:
    """Count datagrams, in the order of their arrival; see :func:`exchange`."""
    seen: set[int] = set()
    damaged = duplicated = reordered = 0
    latest = -1
    for data in datagrams:
        number = HEADER.unpack_from(data)[0] if len(data) >= HEADER.size else -1
        if data != _datagram(max(0, number)):
            damaged += 1
        elif number in seen:
            duplicated += 1
        else:
            seen.add(number)
            reordered += number < latest
            latest = max(latest, number)
    return {"received": len(seen), "damaged": damaged, "duplicated": duplicated, "reordered": reordered}
