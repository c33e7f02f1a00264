"""Heads of stored documents: the few keys that lists show of many documents; the rest is not even decoded.

Every field has the name and the type that it has in the whole document; a test compares them.
"""

from __future__ import annotations

import msgspec


class HeadCluster(msgspec.Struct):
    backend: str = ""
    kind: str = ""
    servers: list[str] = []
    clients: list[str] = []


class HeadFault(msgspec.Struct):
    fault: str = ""


class HeadPlan(msgspec.Struct):
    """Workload and title of a run."""

    workload: str = ""
    title: str = ""


class HeadRelease(msgspec.Struct):
    """The keys of ``plan.toml`` that tell which releases a run was made with."""

    requires: list[str] = []
    python: str = ""


class HeadStats(msgspec.Struct):
    operations: int | None = None


class HeadChecker(msgspec.Struct):
    """Verdict of one checker."""

    valid: bool | None = None
    explanation: str = ""
    state: str = ""


class RunHead(msgspec.Struct):
    """The keys of ``results.json`` that the list of runs shows; the rest of it is not even decoded."""

    valid: bool | None
    schema: int = 1
    verdict: str = ""
    reason: str = ""
    summary: str = ""
    unknown_because: list[str] = []
    lock: str = ""
    lock_title: str = ""
    seed: int | None = None
    started_at: str = ""
    command: str = ""
    cluster: HeadCluster = msgspec.field(default_factory=HeadCluster)
    faults: list[HeadFault] = []
    plan: HeadPlan = msgspec.field(default_factory=HeadPlan)
    stats: HeadStats = msgspec.field(default_factory=HeadStats)
    checkers: dict[str, HeadChecker] = {}


class HeadItem(msgspec.Struct):
    """An item of a list that is only counted."""


class HeadName(msgspec.Struct):
    """An item of a list that is shown by its name."""

    name: str


class StudyHead(msgspec.Struct, kw_only=True):
    """The keys that the documents of all studies have in common."""

    started_at: str = ""
    command: str = ""
    interrupted: bool = False


class ComparisonHead(StudyHead, kw_only=True):
    """The keys of ``comparison.json`` that the list of comparisons shows."""

    locks: list[HeadName]
    nemeses: list[HeadName]
    cluster: str = ""


class SweepHead(StudyHead, kw_only=True):
    """The keys of ``sweep.json`` that the list of sweeps shows."""

    lock: str
    points: list[HeadItem]


class HeadFinding(msgspec.Struct):
    """A finding, which is only counted; ``known`` if it is a known limit."""

    known: bool = False


class HuntHead(StudyHead, kw_only=True):
    """The keys of ``hunt.json`` that the list of hunts shows."""

    lock: str
    findings: list[HeadFinding]
    schedules: int


class ReleasesHead(StudyHead, kw_only=True):
    """The keys of ``bisect.json`` and ``versions.json`` that their lists show."""

    lock: str
    conclusion: str = ""
