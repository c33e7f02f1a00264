"""Where a program is tried: something that starts it, and can keep it from its servers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

SEATS: Final = ("c0", "c1")
"""The two clients, each with its own way to the servers."""
Lost = Literal["everything", "answers"]
"""What no longer passes between a client and its servers: data both ways, or only what servers say."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Seconds. ``ttl`` is what programs are opened with, ``timeout`` what an acquire may wait. ``patience`` is how much
    longer a program may take when no server answers, and for anything that asks no server; ``start`` until it has
    connected. ``expires`` is False for a lock that nobody gets any more when its holder has died, ``overtime`` by how
    much it may outlast its ttl."""

    ttl: float = 3.0
    timeout: float = 1.0
    patience: float = 5.0
    start: float = 20.0
    overtime: float = 0.0
    expires: bool = True

    @property
    def prompt(self) -> float:
        """What takes longer was not done at once; and well before a lease ends."""
        return min(1.0, self.ttl / 2)

    @property
    def wait(self) -> float:
        """For a busy lock, while the holder's lease surely lasts."""
        return min(self.timeout, self.ttl / 2)

    @property
    def lease_over(self) -> float:
        """Until a lease has ended that nobody renews, wherever clocks and sweepers stand."""
        return self.ttl + self.overtime + self.patience


class Wire(Protocol):
    """A running program: its stdin, its end, and what it says beside."""

    @property
    def said(self) -> Sequence[str]:
        """The last lines of its stderr."""

    def send(self, line: bytes) -> None:
        """One line to its stdin; raises OSError if it is gone."""

    def end_input(self) -> None: ...

    def kill(self) -> None:
        """At once, as a crash would; returns when it is gone. Harmless if it was gone already."""

    def status(self) -> int | None:
        """With what it has ended, None while it runs."""


class Bench(Protocol):
    """Servers, and programs that can be started at a seat."""

    def start(self, seat: str, on_line: Callable[[bytes], None]) -> Wire:
        """Start the program; ``on_line`` gets each line of its stdout, without its end."""

    def opening(self, seat: str) -> Mapping[str, Any]:
        """The fields of its ``open``, but for the ttl."""

    def lose(self, seat: str, lost: Lost) -> None:
        """From now on nothing of that passes; connections stay as they are."""

    def restore(self) -> None:
        """Everything passes again, at every seat. Connections in which something is missing may break."""
