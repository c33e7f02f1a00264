"""Interfaces between a simulated host and a server program on it, such as a simulated Redis.

A server program implements :class:`Service`: the host calls it for every start, connection and piece of data, and it
answers through :class:`Conn`. It uses no threads. The object survives restarts of its host, as a disk does, and is told
about each start. All times are integer nanoseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Protocol


class Timer(Protocol):
    """A pending call. Cancelling one that has already run does nothing."""

    def cancel(self) -> None: ...


class Conn(Protocol):
    """A server's end of a byte stream. ``session`` belongs to the service, which may store anything in it."""

    peer: str
    """Name of the host at the other end."""
    session: Any

    def send(self, data: bytes) -> None:
        """Send bytes to the other end. A closed connection discards them without an error, as on a real host."""

    def close(self) -> None:
        """Close the connection after the data already sent."""


class Handler(Protocol):
    """Callbacks of one connection. On the client side, ``closed`` without ``opened`` before it means "refused"."""

    def opened(self, conn: Conn) -> None:
        """The connection is established."""

    def received(self, conn: Conn, data: bytes) -> None:
        """Bytes arrived, in any split."""

    def closed(self, conn: Conn) -> None:
        """The other end closed or reset the connection, or it was refused."""


class ServiceHost(Protocol):
    """The host as its server programs see it. A kill cancels pending timers; a pause postpones them."""

    name: str

    @property
    def rng(self) -> Random:
        """The host's seeded random generator; another one after each start."""

    def wall_ns(self) -> int:
        """Return the host's wall-clock time, ns since 1970. Faults can move this clock."""

    def monotonic_ns(self) -> int:
        """Return the host's monotonic time, ns."""

    def call_later(self, delay_ns: int, fn: Callable[..., None], *args: Any) -> Timer:
        """Call ``fn(*args)`` after ``delay_ns``."""

    def dial(self, host: str, port: int, handler: Handler) -> Conn:
        """Open a connection to another host; ``handler`` is called when it opens, or fails."""

    def log(self, line: str) -> None:
        """Append a line to the server's log. The host adds true time and its wall-clock time."""

    def lacks(self, client: str, what: str) -> None:
        """Note that the host ``client`` called ``what``, which the real server may have and this one lacks."""


class Service(Handler, Protocol):
    """A server program.

    The host calls ``start`` at each of its starts, with ``wiped`` True if the disk was lost, and ``stop`` when it is
    killed: the service then discards everything that a real process keeps in memory.
    """

    port: int

    def start(self, host: ServiceHost, *, wiped: bool) -> None:
        """Start on ``host``, with an empty disk if ``wiped``."""

    def stop(self) -> None:
        """Discard what a real process keeps in memory."""
