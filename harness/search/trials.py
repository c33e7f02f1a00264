"""Trials: run one schedule on the simulator and check its history. Nothing is stored."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

from harness.checkers import catalogue
from harness.checkers.base import Checker, Verdict
from harness.checkers.running import run_all
from harness.documents.lock import LockFacts
from harness.history import History
from harness.history.lock_keys import KeyState, attach_keys
from harness.plan import Plan
from harness.run.doubts import doubts
from harness.run.opening import open_simulated
from harness.run.plans.completion import complete
from harness.run.plans.lock_facts import searched_facts
from harness.run.runner import Runner
from harness.run.verdicts.decision import Decision, decide, with_promised_tokens
from harness.run.verdicts.fault_records import fault_records
from harness.run.verdicts.summary import ORDER

MOST_EVENTS: Final = 300_000
"""Most simulator events of a schedule. Usual are 10,000 to 30,000; far more means a client retries without pause."""


class FailureKind(NamedTuple):
    """Kind of a failure: the checker of a violated property, and the documented limit of the lock that explains the
    violations; empty if none does."""

    checker: str
    limit: str = ""


@dataclass(frozen=True, slots=True)
class Trial:
    """Result of one schedule. ``keys`` has each change of the lock's key on a server."""

    plan: Plan
    history: History
    keys: list[KeyState]
    verdicts: dict[str, Verdict]
    decision: Decision

    def broken(self, look_for: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Return the required properties that are broken (with ``look_for``: those named there), the gravest first.

        The result is empty if a fault of the plan was not confirmed, since the run then does not show what the plan
        does.
        """
        if self.verdicts["faults"].valid is not True:
            return ()
        if not look_for:
            return tuple(sorted(self.decision.decisive, key=gravity))
        return tuple(sorted((name for name in look_for if self.verdicts[name].valid is False), key=gravity))

    def kinds(self, look_for: tuple[str, ...] = ()) -> tuple[FailureKind, ...]:
        """Return the kinds of failures, the gravest first, as :meth:`broken` names the checkers; known limits are among
        them whether they are accepted or not."""
        if self.verdicts["faults"].valid is not True:
            return ()
        properties = self.decision.properties
        names = look_for or tuple(name for name, it in properties.items() if it.required)
        found: list[FailureKind] = []
        for name in sorted(names, key=gravity):
            if properties[name].state == "broken":
                found.append(FailureKind(name))
            elif properties[name].state == "known-limit":
                found += [FailureKind(name, limit) for limit in properties[name].limits]
        return tuple(found)


def gravity(checker: str) -> tuple[int, str]:
    """Sort key that puts the gravest checker first."""
    return (ORDER.index(checker) if checker in ORDER else len(ORDER), checker)


def run_trial(plan: Plan) -> Trial:
    """Run and check a schedule. Raises UsageError for a plan that cannot be run, and any error of the simulation."""
    lock = searched_facts(plan.lock)
    plan = complete(plan.check(), lock)
    cluster = open_simulated(plan)
    cluster.give_up_after(MOST_EVENTS)
    keys: list[KeyState] = []
    cluster.watch_keys([f"k{number}" for number in range(plan.keys)], keys.append)
    runner = Runner(plan, lock, cluster, doubts=partial(doubts, plan, cluster))
    runner.run()
    history = runner.recorder.history.in_order()
    return judged(plan, lock, history, keys, catalogue.chosen(plan.checkers))


def judged(plan: Plan, lock: LockFacts, history: History, keys: list[KeyState], checkers: Iterable[Checker]) -> Trial:
    """Return the trial of a recorded history, judged by ``checkers``."""
    attach_keys(history, keys)
    verdicts = with_promised_tokens(plan, lock, run_all(history, checkers), history)
    return Trial(plan, history, keys, verdicts, decide(plan, lock, verdicts, fault_records(history)))
