"""Base class for the servers of a container cluster: commands to run, configuration, probes and readiness.

Each kind names its subclass (:class:`harness.clusters.kinds.Kind`); only the one that a run needs is imported. Probes
go from the control side to the servers, over connections that no fault cuts.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from harness.clusters.abilities.servers import DEFAULT_RELEASE
from harness.clusters.base import ClusterEndpoints, Role
from harness.clusters.docker.containers.engine import Box
from harness.clusters.docker.containers.helper_client import Helper
from harness.clusters.docker.images.images import Images
from harness.clusters.gate import NetworkGate
from harness.clusters.key_watch import ANSWER_S, KeyReader
from harness.clusters.kinds import KINDS, sentinels, servers
from harness.errors import EnvironmentLacking, UsageError

from .commands import CommandReader
from .disks import Disks

__all__ = ["ANSWER_S", "RealPeers", "RealServers", "reading", "servers_class"]


class RealServers(ABC):
    """Servers of one kind, with the hosts that monitor them. A subclass implements
    :class:`harness.clusters.abilities.servers.Failover` or another protocol if its servers work that way.

    ``addresses`` (host name to IP address) is filled in once the hosts exist; ``boxes`` and ``helper`` too if there are
    clients. A program keeps all its data under ``/data``, which is emptied to start it without data.
    """

    START: ClassVar[float] = 20.0
    """Seconds within which the servers must be ready."""
    KNOCK: ClassVar[bytes] = b""
    """64 bytes that a server answers on a new connection; if empty, a Redis PING is sent."""
    RESTORE: ClassVar[str] = ""
    """Shell commands that undo changes of programs and faults outside ``/data`` and ``/tmp``."""
    GREETS: ClassVar[bool] = False
    """True if a server sends a greeting on a new connection."""
    COMMANDS: ClassVar[type[CommandReader] | None] = None
    """Reader of the commands in the servers' traffic, ``None`` if faults cannot wait for commands."""
    DISKS: ClassVar[type[Disks] | None] = Disks
    """Access of faults to the servers' disks, ``None`` if the servers keep everything in memory."""
    NEWEST: ClassVar[tuple[str, ...]] = ("**/*",)
    """Patterns of the files with a server's newest data, below ``/data``."""

    OTHER_USER: ClassVar[bool] = False
    """True if programs run as another user than root, which alone does not give access to their memory."""
    PROGRAMS: ClassVar[Mapping[str, str]] = {}
    """Names of the programs of another release: as they are called, by their names in the files of the release. Empty
    if servers cannot be started as another release."""

    def __init__(self, kind: str, nodes: int, options: Mapping[str, Any]) -> None:
        self.kind = kind
        self.options = options
        self.addresses: dict[str, str] = {}
        self.boxes: Mapping[str, Box] = {}
        self.helper: Helper | None = None
        self.gate = NetworkGate()
        self.keys: tuple[str, ...] = ("k0",)
        """The locks' keys, as the servers know them."""
        self.roles: dict[str, Role] = {
            **dict.fromkeys(servers(nodes), "server"),
            **dict.fromkeys(sentinels(kind), "sentinel"),
        }

    def image(self, images: Images, host: str) -> str:  # noqa: ARG002
        """Return the reference of a host's image, building it if it does not exist."""
        release = self.options.get("release")
        return images.server_release(release) if release else images.server(KINDS.find(self.kind).service)

    def image_with_releases(self, images: Images, own: str, releases: Sequence[str]) -> str:
        """Return the reference of an image of servers that has these releases, and the one with which they start,
        below ``/releases``; the servers' image itself if there are none. ``own`` is the user's image, empty for the
        kind's."""
        base = own or images.server(KINDS.find(self.kind).service)
        started = [self.options["release"]] if "release" in self.options else []
        wanted = sorted({*started, *releases} - {DEFAULT_RELEASE})
        return images.with_releases(base, wanted, self.PROGRAMS) if wanted else base

    @abstractmethod
    def program(self, host: str) -> tuple[list[str], dict[str, str]]:
        """Return (command, environment) of the host's program; used at every start of the host."""

    @property
    def data_hosts(self) -> list[str]:
        """Hosts that store clients' data."""
        return [name for name, role in self.roles.items() if role == "server"]

    @property
    def stages(self) -> list[list[str]]:
        """Hosts grouped by stage; a stage is started when the one before it is ready."""
        return [[name for name, of in self.roles.items() if of == role] for role in ("server", "sentinel")]

    def port(self, host: str) -> int:  # noqa: ARG002
        return KINDS.find(self.kind).port

    def reached(self, host: str, port: int = 0) -> tuple[str, int]:
        """(Host, port) at which the control side reaches a host's program; its own port without another one. Connect
        within :attr:`gate`."""
        return self.gate.address(self.addresses[host], port or self.port(host))

    def address(self) -> ClusterEndpoints:
        """Addresses that clients connect to."""
        return ClusterEndpoints(self.kind, tuple((self.addresses[name], self.port(name)) for name in self.data_hosts))

    def on_log_line(self, host: str, line: str) -> None:  # noqa: B027 - optional hook
        """Handle a line of output of a host's program; called in the thread that reads it."""

    def look(self, host: str) -> list[str]:  # noqa: ARG002
        """Return a command that shows, inside the host's container, what the host stores; empty if there is none."""
        return []

    # Probes.

    @abstractmethod
    def answers(self, host: str) -> bool:
        """Return whether the host's program answers."""

    def key_count(self, host: str) -> int | None:  # noqa: ARG002
        """Number of keys on the host; ``None`` if unknown."""
        return None

    def clock(self, host: str) -> int | None:  # noqa: ARG002
        """ns that the host's wall clock is ahead of this machine's, according to the server. ``None`` if it does not
        say; then the clock is read from the memory of its process."""
        return None

    def key_reader(self, host: str) -> Callable[[], KeyReader] | None:  # noqa: ARG002
        """Return a function that connects a reader of locks' keys to a server; ``None`` if the family has none."""
        return None

    @abstractmethod
    def version(self) -> str:
        """Name and version that the servers report; empty if they do not answer."""

    # Releases. See :class:`harness.clusters.abilities.servers.ServerReleases`.

    def version_of(self, host: str) -> str:  # noqa: ARG002
        """Name and version that a server reports; empty if it does not answer, or if the kind does not ask."""
        return ""

    def serves(self, host: str) -> bool:
        """Return whether a server works; a replica also whether it receives the data of its primary."""
        return self.answers(host)

    def hand_over(self, host: str, within_s: float) -> bool:  # noqa: ARG002
        """Let another server become the primary; True if none of the servers leads the others."""
        return True

    # Clocks.

    def set_clock(self, host: str, offset_ns: int, rate: float, since_ns: int) -> bool:  # noqa: ARG002
        """Set a host's wall clock by a method special to this program. Return False to let the caller use the general
        method."""
        return False

    # Readiness.

    def await_stage(self, hosts: list[str]) -> None:
        """Wait until these hosts are ready; raise EnvironmentLacking after :data:`START` seconds."""
        self.await_hosts(hosts, self.ready)

    def await_hosts(self, hosts: list[str], done: Callable[[str], bool]) -> None:
        """Wait until a condition is true of all these hosts; raise EnvironmentLacking after :data:`START` seconds."""
        deadline = time.monotonic() + self.START
        while not all(map(done, hosts)):
            if time.monotonic() >= deadline:
                late = [host for host in hosts if not done(host)]
                raise EnvironmentLacking(f"not ready within {self.START:g} s: {', '.join(late)}; see the servers' logs")
            time.sleep(0.02)

    def ready(self, host: str) -> bool:
        """Return whether the host works together with the others."""
        return self.answers(host)


class RealPeers(RealServers):
    """Servers that talk to each other; see :class:`harness.clusters.abilities.servers.Peers`."""

    def peers(self) -> list[str]:
        return list(self.roles)


def reading(read: Callable[[], int]) -> tuple[int, int]:
    """Read a clock and return (how long it took, how far the clock was ahead at the midpoint), both ns."""
    began, true = time.monotonic_ns(), time.time_ns()
    response = read()
    took = time.monotonic_ns() - began
    return took, response - (true + took // 2)


def servers_class(kind: str) -> type[RealServers]:
    """Return the class of the servers of a kind that can run in containers."""
    found = KINDS.find(kind).load("docker")
    if not (isinstance(found, type) and issubclass(found, RealServers)):
        raise UsageError(f"the cluster kind {kind}: docker must be a subclass of RealServers, got {found!r}")
    return found
