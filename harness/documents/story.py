"""The story of a violation, which documents of runs and hunts share."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType


class Removal(msgspec.Struct, frozen=True, kw_only=True):
    """Change of a schedule that leaves a step out."""

    type: str = ""
    """``WithoutFault``, ``WithoutDelay``, ``Ends``, ``Dies`` or ``Rest``: what is removed."""
    number: int | UnsetType = UNSET
    """For ``WithoutFault`` and ``WithoutDelay``: number of the fault or delay in the plan, from 0."""
    client: str | UnsetType = UNSET
    """For ``Ends`` and ``Dies``: host name of the client."""
    after: int | dict[str, int] | UnsetType = UNSET
    """For ``Ends``: number of acquires after which the client stops. For ``Rest``: the same by client."""
    faults: tuple[int, ...] | UnsetType = UNSET
    """For ``Rest``: numbers in the plan, from 0, of the faults that are left out."""
    f: str | UnsetType = UNSET
    """For ``Dies``: name of the call before which the client dies."""
    nth: int | UnsetType = UNSET
    """For ``Dies``: number of that call among the client's calls of this name, from 1."""
    longer: float | UnsetType = UNSET
    """For ``Dies``: seconds by which the run is made longer."""


class StoryStep(msgspec.Struct, frozen=True, kw_only=True):
    """One step without which the violation would not happen."""

    number: int = 0
    """Number of the step, from 1."""
    at: float | None = None
    """Seconds after the start of the run."""
    text: str = ""
    """Clause about the step, without a full stop."""
    drop: Removal | UnsetType = UNSET
    """Change of the schedule that leaves the step out."""


class Story(msgspec.Struct, frozen=True, kw_only=True):
    """Steps that lead to a violation."""

    steps: tuple[StoryStep, ...] = ()
    """The steps in the order of time."""
    ending: str = ""
    """The violation, in a sentence."""
