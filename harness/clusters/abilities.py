"""Abilities of a cluster beyond running it, for faults and reports: one small protocol for each.

A cluster has an ability if one of its parts implements the protocol; nothing else says so. Durations and clock offsets
are seconds unless a name says ``_ns``. Methods that inject damage (``pause``, ``kill``, ``cut`` ...) return at once, so
that a fault can strike between two steps of a client; methods that observe may take time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, Protocol, TypeVar, cast, runtime_checkable

from harness.errors import UsageError
from harness.history.lock_keys import OnKeyChange

from .base import Cluster, ObservedFacts

State = Literal["running", "paused", "dead"]
DiskState = Literal["works", "hangs", "fails", "full"]
Tap = Callable[[str, str, str, str], None]
"""Callback for each command on the network, called at the moment it passes: (``"request"`` or ``"reply"``, client host,
server host, command name)."""
Links = Sequence[tuple[str, str]]
"""One-way links between hosts: (source, target)."""


@dataclass(frozen=True, slots=True)
class LinkShape:
    """Impairment of a link: ``latency`` and ``jitter`` in seconds, ``loss`` as a probability, ``rate`` in bytes a
    second (``None``: unlimited)."""

    latency: float = 0.0
    jitter: float = 0.0
    loss: float = 0.0
    rate: float | None = None


@dataclass(frozen=True, slots=True)
class PacketAlteration:
    """Change of packets on a link: ``corrupt`` and ``duplicate`` are probabilities; within ``reorder_s`` seconds
    packets overtake each other."""

    corrupt: float = 0.0
    duplicate: float = 0.0
    reorder_s: float = 0.0


class MessageTrap(Protocol):
    """Trap on a link that loses or delays one message; ``used`` once it has caught it."""

    @property
    def used(self) -> bool: ...

    def cancel(self) -> None:
        """Remove the trap; it catches no further message."""


@runtime_checkable
class Processes(Protocol):
    """Pause, kill, start and probe the programs of all hosts."""

    def pause(self, host: str) -> None: ...
    def resume(self, host: str) -> None: ...
    def kill(self, host: str, *, for_good: bool = False) -> None:
        """Kill the host's program. Kills are counted, and each needs its own :meth:`start`, except one ``for_good``,
        which has none."""

    def start(self, host: str, *, wiped: bool) -> None: ...
    def state(self, host: str) -> State:
        """Probe the host's state by giving it something to do; whether it was paused before is not consulted."""

    def incarnation(self, host: str) -> int | None:
        """Number of the current execution of the host's program, different after each kill and start; ``None`` if it is
        dead."""


@runtime_checkable
class ClientHangs(Protocol):
    """Block the thread of a client that does the work."""

    def hang(self, host: str) -> None:
        """Stop the client's own thread at its next checkpoint; its other threads continue."""

    def hung(self, host: str) -> bool:
        """Return whether the client's thread has stopped at a checkpoint since :meth:`hang`."""


@dataclass(frozen=True, slots=True)
class InterruptedCall:
    """A call of a lock in which a client was interrupted: the method, the time (ns, monotonic), and the last command
    that the client had sent since the call began, empty if there is none."""

    method: str
    at_ns: int
    sent: str = ""


SECTION: Final = "critical section"
"""Method of an :class:`InterruptedCall` that was no call of the lock."""


@runtime_checkable
class CallCancels(Protocol):
    """Cancel the asyncio task that awaits a client's calls of its lock."""

    def cancel_call(self, host: str) -> None:
        """Cancel the client's call at the await where it is, or its next call at its first await if there is none
        now."""

    def cancel_section(self, host: str) -> None:
        """Cancel the client's task in its critical section, or in its next one."""

    def cancelled_calls(self, host: str) -> Sequence[InterruptedCall]:
        """Return the calls that have received a cancellation since the client's program started. A critical section
        counts as a call named :data:`SECTION`."""


Interrupt = Literal["ctrl-c", "alarm"]
"""What interrupts a thread: ``KeyboardInterrupt``, or an exception that the handler of an alarm raises."""


@runtime_checkable
class ThreadInterrupts(Protocol):
    """Raise an exception in the thread of a client that calls its lock."""

    def interrupt_call(self, host: str, by: Interrupt) -> None:
        """Interrupt the client's call of its lock where it waits, or its next call if there is none now."""

    def interrupt_section(self, host: str, by: Interrupt) -> None:
        """Interrupt the client in its critical section, or in its next one."""

    def interrupted_calls(self, host: str) -> Sequence[InterruptedCall]:
        """Return the calls that were interrupted since the client's program started. A critical section counts as a
        call named :data:`SECTION`."""


@runtime_checkable
class WallClocks(Protocol):
    """Set and read the wall clocks of hosts."""

    def set_clock(self, host: str, offset: float, rate: float = 0.0) -> None:
        """Set the wall clock ``offset`` seconds ahead of true time, gaining ``rate`` seconds a second."""

    def read_clock(self, host: str) -> int:
        """Read the host's wall clock: ns ahead of true time."""


@runtime_checkable
class Network(Protocol):
    """Cut links between hosts, and probe them."""

    def cut(self, links: Links) -> None:
        """Stop packets on all of these links at once. Cuts of a link are counted, and each needs its own
        :meth:`heal`."""

    def heal(self, links: Links) -> None: ...

    def reaches(self, source: str, target: str, timeout: float, /) -> float | None:
        """Return the round trip in seconds from one host to another, ``None`` if nothing came back in time."""


@runtime_checkable
class Traffic(Protocol):
    """Impair, lose and hold back what clients and servers send to each other."""

    def shape(self, links: Links, shape: LinkShape) -> Callable[[], None]:
        """Impair links, in addition to earlier shapes. Return a function that undoes it and may be called again."""

    def trap_message(self, source: str, target: str, needle: bytes, delay: float | None) -> MessageTrap:
        """Lose the next data on this link that contains ``needle``, or delay it by ``delay`` seconds."""

    def black_hole(self, client: str, server: str) -> MessageTrap:
        """Let connections of a client to a server be accepted and lose all their data, in both directions.

        The trap is ``used`` once data was lost. Cancelling it breaks the existing connections, since data is missing in
        them.
        """

    def black_holed(self, links: Links) -> list[bool]:
        """For each (client, server), probe whether data is lost in both directions. All links are probed at once."""

    def break_streams(self, host: str) -> int:
        """Reset a host's connections to other hosts of the cluster, and return how many there were."""


@runtime_checkable
class PacketFaults(Protocol):
    """Damage, duplicate and reorder the packets of links."""

    def alter_packets(self, links: Links, alteration: PacketAlteration) -> Callable[[], None]:
        """Alter packets, in addition to earlier alterations. Return a function that undoes it and may be called
        again."""

    def count_packets(self, source: str, target: str, count: int, /) -> dict[str, int]:
        """Send ``count`` packets on a link, one after the other, and return how many were ``received`` intact,
        ``damaged``, ``duplicated`` and ``reordered``."""


@runtime_checkable
class CommandTaps(Protocol):
    """Listen to the commands between clients and servers."""

    def tap(self, tap: Tap | None) -> None:
        """Call ``tap`` for each command between clients and servers; ``None`` stops that."""


@runtime_checkable
class LockKeys(Protocol):
    """Look at what servers store, without any effect on the run."""

    def key_count(self, host: str) -> int | None:
        """Return how many keys a server holds, ``None`` if it cannot say."""

    def watch_keys(self, keys: Sequence[str], on_change: OnKeyChange) -> None:
        """Call ``on_change`` each time a server's value of one of these locks' keys changes, until the cluster stops.

        Must be called before :meth:`harness.clusters.base.Cluster.run`.
        """


@runtime_checkable
class WireRecordings(Protocol):
    """Record what servers receive and send."""

    def record_wire(self, *, sockets: bool = False) -> None:
        """Record the next run; with ``sockets`` also when clients send and receive, and from which line."""

    def socket_logs(self) -> dict[str, list[list[Any]]]:
        """Return the entries of :mod:`harness.worker.socket_log` of a run that has ended: by client, a list for each of
        its processes."""

    def wire(self) -> dict[str, bytes]:
        """Return the recordings of a run that has ended, by server; see :func:`harness.clusters.wire.unpack`."""


@runtime_checkable
class ServerDisks(Protocol):
    """Stall, slow down, fill and probe the disks of servers, and cut their power."""

    def stall(self, host: str) -> None:
        """Block all writes to a server's disk. Stalls are counted, and each needs its own :meth:`unstall`."""

    def unstall(self, host: str) -> None: ...
    def fill(self, host: str) -> None:
        """Take all free space of a server's disk. Fillings are counted, and each needs its own :meth:`clear`."""

    def clear(self, host: str) -> None: ...
    def lose_power(self, host: str) -> None:
        """Kill the host and lose data that was not synced to its disk. Counts as a kill, and needs a
        :meth:`Processes.start`."""

    def slow(self, host: str, writes_per_s: int) -> Callable[[], None]:
        """Let a server write to its disk ``writes_per_s`` times a second at most, so that a sync takes so much longer.

        If several limits hold, the least counts. Return a function that undoes it and may be called again."""

    def sync_s(self, host: str) -> float | None:
        """Measure a write with its sync on a server's disk, in seconds; ``None`` if it takes more than 5 s."""

    def disk(self, host: str) -> DiskState:
        """Probe the disk's state by writing to it."""


FileFacts = dict[str, str | int]
"""Facts about a file: ``path``, ``size`` in bytes, ``used`` (bytes up to the last one that is not zero) and ``sha256``
of these."""


@runtime_checkable
class DataFiles(Protocol):
    """Look at the files of stopped servers, and damage them."""

    def newest_file(self, host: str) -> FileFacts | None:
        """Return facts about the file that has a server's newest data; ``None`` if there is none."""

    def damage_file(self, host: str, how: Literal["truncate", "flip"], size: int, seed: int) -> None:
        """Cut off the last ``size`` used bytes of that file, or flip one bit in them, which ``seed`` chooses. The
        server must be dead."""

    def starts(self, host: str) -> int:
        """Return how often the server's program was started."""


@runtime_checkable
class ProcessorQuotas(Protocol):
    """Limit the processor time of hosts."""

    def limit_processor(self, host: str, share: float, period_s: float) -> Callable[[], None]:
        """Let a host compute for ``share`` of each period (seconds) at most; then it stands still until the next one.

        If several limits hold, the smallest share counts. Return a function that undoes it and may be called again.
        """

    def throttled_s(self, host: str) -> float:
        """Return for how many seconds the host has stood still so far because its quota was used up."""


@runtime_checkable
class ServerMemory(Protocol):
    """Fill the memory of servers that evict keys then."""

    def flood(self, host: str) -> ObservedFacts:
        """Fill a server's memory until it evicts keys that were there before, and return counts of evicted keys.

        Takes time; returns early when :meth:`drain` is called meanwhile. Floods are counted, and each needs its own
        :meth:`drain`.
        """

    def drain(self, host: str) -> None:
        """Undo one flood, as far as the server answers."""

    def flooded(self, host: str) -> bool | None:
        """Return whether anything is left of a flood, after trying again to undo it where it should be gone. ``None``
        if the server does not answer."""


@runtime_checkable
class ClusterFreeze(Protocol):
    """Freeze a whole cluster for inspection."""

    def freeze_all(self) -> None:
        """Freeze the programs of all hosts at once, and leave them as they are when the cluster stops. Faults do
        nothing from then on."""


@runtime_checkable
class Peers(Protocol):
    """Servers that depend on each other."""

    def peers(self) -> list[str]:
        """Return the hosts that talk to each other, in order: servers, then sentinels."""


@runtime_checkable
class Failover(Peers, Protocol):
    """Servers that replicate a primary; one of the others is promoted when it is lost."""

    def primary(self) -> str | None:
        """Return the host that the servers' own protocol names as the primary now; ``None`` if there is none."""


@runtime_checkable
class Shards(Failover, Protocol):
    """Servers of which each primary stores a part of the keys; its primary is the one of the first lock's key."""

    def replicas(self) -> list[str]:
        """Return the hosts that replicate that primary, by the servers' own protocol."""


@runtime_checkable
class Elections(Peers, Protocol):
    """Servers that agree by majority; they elect another leader when theirs is lost."""

    def leader(self) -> str | None:
        """Return the host that the servers' own protocol names as the leader now; ``None`` if there is none."""


@runtime_checkable
class Membership(Elections, Protocol):
    """Servers that agree by majority, and whose members can be changed while they work."""

    def members(self, asked: str) -> dict[str, str] | None:
        """Return the voting members as the host ``asked`` reports them: id by host. ``None`` if it does not answer."""

    def remove_member(self, host: str) -> None:
        """Ask another member to remove this one, once. They may refuse, or not answer."""

    def ends_when_removed(self) -> bool:
        """Return True if a removed member's program ends, and its next start without data adds it as a new member."""

    def add_member(self, host: str) -> None:
        """Ask another member to add a running server as a voting member, once."""

    def ready(self, host: str) -> bool:
        """Return whether the host serves clients together with the others."""


DEFAULT_RELEASE: Final = "default"
"""Name of the release that the servers' own image has."""


@runtime_checkable
class ServerReleases(Protocol):
    """Servers that can be started as another release, with the data that they have."""

    def end_program(self, host: str, within_s: float) -> bool:
        """Ask a server's program to end (SIGTERM), and kill it if that takes longer than ``within_s`` seconds. Return
        True if it ended by itself. Counts as a kill, and needs a :meth:`Processes.start`."""

    def choose_release(self, host: str, release: str) -> None:
        """Let the next starts of a server run this release. It must be one of those that the cluster was told to have
        at hand, or :data:`DEFAULT_RELEASE`."""

    def reported_version(self, host: str) -> str:
        """Return product and version as the server reports them, such as ``valkey 8.1.8``; empty without an answer."""

    def serves(self, host: str) -> bool:
        """Return whether a server works; a replica also whether it receives the data of its primary."""

    def hand_over(self, host: str, within_s: float) -> bool:
        """Let another server become the primary in the place of ``host``. Return True if another one is, or if none of
        the servers leads the others."""


@dataclass(frozen=True, slots=True)
class MachineClock:
    """The monotonic clock of a machine: the ``clients`` whose times it gave, and the largest error (ns) of their times
    in the history, after the conversion to the clock of the control side."""

    machine: str
    clients: tuple[str, ...]
    error_ns: int


@runtime_checkable
class ProcessorWaits(Protocol):
    """Programs that share the processors of a real machine with others."""

    def processor_waits(self) -> list[tuple[int, int]]:
        """Return samples of about one second each, after the run: (monotonic time, longest time for which a thread of
        the run's programs waited for a processor since the sample before), both in ns. Short waits are left out."""


class HookedStrike(Protocol):
    """One strike of a fault by the user's commands.

    Both observations return a problem in words (the expectation that was not met; empty if there is none) and facts.
    """

    def observe(self, over: threading.Event) -> tuple[str, ObservedFacts]:
        """Wait until the state has changed, at most until a time limit or ``over``."""

    def heal(self) -> None:
        """Begin to heal; a second call does nothing."""

    def healed(self) -> tuple[str, ObservedFacts]:
        """Wait for the end of the heal. The facts are empty if there is nothing to heal."""


@runtime_checkable
class ServerHooks(Protocol):
    """Faults of servers by commands of the user."""

    def hooked_faults(self) -> Collection[str]:
        """Return the names of the faults that have commands."""

    def strike(self, fault: str, hosts: Sequence[str], params: Mapping[str, Any]) -> HookedStrike:
        """Begin a strike of one of these faults at some servers."""


@runtime_checkable
class ClockErrors(Protocol):
    """Clients on several machines, whose monotonic clocks were converted to the one of the control side."""

    def machine_clocks(self) -> Sequence[MachineClock]:
        """Return the clocks of the clients' machines, with their errors up to now."""


P = TypeVar("P")


@dataclass(frozen=True, slots=True)
class Ability(Generic[P]):
    """Something that a cluster can do if one of its parts implements ``protocol``, which must be runtime checkable and
    have methods only. ``name`` is its word in messages."""

    name: str
    protocol: type

    def implemented_by(self, *parts: type) -> bool:
        """Return whether one of these classes implements the protocol."""
        return any(issubclass(part, self.protocol) for part in parts)

    def find(self, cluster: Cluster) -> P | None:
        """Return the part of a cluster that has this ability, ``None`` if there is none."""
        for part in cluster.parts:
            if self.implemented_by(type(part)):
                return cast(P, part)
        return None

    def of(self, cluster: Cluster) -> P:
        """Return the part of a cluster that has this ability; UsageError if there is none."""
        found = self.find(cluster)
        if found is None:
            raise UsageError(f"{cluster.kind} on {cluster.backend} does not have the ability {self.name!r}")
        return found


Needs = frozenset[Ability[Any]]
PROCESSES: Final[Ability[Processes]] = Ability("processes", Processes)
HANGS: Final[Ability[ClientHangs]] = Ability("hang", ClientHangs)
CANCELS: Final[Ability[CallCancels]] = Ability("cancel", CallCancels)
INTERRUPTS: Final[Ability[ThreadInterrupts]] = Ability("interrupt", ThreadInterrupts)
CLOCKS: Final[Ability[WallClocks]] = Ability("clock", WallClocks)
NETWORK: Final[Ability[Network]] = Ability("cut", Network)
TRAFFIC: Final[Ability[Traffic]] = Ability("traffic", Traffic)
PACKETS: Final[Ability[PacketFaults]] = Ability("packets", PacketFaults)
TAPS: Final[Ability[CommandTaps]] = Ability("tap", CommandTaps)
LOCK_KEYS: Final[Ability[LockKeys]] = Ability("keys", LockKeys)
WIRE: Final[Ability[WireRecordings]] = Ability("wire", WireRecordings)
DISKS: Final[Ability[ServerDisks]] = Ability("disk", ServerDisks)
DATA_FILES: Final[Ability[DataFiles]] = Ability("files", DataFiles)
PROCESSORS: Final[Ability[ProcessorQuotas]] = Ability("processor", ProcessorQuotas)
MEMORY: Final[Ability[ServerMemory]] = Ability("evict", ServerMemory)
FREEZE: Final[Ability[ClusterFreeze]] = Ability("freeze", ClusterFreeze)
PEERS: Final[Ability[Peers]] = Ability("peers", Peers)
FAILOVER: Final[Ability[Failover]] = Ability("failover", Failover)
SHARDS: Final[Ability[Shards]] = Ability("shards", Shards)
ELECTIONS: Final[Ability[Elections]] = Ability("leader", Elections)
MEMBERS: Final[Ability[Membership]] = Ability("members", Membership)
RELEASES: Final[Ability[ServerReleases]] = Ability("releases", ServerReleases)
PROCESSOR_WAITS: Final[Ability[ProcessorWaits]] = Ability("processor waits", ProcessorWaits)
HOOKS: Final[Ability[ServerHooks]] = Ability("hooks", ServerHooks)
CLOCK_ERRORS: Final[Ability[ClockErrors]] = Ability("clock errors", ClockErrors)
ABILITIES: Final[tuple[Ability[Any], ...]] = (
    PROCESSES, HANGS, CANCELS, INTERRUPTS, CLOCKS, NETWORK, TRAFFIC, PACKETS, TAPS, LOCK_KEYS, DISKS, DATA_FILES,
    PROCESSORS, MEMORY, PEERS, FAILOVER, SHARDS, ELECTIONS, MEMBERS, RELEASES,
)  # fmt: skip
"""The abilities that our own faults and commands use."""


def lacking(needs: Iterable[Ability[Any]], parts: Sequence[type]) -> list[str]:
    """Return the names of the abilities that a cluster of these parts lacks, sorted."""
    return sorted(need.name for need in needs if not need.implemented_by(*parts))


def abilities_of(parts: Sequence[type]) -> Needs:
    """Return which of :data:`ABILITIES` a cluster of these parts has."""
    return frozenset(ability for ability in ABILITIES if ability.implemented_by(*parts))


def leader_of(cluster: Cluster) -> str | None:
    """Return the primary or leader that the servers name; ``None`` if there is none, or if no server leads others."""
    if (failover := FAILOVER.find(cluster)) is not None:
        return failover.primary()
    elections = ELECTIONS.find(cluster)
    return None if elections is None else elections.leader()
