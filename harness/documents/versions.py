"""The document of a differential study: ``versions.json`` in the study's folder."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

import msgspec

from harness.plan import Plan

from .reading import load
from .story import Story

SCHEMA: Final = 1
VersionState = Literal["valid", "violated", "unknown", "missing"]


class VersionRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a plan with one release."""

    seed: int
    """Seed of the run."""
    valid: tuple[str, ...] = ()
    """Checkers that say valid."""
    invalid: tuple[str, ...] = ()
    """Checkers that say invalid."""
    summary: str = ""
    """Summary of the run."""


class VersionCell(msgspec.Struct, frozen=True, kw_only=True):
    """Runs of one plan with one release."""

    version: str
    """The release."""
    plan: str
    """Name of the plan."""
    state: VersionState
    """``violated`` if a checker says invalid in a run; ``unknown`` if a run has no verdict; ``missing`` if the release
    cannot be installed."""
    reason: str = ""
    """Reason why it is unknown or missing."""
    runs: tuple[VersionRun, ...] = ()
    """The runs in the order of their seeds."""
    server: str = ""
    """Product and version that the servers reported, where releases of servers are compared."""


class VersionPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A run that is made with each release."""

    name: str
    """Name of the plan."""
    plan: Plan
    """The run; durations in seconds."""
    seeds: tuple[int, ...] = ()
    """Seeds of its runs."""


class VersionChange(msgspec.Struct, frozen=True, kw_only=True):
    """One step from a release to the next with an answer, at which a failure appears or disappears."""

    before: str
    """Last release before the change."""
    version: str
    """First release with the change."""
    appears: bool
    """True if the failure appears, false if it disappears."""


class VersionDifference(msgspec.Struct, frozen=True, kw_only=True):
    """A failure that some releases have and others do not, with the same plan and the same seeds."""

    plan: str
    """Name of the plan."""
    checker: str
    """Checker that says invalid in some releases."""
    fails_in: tuple[str, ...]
    """Releases in which it says invalid."""
    holds_in: tuple[str, ...]
    """Releases in which it says valid in all runs."""
    unknown_in: tuple[str, ...] = ()
    """Releases without an answer."""
    changes: tuple[VersionChange, ...] = ()
    """Steps at which the failure appears or disappears, in the order of the releases."""
    version: str = ""
    """The release that the story is of."""
    seed: int = 0
    """Seed of the run that the story is of."""
    summary: str = ""
    """Summary of that run."""
    story: Story = Story()
    """Steps that lead to the violation."""
    folder: str | None = None
    """Folder of that run; null if it is not stored."""
    sentence: str = ""
    """The difference in one sentence."""


class VersionsDocument(msgspec.Struct, frozen=True, kw_only=True):
    """``versions.json``: the same plans and seeds with several releases of a package, and what differs."""

    schema: Literal[1]
    """Version of this document."""
    lock: str
    """The lock's name, or its ``package.module:Class``."""
    package: str
    """Name of the package; ``servers`` where images of servers are compared."""
    releases: tuple[str, ...]
    """The releases, in the order of their versions."""
    plans: tuple[VersionPlan, ...]
    """Runs that are made with each release."""
    cells: tuple[VersionCell, ...]
    """Results by plan, then by release."""
    differences: tuple[VersionDifference, ...] = ()
    """Failures that some releases have and others do not."""
    common: tuple[VersionDifference, ...] = ()
    """Failures that all releases with an answer have."""
    conclusion: str = ""
    """The result in one sentence."""
    versions: dict[str, str | None] = {}
    """Versions of the packages that decide the outcome, by name; ``commit`` is the harness's own."""
    interrupted: bool = False
    """True if the study was interrupted; some runs are then missing."""
    seconds: float = 0.0
    """Real time of the study, seconds."""
    command: str = ""
    """The command that started it."""
    started_at: str = ""
    """Start time: UTC, whole seconds, ``2026-11-21T20:00:00Z``."""


def load_versions(path: Path) -> VersionsDocument:
    """Read a ``versions.json``; DocumentError if it cannot be read or is malformed."""
    return load(path, VersionsDocument)
