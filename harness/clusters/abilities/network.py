"""Abilities on the network between clients and servers: links, packets, messages and commands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from harness.clusters.wire import WireRecording

Tap = Callable[[str, str, str, str], None]
"""Callback for each command on the network, called at the moment it passes: (``"request"`` or ``"reply"``, client host,
server host, command name)."""
Links = Sequence[tuple[str, str]]
"""One-way links between hosts: (source, target)."""


@dataclass(frozen=True, slots=True)
class LinkShape:
    """Impairment of a link: ``latency`` and ``jitter`` in seconds, ``loss`` as a probability, ``rate`` in bytes a
    second (``None``: unlimited)."""

    latency: float = 0.0
    jitter: float = 0.0
    loss: float = 0.0
    rate: float | None = None


@dataclass(frozen=True, slots=True)
class PacketAlteration:
    """Change of packets on a link: ``corrupt`` and ``duplicate`` are probabilities; within ``reorder_s`` seconds
    packets overtake each other."""

    corrupt: float = 0.0
    duplicate: float = 0.0
    reorder_s: float = 0.0


class MessageTrap(Protocol):
    """Trap on a link that loses or delays one message; ``used`` once it has caught it."""

    @property
    def used(self) -> bool: ...

    def cancel(self) -> None:
        """Remove the trap; it catches no further message."""


@runtime_checkable
class Network(Protocol):
    """Cut links between hosts, and probe them."""

    def cut(self, links: Links) -> None:
        """Stop packets on all of these links at once. Cuts of a link are counted, and each needs its own
        :meth:`heal`."""

    def heal(self, links: Links) -> None: ...

    def reaches(self, source: str, target: str, timeout: float, /) -> float | None:
        """Return the round trip in seconds from one host to another, ``None`` if nothing came back in time."""


@runtime_checkable
class Traffic(Protocol):
    """Impair, lose and hold back what clients and servers send to each other."""

    def shape(self, links: Links, shape: LinkShape) -> Callable[[], None]:
        """Impair links, in addition to earlier shapes. Return a function that undoes it and may be called again."""

    def trap_message(self, source: str, target: str, needle: bytes, delay: float | None) -> MessageTrap:
        """Lose the next data on this link that contains ``needle``, or delay it by ``delay`` seconds."""

    def black_hole(self, client: str, server: str) -> MessageTrap:
        """Let connections of a client to a server be accepted and lose all their data, in both directions.

        The trap is ``used`` once data was lost. Cancelling it breaks the existing connections, since data is missing in
        them.
        """

    def black_holed(self, links: Links) -> list[bool]:
        """For each (client, server), probe whether data is lost in both directions. All links are probed at once."""

    def break_streams(self, host: str) -> int:
        """Reset a host's connections to other hosts of the cluster, and return how many there were."""


@runtime_checkable
class PacketFaults(Protocol):
    """Damage, duplicate and reorder the packets of links."""

    def alter_packets(self, links: Links, alteration: PacketAlteration) -> Callable[[], None]:
        """Alter packets, in addition to earlier alterations. Return a function that undoes it and may be called
        again."""

    def count_packets(self, source: str, target: str, count: int, /) -> dict[str, int]:
        """Send ``count`` packets on a link, one after the other, and return how many were ``received`` intact,
        ``damaged``, ``duplicated`` and ``reordered``."""


@runtime_checkable
class CommandTaps(Protocol):
    """Listen to the commands between clients and servers."""

    def tap(self, tap: Tap | None) -> None:
        """Call ``tap`` for each command between clients and servers; ``None`` stops that."""


@runtime_checkable
class WireRecordings(Protocol):
    """Record what servers receive and send."""

    def record_wire(self, *, sockets: bool = False) -> None:
        """Record the next run; with ``sockets`` also when clients send and receive, and from which line."""

    def socket_logs(self) -> dict[str, list[list[Any]]]:
        """Return the entries of :mod:`harness.history.socket_entries` of a run that has ended: by client, a list for
        each of its processes."""

    def wire(self) -> dict[str, WireRecording]:
        """Return the recordings of a run that has ended, by server."""
