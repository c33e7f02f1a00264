"""Run a plan on the simulator and record the commands between clients and servers. Histories do not contain them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import msgspec

from harness.checkers import catalogue
from harness.checkers.base import Verdict
from harness.checkers.running import run_all
from harness.clusters.abilities import TAPS
from harness.clusters.base import Cluster
from harness.history import History
from harness.plan import Plan
from harness.run.completion import complete
from harness.run.doubts import doubts
from harness.run.lock_facts import searched_facts
from harness.run.opening import open_simulated
from harness.run.runner import Runner

Hear = Callable[[str, str, str, str], None]


class Command(msgspec.Struct, frozen=True):
    """A command between a client and a server at ``time`` (ns, as in the history).

    ``phase`` is ``request`` (the client is about to send it) or ``reply`` (the server has executed it). ``name`` is in
    capitals.
    """

    time: int
    phase: str
    client: str
    server: str
    name: str


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


class _TappedCluster:
    """A simulated cluster that passes each command to ``hear`` and also to the tap that a run installs."""

    def __init__(self, cluster: Cluster, hear: Hear) -> None:
        self._cluster = cluster
        self._hear = hear
        self._taps = TAPS.of(cluster)
        self._taps.tap(hear)

    @property
    def parts(self) -> tuple[object, ...]:
        return self, *self._cluster.parts

    def tap(self, tap: Hear | None) -> None:
        def both(phase: str, client: str, server: str, command: str) -> None:
            self._hear(phase, client, server, command)
            if tap is not None:
                tap(phase, client, server, command)

        self._taps.tap(both)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)


def simulate(plan: Plan) -> Simulated:
    """Run a plan on the simulator; nothing is stored. Raises UsageError if the simulator cannot do it."""
    lock = searched_facts(plan.lock)
    plan = complete(msgspec.structs.replace(plan, cluster="sim").check(), lock)
    cluster = open_simulated(plan)
    commands: list[Command] = []

    def hear(phase: str, client: str, server: str, command: str) -> None:
        commands.append(Command(cluster.clock()[0], phase, client, server, command))

    runner = Runner(plan, lock, cast("Cluster", _TappedCluster(cluster, hear)), doubts=partial(doubts, plan, cluster))
    runner.run()
    history = runner.recorder.history.in_order()
    return Simulated(plan, history, tuple(commands), run_all(history, catalogue.chosen(plan.checkers)))
