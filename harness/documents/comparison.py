"""The document of a comparison: ``comparison.json`` in the comparison's folder."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from .reading import load

SCHEMA: Final = 1
CellState = Literal["safe", "fenced", "unsafe", "unavailable", "unknown", "not-run"]
"""``safe``: never two holders, and available whenever it should be. ``fenced``: two holders, and the resource refused
the late one. ``unsafe``: two holders, or a broken resource, and nothing stopped it. ``unavailable``: the lock was not
available when it should have been. ``unknown``: the runs prove nothing. ``not-run``: no run is possible, because the
fault means nothing to the servers of this lock."""


class ComparedNemesis(msgspec.Struct, frozen=True, kw_only=True):
    """A column of the comparison: a fault."""

    name: str
    """A name of ``harness list nemeses``, or ``none``."""
    summary: str = ""
    """Effect of the fault."""
    settings: str = ""
    """Lease and hold time of its runs, in words."""
    role: dict[str, str] = {}
    """Services for which another fault stands in, by family, and that fault."""


class ComparedCell(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one lock under one fault."""

    state: CellState
    """The worst state of its runs."""
    why: str = ""
    """Why, in a sentence: of the run that shows the state."""
    runs: int = 0
    """Number of runs."""
    counts: dict[CellState, int] = {}
    """Number of runs in each state."""
    kind: str | None = None
    """Kind of cluster."""
    fault: str | None = None
    """The fault that was injected, where another one stands in for the column's."""
    fencing: str | None = None
    """``on`` if the resource checked fencing tokens, else ``off``."""
    run: str | None = None
    """Folder of the run that shows the state, relative to this document."""
    command: str | None = None
    """The command that repeats that run."""
    seed: int | None = None
    """Seed of that run."""
    two_holders: bool = False
    """Did two clients hold the lock at once in any run?"""
    tokens_fell: bool = False
    """True if in some run a fencing token was not above the previous one."""


class ComparedProperty(msgspec.Struct, frozen=True, kw_only=True):
    """A property of a lock: what it claims and what the runs showed."""

    claimed: bool | None = None
    """True if the lock claims it; null if its documentation does not say."""
    claim: str = ""
    """The claim in words."""
    measured: bool | None = None
    """Did the runs show it? Null: not measured, or unknown."""
    found: str = ""
    """Findings of the runs, in words."""
    run: str | None = None
    """Folder of the run that shows it, relative to this document."""


class ComparedCost(msgspec.Struct, frozen=True, kw_only=True):
    """Costs of a lock in one setting. Latencies are of calls that succeeded."""

    name: str
    """``alone``, ``contended``, or the fault under which it was measured."""
    clients: int | None = None
    """Number of clients."""
    acquires_per_second: float | None = None
    """Grants a second, of all clients."""
    acquire_p50_s: float | None = None
    """Median time of an acquire, seconds."""
    acquire_p99_s: float | None = None
    """Time within which 99 % of acquires returned, seconds."""
    release_p50_s: float | None = None
    """Median time of a release, seconds."""
    availability: float | None = None
    """Share of the time with demand in which somebody was granted the lock, 0 to 1."""
    run: str | None = None
    """Folder of the run, relative to this document."""


class ComparedRecovery(msgspec.Struct, frozen=True, kw_only=True):
    """Time for which a dead holder blocks other clients."""

    seconds: float | None = None
    """From the holder's death to the next grant, seconds; null if there was none, or it was not measured."""
    found: str = ""
    """Finding of the run, in words."""
    run: str | None = None
    """Folder of the run, relative to this document; null if it was not measured."""


class ComparedLock(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the comparison: a lock."""

    name: str
    """The lock's name, or its ``package.module:Class``."""
    title: str = ""
    """Description of the lock, in a few words."""
    safety: str = ""
    """Safety class that the lock claims: ``E``, ``F``, ``F?`` or ``X``, as in a run's document."""
    family: str = ""
    """The service that it runs on: ``redis``, ``etcd``."""
    kind: str = ""
    """Its usual kind of cluster."""
    fence: bool = False
    """True if it issues fencing tokens."""
    algorithm: str = ""
    """Its algorithm, in a sentence."""
    source: str = ""
    """Source of its documentation."""
    language: str = ""
    """The programming language of its client."""
    library: str = ""
    """The library that it belongs to, and its version."""
    promises: str = ""
    """Promise of the documentation of its library."""
    cells: dict[str, ComparedCell] = {}
    """The outcomes by the columns' names."""
    fault_free: ComparedCell | UnsetType = UNSET
    """The outcome of the contended run without faults."""
    properties: dict[str, ComparedProperty] = {}
    """``mutual-exclusion``, ``released``, ``reentrant``, ``no-single-point``, ``fence``."""
    costs: tuple[ComparedCost, ...] = ()
    """Its costs: alone, contended, and under each fault."""
    recovery: ComparedRecovery = ComparedRecovery()
    """Time for which a dead holder blocks other clients."""


class LeftOutLock(msgspec.Struct, frozen=True, kw_only=True):
    """A lock that was asked for and is in no row."""

    lock: str = ""
    """The lock's name."""
    why: str = ""
    """Reason why it was left out."""


class RankingMeasure(msgspec.Struct, frozen=True, kw_only=True):
    """One measurement of each service."""

    name: str
    """Measured value."""
    unit: str = ""
    """Unit of the values: ``ms``, ``a second``."""
    better: str | UnsetType = UNSET
    """``low`` or ``high``: which values are better."""
    values: dict[str, float | None] = {}
    """The values by service, in ``unit``."""
    locks: dict[str, str] = {}
    """The lock that stands for each service."""
    order: tuple[str, ...] = ()
    """The services, the best first."""
    agrees: bool = False
    """True if this order agrees with the claimed one."""


class Ranking(msgspec.Struct, frozen=True, kw_only=True):
    """The order of services that articles claim, and the measured ones."""

    claimed: tuple[str, ...] = ()
    """The services in the claimed order, the quickest first."""
    source: str = ""
    """Source of the claim."""
    why_these: str = "the best lock of each service"
    """Lock that represents each service."""
    measures: tuple[RankingMeasure, ...] = ()
    """The measurements that have a value for two services at least."""


class ComparisonDocument(msgspec.Struct, frozen=True, kw_only=True):
    """``comparison.json``: locks under faults, their properties and their costs."""

    schema: Literal[1]
    """Version of this document."""
    started_at: str = ""
    """Start time: UTC, whole seconds, ``2026-11-21T20:00:00Z``."""
    command: str = ""
    """The command that ran it."""
    seconds: float | None = None
    """Real time that it took, seconds."""
    interrupted: bool = False
    """True if it was interrupted; cells that were not run are unknown."""
    cluster: str = ""
    """``sim`` or ``docker``."""
    time: str | UnsetType = UNSET
    """``virtual`` or ``real``: which time costs are of."""
    seed: int | None = None
    """The first seed."""
    runs: int = 1
    """Runs of each cell."""
    time_limit: float | None = None
    """Length of each run, seconds."""
    clients: int | None = None
    """Number of clients."""
    versions: dict[str, str | None] = {}
    """Versions of the packages that decide the outcome, by name; ``commit`` is the harness's own."""
    nemeses: tuple[ComparedNemesis, ...]
    """The columns."""
    cost_settings: str = ""
    """Settings of the runs that costs are measured in, in words."""
    locks: tuple[ComparedLock, ...]
    """The rows."""
    left_out: tuple[LeftOutLock, ...] = ()
    """Locks that this cluster cannot run."""
    ranking: Ranking = Ranking()
    """The order of services that articles claim, and the measured ones."""


def load_comparison(path: Path) -> ComparisonDocument:
    """Read a ``comparison.json``; DocumentError if it cannot be read or is malformed."""
    return load(path, ComparisonDocument)
