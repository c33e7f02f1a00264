"""Abilities on servers: their keys, disks, files and memory, how they depend on each other, and their releases."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, Literal, Protocol, runtime_checkable

from harness.clusters.base import ObservedFacts
from harness.history.lock_keys import OnKeyChange

DiskState = Literal["works", "hangs", "fails", "full"]


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
        :meth:`.hosts.Processes.start`."""

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

    def members(self, host: str) -> dict[str, str] | None:
        """Return the voting members as ``host`` reports them: id by host. ``None`` if it does not answer."""

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
        True if it ended by itself. Counts as a kill, and needs a :meth:`.hosts.Processes.start`."""

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
