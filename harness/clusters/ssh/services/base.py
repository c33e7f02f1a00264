"""Base class of the servers of a kind on hosts: command, files, probes and readiness.

Each kind that can run on hosts names its subclass (``Kind.ssh``). A probe is made on the server's own host, by the
helper, so no fault of the network affects it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from harness.clusters.key_watch import KeyReader
from harness.clusters.kinds import KINDS, servers
from harness.errors import UsageError


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer of a server, and its host's wall clock (ns) before and after."""

    data: bytes
    before_ns: int
    after_ns: int


Converse = Callable[[str, bytes, bool], Answer | None]
"""Sends a request to the server ``host`` and returns its answer, None if there is none in time. With True the answer
ends where the server closes the connection."""


@dataclass(frozen=True, slots=True)
class ServerProgram:
    """How a server is started: its command, and the files that it needs, by name in the server's folder."""

    command: Sequence[str]
    files: Mapping[str, str]


class HostServers(ABC):
    """Servers of one kind. ``addresses`` and ``ports`` are filled in, by host name, once the hosts are known."""

    PROGRAM: ClassVar[str] = ""
    """The program that must be installed on the hosts."""
    NEWEST: ClassVar[tuple[str, ...]] = ("**/*",)
    """Patterns of the files with a server's newest data, in its data folder."""
    PORTS: ClassVar[int] = 1
    """Number of ports on which each server listens; clients use the first one."""
    WIPES: ClassVar[bool] = True
    """True if a server can start again without its data."""

    def __init__(self, kind: str, nodes: int, options: Mapping[str, Any], converse: Converse) -> None:
        self.kind = kind
        self.options = options
        self.names = servers(nodes)
        self.addresses: dict[str, str] = {}
        self.ports: dict[str, list[int]] = {}
        self._converse = converse

    @abstractmethod
    def program(self, host: str, folder: str) -> ServerProgram:
        """Return how the server is started that keeps everything in ``folder``."""

    @abstractmethod
    def answers(self, host: str) -> bool: ...

    @abstractmethod
    def version(self) -> str:
        """Name and version that the first server reports."""

    @abstractmethod
    def key_reader(self, port: int) -> Callable[[], KeyReader]:
        """Return a function that connects a reader of locks' keys to a server at this port of the loopback
        interface."""

    def ready(self, host: str) -> bool:
        """Return whether the server works together with the others."""
        return self.answers(host)

    def key_count(self, host: str) -> int | None:  # noqa: ARG002
        """Number of keys on a server, None if it does not say."""
        return None

    def clock(self, host: str) -> int | None:  # noqa: ARG002
        """ns that a server's wall clock is ahead of its host's, by the server. None if it does not say."""
        return None


def servers_class(kind: str) -> type[HostServers]:
    """Return the class of the servers of a kind on hosts. Raises UsageError."""
    of = KINDS.find(kind)
    if not of.ssh:
        usable = [name for name in sorted(KINDS.own) if KINDS.own[name].ssh]
        raise UsageError(f"{of.about} ({kind}) cannot run on hosts; --cluster ssh runs {', '.join(usable)}")
    found = of.load("ssh")
    if not (isinstance(found, type) and issubclass(found, HostServers)):
        raise UsageError(f"the cluster kind {kind}: ssh must be a subclass of HostServers, got {found!r}")
    return found
