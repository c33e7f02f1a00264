"""The document of a nightly run: what ``harness nightly --json`` prints and ``results.db`` keeps."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Final, Literal

import msgspec

from .ablation import AblationOutcome
from .exploration import Exploration
from .lock import LockOrigin
from .reading import load
from .run import PropertyState, ScenarioState
from .trace import ServerTrace

SCHEMA: Final = 1


class ExpectedVerdicts(msgspec.Struct, frozen=True, kw_only=True):
    """The verdicts that a scenario names."""

    invalid: tuple[str, ...] = ()
    """Checkers that must say invalid."""
    valid: tuple[str, ...] = ()
    """Checkers that must say valid."""
    untested: tuple[str, ...] = ()
    """Checkers that must say that their property was not tested."""


class Detection(msgspec.Struct, frozen=True, kw_only=True):
    """How many runs of a known failure on containers found it: in this nightly run, and in earlier ones."""

    found: int
    """Runs that found the failure."""
    runs: int
    """Runs of this nightly run."""
    before_found: int = 0
    """Runs of earlier nightly runs that found it."""
    before_runs: int = 0
    """Runs of earlier nightly runs."""
    chance: float | None = None
    """Probability that so few of this nightly run's runs find it if the rate is unchanged (Fisher's exact test,
    one-sided); null without earlier runs."""


class ScenarioOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one scenario on one cluster with one seed."""

    scenario: str
    """Name of the scenario."""
    row: str
    """Name of the documented failure that it belongs to."""
    title: str
    """The scenario's title."""
    safe: bool
    """True if it is a cure, which must be safe; false if it is a known failure."""
    lock: str
    """The lock's name, or its ``package.module:Class``."""
    origin: LockOrigin | None = None
    """What the lock is: of ours, a library, or a model of one; null for a user's own lock that does not say."""
    kind: str
    """Kind of cluster."""
    faults: tuple[str, ...]
    """Faults of its plan, in their order."""
    workload: str
    """Name of the workload."""
    cluster: str
    """``sim`` or ``docker``."""
    image: str = ""
    """Image or release of the servers that the command named, ``default`` for the harness's own; empty if it named
    none."""
    server: str = ""
    """Product and version that the servers reported; empty on the simulator, and if ``image`` is empty."""
    seed: int
    """Seed of the run."""
    state: ScenarioState
    """Result of the run compared with the scenario's expectations."""
    why: str
    """Why, in a sentence."""
    expected: ExpectedVerdicts
    """The verdicts that the scenario names."""
    valid: bool | None
    """Verdict of the run; null if it is unknown, or nothing ran."""
    checkers: dict[str, bool | None]
    """The checkers' verdicts by name; null is unknown."""
    states: dict[str, PropertyState] = {}
    """The same as states of the properties; older documents lack them."""
    reason: str = ""
    """Reason for the run's own verdict in one sentence."""
    found_s: float | None
    """Begin of the first violation, seconds after the start of the run."""
    time_limit: float
    """Length of the run, seconds."""
    real_seconds: float
    """Real time that it took, with the start of its cluster, seconds."""
    acquires: int
    """Acquires that were granted."""
    folder: str | None
    """Folder of the run; null if it is not stored."""
    traces: tuple[ServerTrace, ...] = ()
    """Whether the simulated servers may have given the replies of the real ones: of a run on containers."""
    detection: Detection | None = None
    """Detection rate of a known failure on containers whose fault strikes on an event. It is run several times, and
    this is the outcome of all. Null for others, and in older documents."""
    unknown_runs: int = 0
    """Earlier runs of this night, on containers, that were unknown, so that the scenario was run again."""

    @property
    def place(self) -> str:
        """The image of the servers, or the cluster if the command named no images."""
        return self.image or self.cluster


class NightlyDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The outcomes of one nightly run."""

    schema: Literal[1]
    """Version of this document."""
    started_at: datetime
    """Start time: UTC, whole seconds, ``2026-11-21T20:00:00Z``."""
    suite: str
    """``smoke``, ``full`` or ``mutants``, and what it was narrowed to."""
    clusters: tuple[str, ...]
    """``sim``, ``docker`` or both."""
    images: tuple[str, ...] = ()
    """The images of servers that the command named; each scenario ran on all of its own service."""
    seconds: float
    """Real time that it took, seconds."""
    versions: dict[str, str | None]
    """Versions of the packages that decide the outcome, by name; ``commit`` is the harness's own."""
    status: int
    """Exit status of the command: 0 as expected, 1 not as expected, 3 unknown."""
    interrupted: bool = False
    """True if it was interrupted; the outcomes are then those until the interruption."""
    planned: int | None = None
    """Runs that it would have made without an interruption; scenarios that cannot run on a requested cluster are not
    counted. Null in old documents."""
    outcomes: tuple[ScenarioOutcome, ...]
    """The outcomes in the order of the scenarios."""
    ablations: tuple[AblationOutcome, ...] = ()
    """Whether each failure needs its faults, and whether each cure is one: in the suite ``full`` on the simulator."""
    seed: int | None = None
    """First of the fresh seeds, which each scenario ran with besides the fixed ones; null without."""
    exploration: Exploration | None = None
    """Hunts over the locks of the catalogue; null without."""

    @property
    def places(self) -> tuple[str, ...]:
        """The images, or the clusters if the command named no images."""
        return self.images or self.clusters

    @property
    def servers(self) -> list[tuple[str, str]]:
        """Each image with the product and version that its servers reported, empty if none did."""
        return [
            (image, next((one.server for one in self.outcomes if one.image == image and one.server), ""))
            for image in self.images
        ]

    @property
    def comparable(self) -> bool:
        """Whether every run of the suite was made, so that other nights may be compared with this one. Exploration
        comes last, and continues in the next night if it is interrupted. The history of nights has one outcome for a
        scenario on a cluster, so a nightly run on several images has no place in it."""
        return not self.images and (not self.interrupted or self.exploration is not None)


def load_nightly(path: Path) -> NightlyDocument:
    """Read what ``harness nightly --json`` printed; DocumentError if it cannot be read or is malformed."""
    return load(path, NightlyDocument)
