"""The document of a hunt: ``hunt.json`` in the hunt's folder."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from harness.plan import Plan, allowing

from .reading import load
from .story import Story

SCHEMA: Final = 1
COUNTEREXAMPLE: Final = "counterexample.toml"
"""Name of a finding's plan in the folder of its run."""


class HuntRequestDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Subject and limits of the search."""

    lock: str = ""
    """The lock's name, or its ``package.module:Class``."""
    faults: tuple[str, ...] = ()
    """Families of faults that may strike."""
    most_faults: int = 2
    """Faults in one schedule, at most."""
    workloads: tuple[str, ...] = ()
    """Workloads that clients may run."""
    look_for: tuple[str, ...] = ()
    """Checkers that count; none named: the required ones."""
    require: tuple[str, ...] = ()
    """Properties that count, by names of checkers; none named: those that a run requires."""
    accept: tuple[str, ...] = ()
    """``known-limits`` if failures that the lock documents do not count."""
    requires: tuple[str, ...] = ()
    """Releases of libraries, such as ``redis==5.2.1``."""
    python: str = ""
    """Python of the lock: a version or a path; empty: that of the harness."""
    kind: str = ""
    """Kind of cluster."""
    nodes: int | UnsetType = UNSET
    """Number of servers."""
    clients: int = 3
    """Clients in one schedule, at most."""
    ttl: float = 0.0
    """Lease, seconds; 0 leaves it to the search."""
    fencing: str = ""
    """``on`` or ``cas`` if the resource checks fencing tokens, else ``off``."""
    lease: str = ""
    """Lease of grants that do not say it: ``ttl``, a duration, or an option of the lock with its unit."""
    lock_options: dict[str, Any] = {}
    """Options of the lock, by its own names."""
    server_options: dict[str, Any] = {}
    """Options of the servers, by their own names."""
    schedules: int | UnsetType = UNSET
    """Schedules in one round, at most."""
    seed: int = 0
    """Seed of the hunt."""
    thorough: bool = False
    """True if a round continues after its first failure."""
    stop_at_first: bool = False
    """True if a known limit ends the search as any other failure does."""


class HuntFinding(msgspec.Struct, frozen=True, kw_only=True):
    """One failure, shrunk to a small schedule."""

    broken: tuple[str, ...] = ()
    """Checkers that say invalid, the gravest first."""
    known: bool = False
    """True if the lock's documentation states the whole failure as limits of the lock."""
    limits: dict[str, tuple[str, ...]] = {}
    """Documented limits of the lock that explain violations, by checker."""
    summary: str = ""
    """The summary of the run that shows it."""
    story: Story = Story()
    """The steps that lead to it."""
    lines: tuple[str, ...] = ()
    """The story as text, a line a step and one for the ending."""
    clients: int = 0
    """Clients in the schedule."""
    faults: tuple[str, ...] = ()
    """Faults in the schedule, in its order."""
    round: int = 0
    """Number of the round that found it, from 1; 0 if an earlier hunt had found it."""
    schedule: int = 0
    """Number of the schedule in that round, from 1; 0 if an earlier hunt had found it."""
    shrinks: int = 0
    """Schedules that were tried to make it small."""
    plan: Plan | None = None
    """The schedule as a scenario; durations in seconds."""
    folder: str | None = None
    """Folder of the run that shows it; null if nothing is stored."""

    def command(self, name: str, *options: str) -> str:
        """Return the command ``harness NAME`` that repeats it from its counterexample."""
        allowed = [] if self.plan is None else allowing(self.plan)
        return shlex.join(["harness", *name.split(), f"{self.folder}/{COUNTEREXAMPLE}", *options, *allowed])


class HuntCoverage(msgspec.Struct, frozen=True, kw_only=True):
    """Number of distinct items of each kind that the search has reached."""

    states: int = 0
    """States of clients, servers' keys and faults at one moment."""
    pairs: int = 0
    """Pairs of families that struck in the same schedule."""
    moments: int = 0
    """Pairs of a family and what the lock was at when it struck."""
    events: int = 0
    """Events on which faults struck."""
    outcomes: int = 0
    """Ways in which calls ended."""


class HuntDocument(msgspec.Struct, frozen=True, kw_only=True):
    """``hunt.json``: what a hunt found, or how far it searched."""

    schema: Literal[1]
    """Version of this document."""
    lock: str = "unnamed lock"
    """The lock's name, or its ``package.module:Class``."""
    asked: HuntRequestDocument = HuntRequestDocument()
    """Subject and limits of the search."""
    found: bool = False
    """True if a failure was found, be it new or a known limit."""
    findings: tuple[HuntFinding, ...]
    """The failures, one of each kind: the new ones, then the known limits of the lock."""
    rounds: int = 0
    """Rounds that ended."""
    schedules: int = 0
    """Schedules that were tried."""
    judged: int = 0
    """Schedules with a verdict on mutual exclusion."""
    seconds: float = 0.0
    """Real time of the search, seconds."""
    best: float = 0.0
    """Largest distance score: 2 and more means two holders at the same time."""
    coverage: HuntCoverage = HuntCoverage()
    """Number of distinct items of each kind that the search has reached."""
    moments: tuple[tuple[str, str], ...] | UnsetType = UNSET
    """Families of faults, each with what the lock was at when it struck."""
    pairs: tuple[tuple[str, str], ...] | UnsetType = UNSET
    """Families that struck in the same schedule; the same twice if it struck more than once."""
    never: tuple[str, ...] = ()
    """Sentences on events that the search never reached."""
    errors: dict[str, int] = {}
    """Reasons why schedules could not be judged, each with its number of schedules."""
    given_up: tuple[str, ...] = ()
    """Rounds without a result, and why."""
    versions: dict[str, str | None] = {}
    """Versions of the packages that decide the outcome, by name; ``commit`` is the harness's own."""
    interrupted: bool = False
    """True if the hunt was interrupted."""
    command: str = ""
    """The command that started it."""
    started_at: str = ""
    """Start time: UTC, whole seconds, ``2026-11-21T20:00:00Z``."""
    folder: str | None = None
    """Folder of this document; null if nothing is stored."""

    @property
    def new(self) -> tuple[HuntFinding, ...]:
        """Return the findings that are more than known limits."""
        return tuple(found for found in self.findings if not found.known)

    @property
    def accepts_limits(self) -> bool:
        """Return whether the hunt was told that known limits do not count."""
        return "known-limits" in self.asked.accept

    @property
    def failed(self) -> bool:
        """Return whether a finding counts: a new one, or a known limit unless those are accepted."""
        return bool(self.new or (self.findings and not self.accepts_limits))


def load_hunt(path: Path) -> HuntDocument:
    """Read a ``hunt.json``; DocumentError if it cannot be read or is malformed."""
    return load(path, HuntDocument)
