"""Explain a violation as a story: the steps without which it would not happen, in plain words.

Each step is tested: run the schedule without it. If the checker still finds a violation, the step is not part of the
story, and is removed from the schedule. If the violation to explain is beyond the documented limits of the lock, only
such a violation counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from harness.checkers.base import Violation
from harness.plan import Plan
from harness.search.trials import Trial, run_trial

from .drops import Drops
from .parts import LateMessagePart, Part, StoryContext
from .wording import StoryWriter, ending

RunTrial = Callable[[Plan], Trial]
MOST: Final = 120
"""After this many trials no more steps are removed from the plan."""


class DroppableStep(msgspec.Struct, frozen=True):
    """A step of a story, at ``at`` seconds after the start; ``drop`` removes it from a schedule."""

    number: int
    at: float
    text: str
    drop: Drops


class StoryText(msgspec.Struct, frozen=True):
    """The steps of a violation, and a sentence on the harm (``ending``)."""

    steps: tuple[DroppableStep, ...]
    ending: str

    def lines(self) -> list[str]:
        """Return the story as text, one line for each step and one for the ending."""
        return [*(f"{step.number}. At {step.at:.3f} s {step.text}." for step in self.steps), self.ending]


@dataclass(frozen=True, slots=True)
class TrialStory:
    """A story and its trial: the given one, or a simpler one if not all of its schedule was needed."""

    trial: Trial
    story: StoryText


def story_of(trial: Trial, checker: str, run: RunTrial = run_trial) -> TrialStory:
    """Return the story of the first violation that ``checker`` found in ``trial``; ValueError if it found none.

    ``run`` runs further schedules.
    """
    return _StoryTeller(checker, run).story_of(trial)


def still(trial: Trial, checker: str, state: str = "") -> bool:
    """Return whether the checker finds a violation in the trial; with the state ``broken`` of the trial to explain, one
    beyond the documented limits."""
    found = trial.decision.properties[checker].state
    return found == "broken" or (found == "known-limit" and state != "broken")


@dataclass(slots=True)
class _StoryTeller:
    checker: str
    run: RunTrial
    trials: dict[bytes, Trial] = field(default_factory=dict)
    state: str = ""
    """State of the property in the given trial: a new failure must not become a known limit."""

    def story_of(self, trial: Trial) -> TrialStory:
        self.state = self._state(trial)
        while True:
            scene = StoryContext(trial, self._violation(trial))
            simpler = self._without_rest(scene)
            needed: list[Part] = []
            for part in scene.parts() if simpler is None else ():
                without = self._try(part.drop.of(trial.plan))
                if not still(without, self.checker, self.state):
                    needed.append(_placed(part, trial, without))
                elif part.drop.lasting and self._stands(without):
                    simpler = without
                    break
            if simpler is None:
                return TrialStory(trial, _story(scene, needed))
            trial = simpler

    def _without_rest(self, scene: StoryContext) -> Trial | None:
        """Return the trial without the calls and faults after the violation, if there are any and it still fails."""
        rest = scene.rest()
        less = None if rest is None else self._try(rest.of(scene.trial.plan))
        return less if less is not None and self._stands(less) else None

    def _violation(self, trial: Trial) -> Violation:
        if not still(trial, self.checker):
            raise ValueError(f"{self.checker} found no violation: there is no story to tell")
        violation = trial.decision.properties[self.checker].violation
        assert violation is not None, self.checker
        return violation

    def _try(self, plan: Plan) -> Trial:
        known = msgspec.json.encode(plan)
        if known not in self.trials:
            self.trials[known] = self.run(plan)
        return self.trials[known]

    def _stands(self, trial: Trial) -> bool:
        """Return whether the trial fails alike with all its faults confirmed, and trials are left to simplify it."""
        alike = self.checker in trial.broken((self.checker,)) and self._state(trial) == self.state
        return alike and len(self.trials) < MOST

    def _state(self, trial: Trial) -> str:
        return trial.decision.properties[self.checker].state


def _placed(part: Part, trial: Trial, without: Trial) -> Part:
    """Set the time of a late message: the first difference between the histories with and without the delay."""
    if not isinstance(part, LateMessagePart):
        return part
    for one, other in zip(trial.history, without.history, strict=False):
        if one != other:
            return replace(part, at=min(one.time, other.time), index=one.index)
    return part


def _story(scene: StoryContext, needed: list[Part]) -> StoryText:
    parts = sorted(needed, key=lambda part: (part.at, part.index))
    origin = scene.history.origin
    texts = StoryWriter(scene, parts).texts()
    steps = tuple(
        DroppableStep(number, round((part.at - origin) / 1e9, 6), text, part.drop)
        for number, (part, text) in enumerate(zip(parts, texts, strict=True), 1)
    )
    return StoryText(steps, ending(scene))
