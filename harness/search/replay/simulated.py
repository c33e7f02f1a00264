"""Run a plan on the simulator and record the commands between clients and servers. Histories do not contain them."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from harness.checkers import catalogue
from harness.checkers.base import Verdict
from harness.checkers.running import run_all
from harness.history import History
from harness.plan import Plan
from harness.run.plans.completion import complete
from harness.run.plans.lock_facts import find_facts
from harness.run.processes.interpreter import interpreter_of
from harness.run.supervised import Destination, SupervisedRun
from harness.run.tapping import Command


@dataclass(frozen=True, slots=True)
class Simulated:
    """A simulated run. ``commands`` are in the order of their times."""

    plan: Plan
    history: History
    commands: tuple[Command, ...]
    verdicts: dict[str, Verdict]

    def violated(self) -> tuple[str, ...]:
        """Return the names of the checkers that found a violation, in the order of the catalogue."""
        return tuple(name for name, verdict in self.verdicts.items() if verdict.valid is False)

    def until_ns(self, names: tuple[str, ...]) -> int | None:
        """Return the end (ns) of the first violation that these checkers found, None if there is none."""
        ends = [violation.until_ns for name in names for violation in self.verdicts[name].evidence[:1]]
        return min(ends, default=None)


def simulate(plan: Plan) -> Simulated:
    """Run a plan on the simulator, in a worker with the Python and the libraries that it requires; nothing is stored.

    Raises UsageError if the simulator cannot do it, KeyboardInterrupt after an interrupt.
    """
    interpreter = interpreter_of(plan)
    lock = find_facts(plan.lock, interpreter)
    plan = complete(msgspec.structs.replace(plan, cluster="sim", servers=()).check(), lock)
    commands: list[Command] = []
    run = SupervisedRun(plan, lock, Destination(commands=commands))
    run.run(interpreter=interpreter)
    history = run.recorder.history.in_order()
    if any(op.value["reason"] == "interrupted" for op in history.nemesis("stop")):
        raise KeyboardInterrupt
    return Simulated(plan, history, tuple(commands), run_all(history, catalogue.chosen(plan.checkers)))
