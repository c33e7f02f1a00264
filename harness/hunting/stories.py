"""The story of a violation: the steps without which it would not be, in plain words.

Each step is put to the test: the schedule is played without it, and if the checker still finds fault the step is not
part of the story, and is taken out of the schedule for good. What is left is told.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from checkers.base import Violation

from ..plan import Plan
from .stories_drops import Drops
from .stories_parts import Late, Part, Scene
from .stories_words import Words, ending
from .trials import Trial, play

MOST: Final = 120
"""After so many schedules nothing more is taken out of a plan: what is left is only looked at."""


class Step(msgspec.Struct, frozen=True):
    """``at`` in seconds after the start; ``drop`` says what the schedule is without it."""

    number: int
    at: float
    text: str
    drop: Drops


class Story(msgspec.Struct, frozen=True):
    """What happened, step by step, and what is broken in the end."""

    steps: tuple[Step, ...]
    ending: str

    def lines(self) -> list[str]:
        """The story as text, a line for each step and one for the ending."""
        return [*(f"{step.number}. At {step.at:.3f} s {step.text}." for step in self.steps), self.ending]


@dataclass(frozen=True, slots=True)
class Told:
    """A story, and the trial that it is told of: the one that was given, or a simpler one, if not all of its schedule
    was needed."""

    trial: Trial
    story: Story


def tell(trial: Trial, checker: str) -> Told:
    """The story of what ``checker`` found in ``trial`` first; ValueError if that found nothing."""
    return _Teller(checker).tell(trial)


def still(trial: Trial, checker: str) -> bool:
    """Does the checker find fault with it?"""
    return trial.verdicts[checker].valid is False


@dataclass(slots=True)
class _Teller:
    checker: str
    played: dict[bytes, Trial] = field(default_factory=dict)

    def tell(self, trial: Trial) -> Told:
        while True:
            scene = Scene(trial, self._violation(trial))
            simpler = self._without_rest(scene)
            needed: list[Part] = []
            for part in scene.parts() if simpler is None else ():
                without = self._play(part.drop.of(trial.plan))
                if not still(without, self.checker):
                    needed.append(_placed(part, trial, without))
                elif part.drop.lasting and self._stands(without):
                    simpler = without
                    break
            if simpler is None:
                return Told(trial, _story(scene, needed))
            trial = simpler

    def _without_rest(self, scene: Scene) -> Trial | None:
        """The trial without what comes after the violation, if there is anything and it is none the less for it."""
        rest = scene.rest()
        less = None if rest is None else self._play(rest.of(scene.trial.plan))
        return less if less is not None and self._stands(less) else None

    def _violation(self, trial: Trial) -> Violation:
        if not still(trial, self.checker):
            raise ValueError(f"{self.checker} found no violation: there is no story to tell")
        return trial.verdicts[self.checker].evidence[0]

    def _play(self, plan: Plan) -> Trial:
        known = msgspec.json.encode(plan)
        if known not in self.played:
            self.played[known] = play(plan)
        return self.played[known]

    def _stands(self, trial: Trial) -> bool:
        """Is it a finding by itself, all of whose faults struck?"""
        return self.checker in trial.broken((self.checker,)) and len(self.played) < MOST


def _placed(part: Part, trial: Trial, without: Trial) -> Part:
    """When a message came late is seen where the two histories part."""
    if not isinstance(part, Late):
        return part
    for one, other in zip(trial.history, without.history, strict=False):
        if one != other:
            return replace(part, at=min(one.time, other.time), index=one.index)
    return part


def _story(scene: Scene, needed: list[Part]) -> Story:
    parts = sorted(needed, key=lambda part: (part.at, part.index))
    origin = scene.history.origin
    texts = Words(scene, parts).texts()
    steps = tuple(
        Step(number, round((part.at - origin) / 1e9, 6), text, part.drop)
        for number, (part, text) in enumerate(zip(parts, texts, strict=True), 1)
    )
    return Story(steps, ending(scene))
