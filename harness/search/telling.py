"""Stories of runs that need another Python or other libraries: each trial runs there, and is judged here."""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.checkers import catalogue
from harness.clusters.kinds import KINDS
from harness.history.lock_keys import KeyState
from harness.plan import Plan
from harness.run.plans.completion import complete
from harness.run.plans.lock_facts import find_facts
from harness.run.processes.interpreter import interpreter_of
from harness.run.supervised import Destination, SupervisedRun

from .stories.story import TrialStory, story_of
from .trials import Trial, judged


@dataclass(frozen=True, slots=True)
class _Keys:
    """The states of the lock's keys, in the order in which they were observed."""

    found: list[KeyState] = field(default_factory=list)

    def write(self, state: KeyState) -> None:
        self.found.append(state)


def tell_story(plan: Plan, checker: str) -> TrialStory | None:
    """Return the story of a simulated plan's violation, with the Python and the libraries that the plan requires.

    The result is None if ``checker`` finds no violation, or if a fault was not confirmed. Raises KeyboardInterrupt
    after an interrupt, UsageError for a plan that cannot be run.
    """
    trial = run_trial_elsewhere(plan)
    return story_of(trial, checker, run_trial_elsewhere) if checker in trial.broken((checker,)) else None


def run_trial_elsewhere(plan: Plan) -> Trial:
    """Run a schedule in a worker with what the plan requires, and check its history."""
    interpreter = interpreter_of(plan.check())
    lock = find_facts(plan.lock, interpreter)
    plan = complete(plan, lock)
    keys = _Keys()
    run = SupervisedRun(plan, lock, Destination(keys=keys))
    run.run(interpreter=interpreter, packages=KINDS.find(plan.kind).packages)
    history = run.recorder.history.in_order()
    if any(op.value["reason"] == "interrupted" for op in history.nemesis("stop")):
        raise KeyboardInterrupt
    return judged(plan, lock, history, keys.found, catalogue.chosen(plan.checkers))
