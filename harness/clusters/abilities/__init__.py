"""Abilities of a cluster beyond running it, for faults and reports: one small protocol for each.

The protocols are in :mod:`.hosts`, :mod:`.network` and :mod:`.servers`; this module names the abilities, and finds them
in clusters. A cluster has an ability if one of its parts implements the protocol; nothing else says so. Durations and
clock offsets are seconds unless a name says ``_ns``. Methods that inject damage (``pause``, ``kill``, ``cut`` ...)
return at once, so that a fault can strike between two steps of a client; methods that observe may take time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar, cast

from harness.clusters.base import Cluster
from harness.errors import UsageError

from .hosts import (
    CallCancels,
    ClientHangs,
    ClockErrors,
    ClusterFreeze,
    LastEntries,
    MachineLosses,
    Processes,
    ProcessorQuotas,
    ProcessorWaits,
    ThreadInterrupts,
    WallClocks,
)
from .network import CommandTaps, Network, PacketFaults, Traffic, WireRecordings
from .servers import (
    DataFiles,
    Elections,
    Failover,
    LockKeys,
    Membership,
    Peers,
    ServerDisks,
    ServerHooks,
    ServerMemory,
    ServerReleases,
    Shards,
)

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
LAST_ENTRIES: Final[Ability[LastEntries]] = Ability("last entries", LastEntries)
LOSSES: Final[Ability[MachineLosses]] = Ability("losses", MachineLosses)
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
