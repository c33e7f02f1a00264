"""One schedule, tried: its plan is run on the simulator, and its history checked. Nothing is stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from checkers import catalogue
from checkers.base import Verdict, run_all

from ..clusters.sim import SimCluster
from ..completion import complete
from ..history import History
from ..history.lock_keys import KeyState
from ..plan import Plan
from ..runner import Runner
from ..runs import open_cluster
from ..story import ORDER

MOST_EVENTS: Final = 300_000
"""Of one schedule. Ten thousand are usual, thirty at most; what has ten times as many asks again without a pause."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of a schedule. ``keys`` is what servers had under the lock's key, each time it changed."""

    plan: Plan
    history: History
    keys: list[KeyState]
    verdicts: dict[str, Verdict]

    def broken(self, look_for: tuple[str, ...] = ()) -> tuple[str, ...]:
        """The checkers that found a violation and count, the gravest first; none if a fault of the plan did not strike
        or was not seen to: then it is not known what the plan does."""
        if self.verdicts["faults"].valid is not True:
            return ()
        found = [name for name, verdict in self.verdicts.items() if verdict.valid is False]
        harmless = {"mutual-exclusion"} if self.plan.fencing != "off" else set()
        counted = [name for name in found if name in look_for or (not look_for and name not in harmless)]
        return tuple(sorted(counted, key=gravity))


def gravity(checker: str) -> tuple[int, str]:
    """The gravest first: what a sort by this says."""
    return (ORDER.index(checker) if checker in ORDER else len(ORDER), checker)


def play(plan: Plan) -> Trial:
    """Try a schedule; raises UsageError for a plan that cannot be run, and whatever the simulation raises."""
    plan = complete(plan.check())
    cluster = open_cluster(plan)
    assert isinstance(cluster, SimCluster), "schedules are the simulator's"
    cluster.give_up_after(MOST_EVENTS)
    keys: list[KeyState] = []
    cluster.watch_keys([f"k{number}" for number in range(plan.keys)], keys.append)
    runner = Runner(plan, cluster, writer=None, progress=None)
    runner.run()
    history = runner.recorder.history.in_order()
    return Trial(plan, history, keys, run_all(history, catalogue.all()))
