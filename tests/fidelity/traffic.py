"""Recorded traffic for tests: written by hand, and from files of real runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from harness.clusters.wire import SCHEMA, WireEvent, WireRecording, unpack
from harness.sim.servers.redis.protocol import encode_command

TRACES: Final = Path(__file__).parent / "traces"
WALL_NS: Final = 1_767_225_600_000_000_000
"""Wall clock of the recordings that tests write, at time 0: 2026-01-01T00:00:00Z."""
MS: Final = 1_000_000


def recorded(name: str) -> WireRecording:
    """Return a recording of one server of a real run."""
    path = TRACES / f"{name}.jsonl.gz"
    return unpack(path.read_bytes(), path.name)


def runs_of(service: str) -> list[str]:
    """Return the names of the recorded real runs of a service."""
    names = (path.name.removesuffix(".jsonl.gz") for path in TRACES.glob(f"{service}-*"))
    return sorted({re.sub(r"-n\d$", "", name) for name in names})


def servers_of(run: str) -> list[WireRecording]:
    """Return the recordings of all servers of a real run, in the order of their names."""
    several = sorted(path.name.removesuffix(".jsonl.gz") for path in TRACES.glob(f"{run}-n?.jsonl.gz"))
    return [recorded(name) for name in several or [run]]


class Traffic:
    """Builds a recording of a server that starts at 0 ms. All times are ms."""

    def __init__(self, kind: str = "redis-single") -> None:
        self._kind = kind
        self._events = [WireEvent(time=0, what="start", how="new")]
        self._open: set[int] = set()

    def redis(self, connection: int, arrived: float, replied: float | None, words: str, reply: str = "") -> Traffic:
        """Add a command and its reply, without a reply if ``replied`` is None."""
        command = encode_command([word.encode() for word in words.split()])
        return self.bytes(connection, arrived, replied, command, reply.encode() + b"\r\n")

    def open(self, connection: int, at: float) -> Traffic:
        """Open a connection, unless it is open."""
        if connection in self._open:
            return self
        self._open.add(connection)
        return self.add("open", at, connection=connection, peer=f"10.0.0.{connection}:1")

    def bytes(self, connection: int, arrived: float, replied: float | None, request: bytes, reply: bytes) -> Traffic:
        self.open(connection, arrived)
        self.add("in", arrived, connection=connection, data=request)
        return self if replied is None else self.add("out", replied, connection=connection, data=reply)

    def add(self, what: Any, at: float, until: float = 0, **fields: Any) -> Traffic:
        """Add another event."""
        event = WireEvent(time=round(at * MS), what=what, until=round((until or at) * MS), **fields)
        self._events.append(event)
        return self

    def recording(self, **fields: Any) -> WireRecording:
        events = tuple(sorted(self._events, key=lambda event: event.time))
        return WireRecording(schema=SCHEMA, host="n1", kind=self._kind, wall_ns=WALL_NS, events=events, **fields)
