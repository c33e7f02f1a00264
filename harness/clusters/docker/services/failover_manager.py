"""Main loop of a failover manager. It runs in a container, which has the client libraries of databases only."""

from __future__ import annotations

import json
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final

PATIENCE: Final = 1.0
"""Seconds without an answer after which the primary is considered dead."""
EVERY: Final = 0.1
ANSWER_S: Final = 0.3
Say = Callable[[dict[str, str]], None]


class FailoverManager(ABC):
    """Probes the primary ten times a second. When it has not answered for a second, the manager promotes the replica
    that has received most, and announces it. MHA, orchestrator, repmgr and Pacemaker agents do the same, with the same
    limit: they cannot distinguish a dead primary from an unreachable one.

    A server that is neither the primary nor follows it, such as a restarted former primary, is rebuilt as a replica.
    Data that only it had is lost. ``servers`` are addresses by name. ``say`` announces the primary.
    """

    def __init__(self, servers: dict[str, str], say: Say) -> None:
        self.servers = servers
        self._say = say
        self._changing = threading.Lock()
        """A replica is never promoted while it is being rebuilt."""
        self.primary = self.found() or next(iter(servers))

    @abstractmethod
    def found(self) -> str | None:
        """Return the server that accepts writes, None if there is none: the primary after a restart of the manager."""

    @abstractmethod
    def reaches(self, name: str) -> bool:
        """Return whether the primary answers."""

    @abstractmethod
    def received(self, name: str) -> int | None:
        """Return the position of the last change that a replica has received, None if it is none or is unreachable."""

    @abstractmethod
    def promote(self, name: str) -> bool:
        """Make a replica the primary; False if that failed."""

    @abstractmethod
    def accepts_writes(self, name: str) -> bool:
        """Return whether a server answers and accepts writes."""

    @abstractmethod
    def must_be_rebuilt(self, name: str) -> bool:
        """Return whether a server answers and does not follow the primary."""

    @abstractmethod
    def rebuild(self, name: str) -> None:
        """Make a server a replica of the primary."""

    def run(self) -> None:
        threading.Thread(target=self._keep_followers, daemon=True).start()
        self._say({"primary": self.primary})
        answered = time.monotonic()
        while True:
            if self.reaches(self.primary) or (time.monotonic() - answered >= PATIENCE and self._fail_over()):
                answered = time.monotonic()
            time.sleep(EVERY)

    def _fail_over(self) -> bool:
        old = self.primary
        with self._changing:
            received = {name: self.received(name) for name in self.servers if name != old}
            able = {name: most for name, most in received.items() if most is not None}
            if not able:
                return False
            new = max(able, key=lambda name: able[name])
            if not self.promote(new):
                return False
            self.primary = new
        print(f"{old} has not answered for a second: {new} is promoted")
        self._say({"primary": new})
        return True

    def _keep_followers(self) -> None:
        while True:
            for name in self.servers:
                with self._changing:
                    there_is_one = name != self.primary and self.accepts_writes(self.primary)
                    if there_is_one and self.must_be_rebuilt(name):
                        print(f"{name} does not follow {self.primary}: it is rebuilt")
                        self.rebuild(name)
            time.sleep(EVERY)


def say(line: dict[str, str]) -> None:
    """Announce the primary to the control side."""
    print(json.dumps(line), flush=True)
