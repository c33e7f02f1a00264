"""Base class for the servers of a simulated cluster: their hosts and programs, and what can be seen of them.

Each kind names its subclass (:class:`harness.clusters.kinds.Kind`); only the one that a run needs is imported.
"""

from __future__ import annotations

import contextlib
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from harness.clusters.base import ClusterEndpoints, Role
from harness.clusters.kinds import KINDS, sentinels
from harness.clusters.kinds import servers as server_names
from harness.errors import HarnessError, UsageError
from harness.history.lock_keys import KeyObservation
from harness.sim.hosts import SimHost

MakeHost = Callable[[str, Role], SimHost]
OnReply = Callable[[str, str], None]
"""Called with (client host, command name) when a server has executed a command and its answer is about to leave."""
Look = Callable[[str], KeyObservation | None]
"""Returns a server's current owner and expiry of a lock's key, ``None`` without an owner. Has no side effect."""


class SimServers(ABC):
    """The servers of one kind, with the hosts that monitor them.

    A subclass installs programs on the hosts. It implements :class:`harness.clusters.abilities.servers.Failover` or
    another protocol if its servers work that way. ``watch``, ``key_count`` and ``look`` are by host; a subclass fills
    in those that its programs have.
    """

    lapses: ClassVar[bool] = False
    """True if a key expires exactly at its time, without any action of its server."""

    def __init__(self, make: MakeHost, kind: str, nodes: int, options: dict[str, Any]) -> None:
        self.kind = kind
        self.port = KINDS.find(kind).port
        self.options = options
        self.hosts = [make(name, "server") for name in server_names(nodes)]
        self.sentinels = [make(name, "sentinel") for name in sentinels(kind)]
        self.watch: dict[str, Callable[[OnReply | None], None]] = {}
        self.key_count: dict[str, Callable[[], int]] = {}
        self.look: dict[str, Look] = {}
        self.install()

    @abstractmethod
    def install(self) -> None:
        """Install the programs on the hosts."""

    def address(self) -> ClusterEndpoints:
        """Addresses that clients connect to."""
        return ClusterEndpoints(self.kind, tuple((host.name, self.port) for host in self.hosts))

    @staticmethod
    def commands(data: bytes) -> list[str]:  # noqa: ARG004
        """Return the upper-case names of the commands in a client's data."""
        return []


class SimPeers(SimServers):
    """Servers that talk to each other; see :class:`harness.clusters.abilities.servers.Peers`."""

    def peers(self) -> list[str]:
        return [host.name for host in (*self.hosts, *self.sentinels)]


@contextlib.contextmanager
def blaming(kind: str) -> Iterator[None]:
    """Turn an exception that the code of a user's kind raises into a UsageError that names the kind."""
    try:
        yield
    except HarnessError:
        raise
    except Exception as error:
        if kind in KINDS.own:
            raise
        code = servers_class(kind).__module__.partition(".")[0]
        frames = traceback.walk_tb(error.__traceback__)
        if all(frame.f_globals["__name__"].partition(".")[0] != code for frame, _ in frames):
            raise
        raise UsageError(f"the cluster kind {kind}: {type(error).__name__}: {error}") from error


def servers_class(kind: str) -> type[SimServers]:
    """Return the class of the servers of a kind that can be simulated."""
    found = KINDS.find(kind).load("sim")
    if not (isinstance(found, type) and issubclass(found, SimServers)):
        raise UsageError(f"the cluster kind {kind}: sim must be a subclass of SimServers, got {found!r}")
    return found


def watch_of(program: Any) -> Callable[[OnReply | None], None]:
    """Return a function that lets a callback hear the commands that a program has executed."""

    def watch(on_reply: OnReply | None) -> None:
        program.on_command = on_reply

    return watch
