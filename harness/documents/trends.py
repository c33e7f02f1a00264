"""The document of the trends: what ``harness trends --json`` prints. It is made from ``results.db`` and not stored."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from .reading import load
from .run import ScenarioState

SCHEMA: Final = 1


class TrendsNight(msgspec.Struct, frozen=True, kw_only=True):
    """One nightly run, counted."""

    id: int = 0
    """Number of the nightly run in ``results.db``."""
    started_at: datetime
    """Start time: UTC, whole seconds, ``2026-11-21T20:00:00Z``."""
    seconds: float = 0.0
    """Real time that it took, seconds."""
    status: int = 0
    """Its exit status."""
    as_expected: int = 0
    """Runs that went as expected."""
    not_as_expected: int = 0
    """Runs that did not, or broke, or prove nothing."""
    not_run: int = 0
    """Runs that were not made, since the cluster cannot do them."""
    seed: int | None = None
    """First of its fresh seeds; null without."""
    explored: float | None = None
    """Share of the pairs of lock and fault that nights had explored after it, 0 to 1; null if it did not explore."""
    bound: float | None = None
    """Median over the explored pairs: with 95 % confidence a smaller share of schedules than this fails; null if it did
    not explore."""
    new_failures: int = 0
    """Failures that its exploration found and no earlier night had found."""


class TrendChange(msgspec.Struct, frozen=True, kw_only=True):
    """A scenario on a cluster that changed between the last two nightly runs: its state, or its time."""

    scenario: str = ""
    """Name of the scenario."""
    cluster: str = ""
    """``sim`` or ``docker``."""
    lock: str = ""
    """The lock's name, or its ``package.module:Class``."""
    faults: tuple[str, ...] = ()
    """Faults of its plan, in their order."""
    folder: str | None = None
    """Folder of a run of it; null if none is stored."""
    before: ScenarioState | UnsetType | None = UNSET
    """Its state before; null if it did not run then."""
    now: ScenarioState | UnsetType | None = UNSET
    """Its state now; null if it did not run."""
    why: str | UnsetType = UNSET
    """Reason of its present state."""
    before_s: float | UnsetType = UNSET
    """Median time to the first violation before, seconds."""
    now_s: float | UnsetType = UNSET
    """Median time to the first violation now, seconds."""
    ratio: float | UnsetType = UNSET
    """``now_s`` by ``before_s``."""


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    """Changes between the last two nightly runs, by kind of change."""

    newly_red: tuple[TrendChange, ...] = ()
    """Not as expected now, and as expected before or not there."""
    newly_green: tuple[TrendChange, ...] = ()
    """As expected now, and not before."""
    changed: tuple[TrendChange, ...] = ()
    """Another change of state."""
    appeared: tuple[TrendChange, ...] = ()
    """Not there before."""
    disappeared: tuple[TrendChange, ...] = ()
    """Not there any more."""
    slower: tuple[TrendChange, ...] = ()
    """Known failures that were found later, by more than the factor."""
    faster: tuple[TrendChange, ...] = ()
    """Known failures that were found earlier, by more than the factor."""


class TrendsSeries(msgspec.Struct, frozen=True, kw_only=True):
    """A lock under faults on a cluster over the nightly runs; each list has one value a nightly run."""

    lock: str = ""
    """The lock's name, or its ``package.module:Class``."""
    faults: tuple[str, ...] = ()
    """The faults, in the order of the plan."""
    cluster: str = ""
    """``sim`` or ``docker``."""
    runs: tuple[int, ...]
    """Number of runs."""
    rate: tuple[float | None, ...]
    """Share of runs with a violation among those with a verdict, 0 to 1; null if there are none."""
    found_s: tuple[float | None, ...]
    """Median time to the first violation, seconds; null if there is none."""


class TrendsDetection(msgspec.Struct, frozen=True, kw_only=True):
    """Detection rate of a known failure on containers; each list has one value a nightly run."""

    scenario: str
    """Name of the scenario."""
    found: tuple[int | None, ...]
    """Runs that found the failure; null in a nightly run without the scenario."""
    runs: tuple[int | None, ...]
    """Runs of the scenario; null in a nightly run without it."""
    chance: float | None = None
    """Probability that so few of the last nightly run's runs find it if the rate is unchanged; null without earlier
    runs."""


class TrendsDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Changes since the last nightly run, and the results of each lock over the nightly runs."""

    schema: Literal[1]
    """Version of this document."""
    suite: str = ""
    """The suite of the nightly runs."""
    clusters: tuple[str, ...] = ()
    """The clusters of the nightly runs, sorted."""
    factor: float = 2.0
    """Times to the first violation that differ by more than this factor are a change."""
    nights: tuple[TrendsNight, ...] = ()
    """The nightly runs, the oldest first."""
    compared: Changes | None = None
    """Changes between the last two; null if there is only one."""
    detections: tuple[TrendsDetection, ...] = ()
    """Detection rates of known failures on containers whose faults strike on events."""
    series: tuple[TrendsSeries, ...] = ()
    """The figures of each lock, faults and cluster."""


def load_trends(path: Path) -> TrendsDocument:
    """Read what ``harness trends --json`` printed; DocumentError if it cannot be read or is malformed."""
    return load(path, TrendsDocument)
