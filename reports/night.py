"""The document of a nightly run as typed view data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from harness.documents import NightlyDocument, plain
from harness.documents.nightly import ScenarioOutcome
from harness.documents.trace import TraceCounts, trace_counts
from harness.wording import PROPERTY_STATES, as_sentence, counted

from . import ablated, explored
from .ablated import AblationRow
from .document import known_versions, pairs
from .explored import ExplorationView

RED: Final = ("violated", "missed", "other-cause", "late")
UNSURE: Final = ("error", "unknown")
STATES: Final = (*RED, *UNSURE, "as-expected", "not-run")
"""All states of an outcome, the worst first."""
Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class OutcomeView:
    """The outcome of one scenario on one cluster; ``found_s`` is the time to the first violation, s."""

    scenario: str
    row: str
    title: str
    safe: bool
    lock: str
    what_runs: str
    """The lock is of the catalogue, a library or a model of one, in a sentence; empty if it does not say."""
    modelled: bool
    """True if the software is not run: the lock is a model of it."""
    kind: str
    faults: tuple[str, ...]
    workload: str
    cluster: str
    """The cluster, or the image of the servers where a nightly run has several."""
    seed: str
    state: str
    why: str
    expected: Pairs
    valid: bool | None
    checkers: Pairs
    reason: str
    """Reason for the run's own verdict; empty in older documents."""
    found_s: float | None
    real_seconds: float
    acquires: int
    folder: str
    repeated: str
    """How many runs on containers found the failure, tonight and before, or how many were unknown before this one;
    empty after a single run."""

    @property
    def judgement(self) -> str:
        """Return the verdict as in a run's report: valid, invalid, unknown; empty if the scenario did not run."""
        if self.state in RED:
            return "invalid"
        return "unknown" if self.state in UNSURE else "" if self.state == "not-run" else "valid"

    @property
    def as_expected(self) -> bool:
        return self.state == "as-expected"

    @property
    def not_as_expected(self) -> bool:
        return self.state in (*RED, *UNSURE)


@dataclass(frozen=True, slots=True)
class ImpossibleReply:
    """A reply of a real server that the simulated one cannot give."""

    scenario: str
    host: str
    sentence: str
    folder: str


@dataclass(frozen=True, slots=True)
class NightView:
    """A whole nightly run; ``clusters`` are the requested ones and all others that an outcome names, or the images of
    servers. ``servers`` are these images, each with what its servers reported; empty without several images."""

    started_at: datetime
    suite: str
    clusters: tuple[str, ...]
    servers: Pairs
    seconds: float
    versions: Pairs
    planned: int | None
    """Number of runs that it would have made without an interruption; None if that is unknown."""
    interrupted: bool
    """True if a user interrupted the nightly run; the outcomes are then those until the interruption."""
    outcomes: tuple[OutcomeView, ...]
    ablations: tuple[AblationRow, ...]
    exploration: ExplorationView | None
    traces: TraceCounts
    impossible: tuple[ImpossibleReply, ...]
    """The replies of real servers that no execution of the simulated ones gives."""

    @property
    def survivors(self) -> int:
        """Return the number of changes under which a failure survives, or which prove nothing, without a reason."""
        return sum(change.unexplained for row in self.ablations for change in row.changes)

    def in_state(self, *states: str) -> list[OutcomeView]:
        return [outcome for outcome in self.outcomes if outcome.state in states]


def read(document: NightlyDocument) -> NightView:
    """Return the view of a nightly run's document."""
    outcomes = tuple(_outcome(outcome) for outcome in document.outcomes)
    return NightView(
        started_at=document.started_at,
        suite=document.suite,
        clusters=tuple(dict.fromkeys((*document.places, *(outcome.cluster for outcome in outcomes)))),
        servers=tuple(document.servers),
        seconds=document.seconds,
        versions=known_versions(document.versions),
        planned=document.planned,
        interrupted=document.interrupted,
        outcomes=outcomes,
        ablations=ablated.rows(document.ablations),
        exploration=None if document.exploration is None else explored.read(document.exploration),
        traces=trace_counts(outcome.traces for outcome in document.outcomes),
        impossible=tuple(reply for outcome in document.outcomes for reply in _impossible(outcome)),
    )


def _impossible(outcome: ScenarioOutcome) -> Iterator[ImpossibleReply]:
    for server in outcome.traces:
        if server.state == "impossible" and server.difference is not None:
            sentence = as_sentence(server.difference.sentence)
            yield ImpossibleReply(outcome.scenario, server.host, sentence, outcome.folder or "")


def _outcome(outcome: ScenarioOutcome) -> OutcomeView:
    words = {True: "valid", False: "invalid", None: "unknown"}
    states = {name: PROPERTY_STATES[state] for name, state in outcome.states.items()}
    return OutcomeView(
        scenario=outcome.scenario,
        row=outcome.row,
        title=outcome.title,
        safe=outcome.safe,
        lock=outcome.lock,
        what_runs=as_sentence(outcome.origin.sentence) if outcome.origin else "",
        modelled=outcome.origin is not None and outcome.origin.kind == "model",
        kind=outcome.kind,
        faults=outcome.faults,
        workload=outcome.workload,
        cluster=outcome.place,
        seed=str(outcome.seed),
        state=outcome.state,
        why=outcome.why,
        expected=tuple(pair for pair in pairs(plain(outcome.expected)) if pair[1]),
        valid=outcome.valid,
        checkers=tuple((name, states.get(name, words[valid])) for name, valid in outcome.checkers.items()),
        reason=outcome.reason,
        found_s=outcome.found_s,
        real_seconds=outcome.real_seconds,
        acquires=outcome.acquires,
        folder=outcome.folder or "",
        repeated=_repeated(outcome),
    )


def _repeated(outcome: ScenarioOutcome) -> str:
    detection = outcome.detection
    if detection is None:
        return f"after {counted(outcome.unknown_runs, 'unknown run')}" if outcome.unknown_runs else ""
    now = f"found in {detection.found} of {counted(detection.runs, 'run')}"
    return f"{now}, before in {detection.before_found} of {detection.before_runs}" if detection.before_runs else now
