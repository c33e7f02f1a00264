"""A night's document as typed view data; :func:`read` says what is wrong with a malformed one (ReportError)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from reports.document import Node, ReportError, plain

SCHEMA: Final = 1
RED: Final = ("violated", "missed", "late")
UNSURE: Final = ("error", "unknown")
STATES: Final = (*RED, *UNSURE, "as-expected", "not-run")
"""All states, the worst first."""
Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class OutcomeView:
    """One scenario on one cluster; ``found_s`` is the time to the first violation, s."""

    scenario: str
    row: str
    title: str
    safe: bool
    lock: str
    kind: str
    faults: tuple[str, ...]
    workload: str
    cluster: str
    seed: str
    state: str
    why: str
    expected: Pairs
    valid: bool | None
    checkers: Pairs
    found_s: float | None
    real_seconds: float
    acquires: int
    folder: str

    @property
    def judgement(self) -> str:
        """As in a run's report: valid, invalid, unknown; empty for what did not run."""
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
class NightView:
    """A whole night; ``clusters`` are those asked for and any other that an outcome names."""

    started_at: datetime
    suite: str
    clusters: tuple[str, ...]
    seconds: float
    versions: Pairs
    interrupted: bool
    """Somebody ended the night early; the outcomes are those until then."""
    outcomes: tuple[OutcomeView, ...]

    def in_state(self, *states: str) -> list[OutcomeView]:
        return [outcome for outcome in self.outcomes if outcome.state in states]


def read(document: dict[str, Any]) -> NightView:
    """The view of a night's document."""
    night = Node(json.loads(json.dumps(document)), "the night's document")  # as a reader of the file has it: lists
    if night.require("schema") != SCHEMA:
        raise ReportError(f"{night.place}: schema: expected {SCHEMA}, got {plain(document['schema'])}")
    night.require("outcomes")
    outcomes = tuple(_outcome(node) for node in night.nodes("outcomes"))
    clusters = dict.fromkeys((*night.texts("clusters"), *(outcome.cluster for outcome in outcomes)))
    try:
        started_at = datetime.fromisoformat(night.text("started_at"))
    except ValueError as error:
        raise ReportError(f"{night.place}: started_at: {error}") from error
    return NightView(
        started_at=started_at,
        suite=night.text("suite"),
        clusters=tuple(clusters),
        seconds=night.number("seconds") or 0.0,
        versions=tuple(pair for pair in night.flat("versions") if night.node("versions").data[pair[0]] is not None),
        interrupted=bool(night.truth("interrupted")),
        outcomes=outcomes,
    )


def _outcome(node: Node) -> OutcomeView:
    scenario, state = node.require("scenario"), node.require("state")
    if state not in STATES:
        raise ReportError(f"{node.place}: state: expected one of {', '.join(STATES)}, got {plain(state)}")
    words = {True: "valid", False: "invalid", None: "unknown"}
    checkers = node.node("checkers")
    return OutcomeView(
        scenario=scenario,
        row=node.text("row", scenario.partition(".")[0]),
        title=node.text("title"),
        safe=bool(node.truth("safe")),
        lock=node.text("lock"),
        kind=node.text("kind"),
        faults=node.texts("faults"),
        workload=node.text("workload"),
        cluster=node.text("cluster"),
        seed=plain(node.data.get("seed", "–")),
        state=state,
        why=node.text("why"),
        expected=tuple(pair for pair in node.flat("expected") if pair[1]),
        valid=node.truth("valid"),
        checkers=tuple((name, words[checkers.truth(name)]) for name in checkers.data),
        found_s=node.number("found_s"),
        real_seconds=node.number("real_seconds") or 0.0,
        acquires=node.whole("acquires") or 0,
        folder=node.text("folder"),
    )
