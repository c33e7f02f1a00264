"""The seam between a simulated host and the server program on it: callbacks in, bytes out, no threads.

A :class:`Service` is the program (a Redis, say); it survives restarts of its host as a program's *disk* does, and is
told about each start. All times are integer nanoseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Protocol


class Timer(Protocol):
    """A pending call; cancelling one that has run is harmless."""

    def cancel(self) -> None: ...


class Conn(Protocol):
    """One end of an established byte stream, as a server sees it. ``session`` is the service's own, to keep
    what it wants."""

    peer: str
    """Name of the host at the other end."""
    session: Any

    def send(self, data: bytes) -> None:
        """Queue bytes for the other end; a closed connection swallows them, as a kernel's buffer does."""

    def close(self) -> None: ...


class Handler(Protocol):
    """Receives the events of a connection. On the dialling side ``closed`` without ``opened`` means: refused."""

    def opened(self, conn: Conn) -> None: ...

    def received(self, conn: Conn, data: bytes) -> None: ...

    def closed(self, conn: Conn) -> None: ...


class ServiceHost(Protocol):
    """What a server program may ask of the machine it runs on. Timers die with the host's life (kill) and wait while it
    is paused."""

    name: str

    @property
    def rng(self) -> Random: ...

    def wall_ns(self) -> int: ...

    def monotonic_ns(self) -> int: ...

    def call_later(self, delay_ns: int, fn: Callable[..., None], *args: Any) -> Timer: ...

    def dial(self, host: str, port: int, handler: Handler) -> Conn: ...

    def log(self, line: str) -> None:
        """Write a line to the server's log; the host adds its wall clock and true time."""


class Service(Handler, Protocol):
    """A server program. ``start`` is called at every start of the host, with ``wiped`` True if its disk was lost;
    memory does not survive between two starts. ``stop`` is called at a kill: drop all that lives in memory."""

    port: int

    def start(self, host: ServiceHost, *, wiped: bool) -> None: ...

    def stop(self) -> None: ...
