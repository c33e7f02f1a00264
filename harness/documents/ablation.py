"""The document of ``harness scenario ablate``: whether each failure needs its faults, and whether each cure is one."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from harness.plan import Mechanism
from harness.plan.mechanism import mechanism_text

SCHEMA: Final = 1
AblationState = Literal["vanishes", "survives", "unknown", "error", "not-run"]


class AblationOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """A failure scenario with one change: a fault less, or one part of its cure."""

    scenario: str
    """Name of the failure."""
    mechanism: Mechanism | None
    """Why the failure happens; null if the scenario does not say it."""
    kind: Literal["fault", "cure"]
    """``fault``: a fault was removed. ``cure``: one part of the cure was applied."""
    change: str
    """The change in words: the fault, or the key of the plan."""
    state: AblationState
    """``vanishes``: the failure does not happen any more. ``survives``: it happens still, for the same reason.
    ``unknown``: a fault could not strike with this part of the cure, so that the run proves nothing. ``error``: the run
    broke. ``not-run``: the simulator cannot run it."""
    why: str
    """What the run showed, in a sentence."""
    explained: str = ""
    """What the scenario says about a change after which the failure survives or which cannot be made by itself; empty:
    nothing."""

    @property
    def reason(self) -> str:
        """Return the mechanism in one line; empty if the scenario does not say it."""
        return mechanism_text(self.mechanism)

    @property
    def unexplained(self) -> bool:
        """Return whether the change shows nothing or a survivor, and the scenario does not say why."""
        return self.state in ("survives", "unknown") and not self.explained


class AblationDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The outcomes of all ablations that were made."""

    schema: Literal[1]
    """Version of this document."""
    seconds: float
    """Real time that it took, seconds."""
    status: int
    """Exit status of the command: 0 every failure vanishes or its scenario says why not, 1 one survives, 3 a run broke
    or proves nothing, or the command was interrupted."""
    interrupted: bool = False
    """True if it was interrupted; the outcomes are then those until the interruption."""
    versions: dict[str, str | None]
    """Versions of the packages that decide the outcome, by name; ``commit`` is the harness's own."""
    outcomes: tuple[AblationOutcome, ...]
    """The outcomes in the order of the scenarios."""
