"""The ablations of a nightly run as view data: each failure with its mechanism, and the changes that were made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.documents import AblationOutcome


@dataclass(frozen=True, slots=True)
class ChangeView:
    """A change of a failure: a fault that was removed, or a part of its cure. ``explained`` is what the scenario says
    about a failure that survives; ``unexplained`` if it says nothing, or if the run broke."""

    what: str
    state: str
    why: str
    explained: str
    unexplained: bool

    @property
    def judgement(self) -> str:
        return "invalid" if self.unexplained else "valid" if self.state == "vanishes" else ""


@dataclass(frozen=True, slots=True)
class AblationRow:
    """A failure with its mechanism and all its changes."""

    name: str
    mechanism: str
    changes: tuple[ChangeView, ...]


def rows(outcomes: Sequence[AblationOutcome]) -> tuple[AblationRow, ...]:
    """Return a row for each failure, in the order of the outcomes."""
    by_name: dict[str, list[AblationOutcome]] = {}
    for outcome in outcomes:
        by_name.setdefault(outcome.scenario, []).append(outcome)
    return tuple(
        AblationRow(name, changes[0].reason, tuple(map(_change, changes))) for name, changes in by_name.items()
    )


def _change(outcome: AblationOutcome) -> ChangeView:
    unexplained = outcome.unexplained or outcome.state == "error"
    return ChangeView(outcome.change, outcome.state, outcome.why, outcome.explained, unexplained)
