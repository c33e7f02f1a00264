"""The cluster seam: what a run and its faults may ask of a cluster, simulated or real.

Times are seconds and offsets seconds unless a name says ``_ns``. Methods that damage (``pause``, ``kill``, ``cut`` ...)
return at once, so that a fault can strike between two steps of a client; methods that observe may take time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from ..history.lock_keys import Tell as TellKey

Role = Literal["server", "sentinel", "client"]
State = Literal["running", "paused", "dead"]
DiskState = Literal["works", "hangs", "fails"]
Tap = Callable[[str, str, str, str], None]
"""Called with (``"request"`` or ``"reply"``, client host, server host, command name) at the moment it happens."""
Facts = dict[str, Any]
Record = Callable[..., None]
"""Takes the fields of one history entry by name; see harness.recorder.Recorder.record."""
Checkpoint = Callable[[], None]
"""A client calls it after each entry: the place where a fault on an event takes hold of it."""
Program = Callable[[Any, Record, Checkpoint], None]
"""What runs on a client's host, given its job; see harness.client_program.run."""
Links = Sequence[tuple[str, str]]
"""(source, target) pairs: one direction each."""


class Host(Protocol):
    """One machine of a cluster."""

    @property
    def name(self) -> str: ...

    @property
    def role(self) -> Role: ...

    @property
    def address(self) -> str:
        """Where the others of the cluster reach it: a name or an IP address."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What is done to packets of a link beside carrying them: ``latency`` and ``jitter`` in seconds, ``loss`` 0 to 1,
    ``rate`` in bytes a second."""

    latency: float = 0.0
    jitter: float = 0.0
    loss: float = 0.0
    rate: float | None = None


@dataclass(frozen=True, slots=True)
class Address:
    """Where a lock finds its servers: see lock_impls.base.Endpoints, which this becomes."""

    kind: str
    addresses: tuple[tuple[str, int], ...]


class Snare(Protocol):
    """Lies in wait for one message; ``used`` once it has caught it."""

    @property
    def used(self) -> bool: ...

    def cancel(self) -> None:
        """Catch nothing any more."""


class Cluster(Protocol):
    """Hosts that run servers and clients. ``abilities`` names what faults may need; a fault that needs more is refused
    before the run starts."""

    backend: str
    kind: str
    abilities: frozenset[str]

    @property
    def hosts(self) -> Sequence[Host]: ...

    def endpoints(self) -> Address: ...

    def resource(self) -> tuple[str, int]:
        """Where clients find the protected resource; it is not one of the hosts, since it is never faulted."""

    def run(self, main: Callable[[], None]) -> None:
        """Start the servers, call ``main`` where ``time`` and ``threading`` are the cluster's, stop everything."""

    def clock(self) -> tuple[int, int]:
        """(monotonic ns, true wall clock ns)."""

    def logs(self, origin_ns: int) -> dict[str, str]:
        """The log of each server and sentinel, by host; each line begins with the seconds since ``origin_ns`` and the
        server's own wall clock."""

    def about(self) -> Facts:
        """What a run's results should say of it: versions, images."""

    def interrupt(self) -> None:
        """Make :meth:`run` raise KeyboardInterrupt soon; safe to call from a signal handler."""

    # Clients.

    def launch(self, client: str, job: Any, record: Record) -> Callable[[float], bool]:
        """Run the client program with ``job`` (a :class:`harness.client_program.Job`) on a client's host, and give
        ``record`` each entry of its history; returns ``join(timeout seconds) -> done``."""

    def tap(self, tap: Tap | None) -> None:
        """Be told of each command between clients and servers."""

    def watch_keys(self, keys: Sequence[str], tell: TellKey) -> None:
        """Be told what servers have under these locks' keys, each time it changes, until the cluster stops. To be
        called before :meth:`run`; changes nothing of what happens. A cluster that cannot tell says nothing."""

    # Processes.

    def pause(self, host: str) -> None: ...
    def resume(self, host: str) -> None: ...
    def kill(self, host: str, *, for_good: bool = False) -> None:
        """Kills count, and each needs its own start, except one ``for_good``: nobody will start the host for its
        sake."""

    def start(self, host: str, *, wiped: bool) -> None: ...
    def hang(self, host: str) -> None:
        """Stop the client's own thread at its next checkpoint; its other threads go on."""

    def hung(self, host: str) -> bool:
        """Has the client's thread stopped at a checkpoint since :meth:`hang`?"""

    def state(self, host: str) -> State:
        """Found out by giving the host something to do, not by asking whether it was paused."""

    def life(self, host: str) -> int | None:
        """Which life of its program a host lives, None if it is dead: another number after each kill and start."""

    def size(self, host: str) -> int | None:
        """How many keys a server holds, None if it cannot say."""

    # Disks and memory of servers.

    def stall(self, host: str) -> None:
        """Let nobody write to a server's disk; stalls count, and each needs its own end."""

    def unstall(self, host: str) -> None: ...
    def lose_power(self, host: str) -> None:
        """A kill (which counts, and needs its start) that also loses what was not synced to the disk."""

    def disk(self, host: str) -> DiskState:
        """Found out by writing to it."""

    def flood(self, host: str) -> Facts:
        """Fill a server's memory until it evicts keys that were there before, and say what became of them; ends early
        when it is drained meanwhile. Takes time. Floods count, and each needs its own drain."""

    def drain(self, host: str) -> None:
        """Take the flood away again, as far as the server answers."""

    def flooded(self, host: str) -> bool | None:
        """Is anything left of a flood? Tries once more to take away what should be gone. None if it does not answer."""

    # Clocks.

    def set_clock(self, host: str, offset: float, rate: float = 0.0) -> None:
        """Put the wall clock ``offset`` seconds ahead of true time, gaining ``rate`` seconds a second."""

    def read_clock(self, host: str) -> int:
        """Read the host's wall clock: ns ahead of true time."""

    # Network.

    def cut(self, links: Links) -> None:
        """Stop packets on all of these at once; cuts of a link count, and each needs its own mend."""

    def mend(self, links: Links) -> None: ...

    def reaches(self, source: str, target: str, timeout: float, /) -> float | None:
        """Round trip in seconds from one host to another, None if nothing came back in time."""

    def shape(self, links: Links, shape: Shape) -> Callable[[], None]:
        """Shape links, on top of what shapes them already; returns what takes this away, however often called."""

    def swallow(self, source: str, target: str, needle: bytes, delay: float | None) -> Snare:
        """Lose (or, with ``delay``, hold back) the next data on this link that contains ``needle``."""

    def black_hole(self, client: str, server: str) -> Snare:
        """Let connections of a client to a server be accepted and carry nothing, either way; ``used`` once something
        was lost. Cancelling it breaks the connections that there are, since data is missing in them."""

    def break_streams(self, host: str) -> int:
        """Reset a host's connections to other hosts of the cluster; returns how many."""

    # Replicated servers.

    def primary(self) -> str | None:
        """The host that its own protocol names as the primary now, None where there is no such thing."""


def names(hosts: Sequence[Host], role: Role) -> list[str]:
    """Host names of one role, in order."""
    return [host.name for host in hosts if host.role == role]


def role_of(name: str) -> Role:
    """The role of a host, by its name, for when there is no cluster yet: servers are n1, n2 ..., sentinels s1 ...,
    clients c0 ..."""
    roles: dict[str, Role] = {"n": "server", "s": "sentinel", "c": "client"}
    return roles[name[0]]
