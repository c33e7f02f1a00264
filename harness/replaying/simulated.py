"""A plan on the simulator, with what its clients and servers said to each other: nothing of that is in a history."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import msgspec

from checkers import catalogue
from checkers.base import Verdict, run_all

from ..clusters.base import Cluster
from ..completion import complete
from ..history import History
from ..plan import Plan
from ..runner import Runner
from ..runs import open_cluster

Hear = Callable[[str, str, str, str], None]


class Command(msgspec.Struct, frozen=True):
    """A command between a client and a server at ``time`` (ns, as in the history). ``phase`` is ``request`` (the client
    is about to send it) or ``reply`` (the server has executed it); ``name`` is in capitals."""

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
        """The checkers that found a violation, by name, in the catalogue's order."""
        return tuple(name for name, verdict in self.verdicts.items() if verdict.valid is False)

    def until_ns(self, names: tuple[str, ...]) -> int | None:
        """When the first violation that these checkers found is over, None if they found none: what comes later is
        no part of the story."""
        ends = [violation.until_ns for name in names for violation in self.verdicts[name].evidence[:1]]
        return min(ends, default=None)


class _Overheard:
    """A simulated cluster that tells ``hear`` of each command, too, whoever else taps it."""

    def __init__(self, cluster: Cluster, hear: Hear) -> None:
        self._cluster = cluster
        self._hear = hear
        cluster.tap(hear)

    def tap(self, tap: Hear | None) -> None:
        def both(phase: str, client: str, server: str, command: str) -> None:
            self._hear(phase, client, server, command)
            if tap is not None:
                tap(phase, client, server, command)

        self._cluster.tap(both)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)


def simulate(plan: Plan) -> Simulated:
    """Run a plan on the simulator; nothing is stored. Raises UsageError if the simulator cannot do it."""
    plan = complete(msgspec.structs.replace(plan, cluster="sim").check())
    cluster = open_cluster(plan)
    commands: list[Command] = []

    def hear(phase: str, client: str, server: str, command: str) -> None:
        commands.append(Command(cluster.clock()[0], phase, client, server, command))

    runner = Runner(plan, cast("Cluster", _Overheard(cluster, hear)), writer=None, progress=None)
    runner.run()
    history = runner.recorder.history.in_order()
    return Simulated(plan, history, tuple(commands), run_all(history, catalogue.all()))
