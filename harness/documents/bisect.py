"""The document of a bisection: ``bisect.json`` in the bisection's folder."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

import msgspec

from harness.plan import Plan

from .reading import load
from .story import Story

SCHEMA: Final = 1
BisectOutcome = Literal["good", "bad", "unknown", "missing"]


class BisectTrial(msgspec.Struct, frozen=True, kw_only=True):
    """The question's answer for one release."""

    version: str
    """The release."""
    outcome: BisectOutcome
    """``bad`` if the failure happens, ``good`` if it does not, ``unknown`` if its runs do not tell, ``missing`` if the
    release cannot be installed."""
    runs: int = 0
    """Runs that were made; the first with the failure ends a trial."""
    seed: int | None = None
    """Seed of the run that shows the failure; null without a failure."""
    invalid: tuple[str, ...] = ()
    """Checkers that say invalid in that run."""
    summary: str = ""
    """Summary of that run, or of the last one."""
    reason: str = ""
    """Reason why it is unknown or missing."""
    seconds: float = 0.0
    """Real time of the trial, with the installation, seconds."""
    folder: str | None = None
    """Folder of the run that shows the failure; null if nothing is stored."""


class BisectQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """The failure that is searched for."""

    plan: Plan
    """The run; durations in seconds."""
    look_for: tuple[str, ...] = ()
    """Checkers whose verdict counts; none named: all."""
    seeds: tuple[int, ...] = ()
    """Seeds of the runs of each release. One run with the failure is enough."""
    source: str = ""
    """File or folder that the question was read from; empty if options describe it."""


class BisectChangelog(msgspec.Struct, frozen=True, kw_only=True):
    """Lines of the package's changelog about the releases among which the change is."""

    source: str = ""
    """Archive, and the file in it."""
    lines: tuple[str, ...] = ()
    """Lines, each without its line break."""
    omitted: int = 0
    """Lines that were left out."""


class BisectDocument(msgspec.Struct, frozen=True, kw_only=True):
    """``bisect.json``: the first release of a package that changed a failure."""

    schema: Literal[1]
    """Version of this document."""
    lock: str
    """The lock's name, or its ``package.module:Class``."""
    package: str
    """Name of the package whose releases were searched."""
    good: str
    """Release that was given as one without the failure."""
    bad: str
    """Release that was given as one with the failure."""
    question: BisectQuestion
    """The failure."""
    releases: tuple[str, ...]
    """Releases of the range in their order, both ends included."""
    trials: tuple[BisectTrial, ...]
    """Trials in the order in which they were made."""
    first_changed: str | None = None
    """First release with the change; null if skipped releases or an interrupt leave several."""
    before: str = ""
    """Last release that is known to be as before the change."""
    remaining: tuple[str, ...] = ()
    """Releases that may be the first with the change."""
    conclusion: str = ""
    """The result in one sentence."""
    story: Story = Story()
    """Steps that lead to the failure, in a release that has it."""
    story_version: str = ""
    """The release that the story is of."""
    changelog: BisectChangelog | None = None
    """Changelog of the releases that may have the change; null if they have none."""
    repeat: tuple[str, ...] = ()
    """Commands that repeat the failure, and show that it does not happen in the neighbouring release."""
    versions: dict[str, str | None] = {}
    """Versions of the packages that decide the outcome, by name; ``commit`` is the harness's own."""
    interrupted: bool = False
    """True if the search was interrupted."""
    seconds: float = 0.0
    """Real time of the search, seconds."""
    command: str = ""
    """The command that started it."""
    started_at: str = ""
    """Start time: UTC, whole seconds, ``2026-11-21T20:00:00Z``."""


def load_bisect(path: Path) -> BisectDocument:
    """Read a ``bisect.json``; DocumentError if it cannot be read or is malformed."""
    return load(path, BisectDocument)
