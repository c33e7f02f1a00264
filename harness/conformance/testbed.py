"""Interfaces of a testbed: start a lock program, and lose data between it and its servers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

CLIENTS: Final = ("c0", "c1")
"""Names of the two clients, each with connections of its own to the servers."""
LostData = Literal["everything", "answers"]
"""Data that is lost between a client and its servers: all data, or only the servers' answers."""


@dataclass(frozen=True, slots=True)
class ConformanceSettings:
    """Settings in seconds.

    ``ttl`` is the lease time with which programs are opened, ``timeout`` the time-out of an acquire. ``patience`` is
    the additional time that a program may take if no server answers, and for requests that need no server; ``start`` is
    the time limit for connecting. ``expires`` is False for a lock that stays held when its holder has died;
    ``overtime`` is how much longer than its ttl a lease may last.
    """

    ttl: float = 3.0
    timeout: float = 1.0
    patience: float = 5.0
    start: float = 20.0
    overtime: float = 0.0
    expires: bool = True

    @property
    def prompt(self) -> float:
        """Time limit for an immediate answer, well before a lease ends."""
        return min(1.0, self.ttl / 2)

    @property
    def wait(self) -> float:
        """Time-out for a busy lock, within the holder's lease."""
        return min(self.timeout, self.ttl / 2)

    @property
    def lease_over(self) -> float:
        """Time after which a lease that is not renewed has certainly ended, even with inexact clocks and sweepers."""
        return self.ttl + self.overtime + self.patience


class ProgramHandle(Protocol):
    """A running program: its stdin, stderr and exit status."""

    @property
    def stderr_lines(self) -> Sequence[str]:
        """Last lines of the program's stderr."""

    def send(self, line: bytes) -> None:
        """Write a line to the program's stdin; raise OSError if the program has ended."""

    def end_input(self) -> None: ...

    def kill(self) -> None:
        """Kill the program at once, as a crash would, and wait for its end. No effect if it has ended."""

    def status(self) -> int | None:
        """Exit status, ``None`` while it runs."""


class Testbed(Protocol):
    """Test environment: servers, and a program for each client."""

    def start(self, client: str, on_line: Callable[[bytes], None]) -> ProgramHandle:
        """Start the program; ``on_line`` gets each line of its stdout, without the line end."""

    def open_fields(self, client: str) -> Mapping[str, Any]:
        """Return the fields of the client's ``open`` request, except the ttl."""

    def start_losing(self, client: str, lost_data: LostData) -> None:
        """Start losing this data; connections stay open."""

    def stop_losing(self) -> None:
        """Stop losing data, for all clients. Connections in which data was lost may break."""
