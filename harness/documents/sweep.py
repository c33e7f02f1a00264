"""The document of a sweep: ``sweep.json`` in the sweep's folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from .reading import load

SCHEMA: Final = 1
SweepState = Literal["valid", "violated", "unknown"]


class SweepRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run at a point of the grid."""

    seed: int
    """Seed of the run."""
    state: SweepState
    """``violated`` if a safety checker's verdict is invalid, ``unknown`` if one is unknown."""
    why: str = ""
    """Reason why it is unknown."""
    invalid: tuple[str, ...] = ()
    """Checkers of safety that say invalid."""
    stalled: bool = False
    """True if the verdict of a service checker is invalid."""
    first_s: float | None = None
    """Begin of the first violation, seconds after the start of the run."""
    overlaps: int = 0
    """Overlaps of holds."""
    writes: int = 0
    """Updates that the resource acknowledged."""
    lost: int = 0
    """Acknowledged updates that were lost."""
    acquires: int = 0
    """Acquires that were granted."""
    seconds: float = 0.0
    """Length of the history, seconds."""
    lease_s: float | None = None
    """The longest lease that a grant stated, seconds."""
    folder: str | None = None
    """Folder of the run; null if it is not stored."""


class SweepPoint(msgspec.Struct, frozen=True, kw_only=True):
    """One point of the grid. Figures leave unknown runs out; a figure without a value is null."""

    cluster: str
    """``sim`` or ``docker``."""
    ttl: float
    """Lease, seconds."""
    hold: float
    """Time in a critical section, seconds."""
    pause: float
    """Length of each pause, seconds; 0 is no fault."""
    asked: int
    """Runs that were asked for."""
    runs: int
    """Runs that were made."""
    violated: int
    """Runs with a violation of safety."""
    valid: int
    """Runs without one."""
    unknown: int
    """Runs that prove nothing."""
    stalled: int
    """Runs in which a checker of service says invalid."""
    rate: float | None
    """Share of violated runs, 0 to 1."""
    rate_low: float | None
    """Lower end of its 95 % interval (Wilson), 0 to 1."""
    rate_high: float | None
    """Upper end of its 95 % interval (Wilson), 0 to 1."""
    writes: int
    """Updates that the resource acknowledged."""
    lost: int
    """Acknowledged updates that were lost."""
    lost_fraction: float | None
    """Share of lost updates, 0 to 1."""
    lost_least: float | None
    """The least share that one run lost, 0 to 1."""
    lost_most: float | None
    """The greatest share that one run lost, 0 to 1."""
    first_s: float | None
    """Median time to the first violation of the runs that had one, seconds."""
    overlaps: int
    """Overlaps of holds."""
    acquires_per_second: float | None
    """Grants a second."""
    lease_s: float | None
    """The longest lease that a grant stated, seconds."""
    why_unknown: str = ""
    """Reason why the first unknown run is unknown."""
    outcomes: tuple[SweepRun, ...] = ()
    """The runs in the order of their seeds."""
    longer_lease_s: float | None = None
    """The lease that was granted, seconds, where it is clearly longer than the ttl."""


class SweepDocument(msgspec.Struct, frozen=True, kw_only=True):
    """``sweep.json``: violations over a grid of ttl, hold and pause."""

    schema: Literal[1]
    """Version of this document."""
    lock: str
    """The lock's name, or its ``package.module:Class``."""
    kind: str
    """Kind of cluster."""
    nodes: int
    """Number of servers."""
    workload: str
    """Name of the workload."""
    clients: int
    """Number of clients."""
    keys: int
    """Number of lock keys."""
    rest: float
    """Time between critical sections, seconds."""
    discipline: str
    """``trusting`` or ``checking``, as in a run's document."""
    fencing: str
    """``on`` or ``cas`` if the resource checks fencing tokens, else ``off``."""
    time_limit: float
    """Length of each run, seconds."""
    seed: int
    """The first seed."""
    every: float
    """From one pause to the next, seconds."""
    fault: str
    """``client-pause`` or ``server-pause``."""
    target: str
    """Processes that pause: ``one``, ``primary``, ``minority`` ..."""
    seeds: int
    """Runs at each point."""
    lock_options: dict[str, Any] = {}
    """Options of the lock, by its own names."""
    interrupted: bool = False
    """True if it was interrupted; some runs are then missing."""
    points: tuple[SweepPoint, ...]
    """The points: by cluster, then hold, then pause, then ttl."""
    started_at: str | UnsetType = UNSET
    """Start time: UTC, whole seconds, ``2026-11-21T20:00:00Z``."""
    seconds: float | UnsetType = UNSET
    """Real time that it took, seconds."""
    command: str | UnsetType = UNSET
    """The command that ran it."""


def load_sweep(path: Path) -> SweepDocument:
    """Read a ``sweep.json``; DocumentError if it cannot be read or is malformed."""
    return load(path, SweepDocument)
