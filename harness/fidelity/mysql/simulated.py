"""Runs steps on the simulated MySQL server, with unmodified PyMySQL clients on a simulated host."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from harness.fidelity.comparison import Step
from harness.sim.hosts import SimHost
from harness.sim.kernel import Kernel
from harness.sim.network import SimNetwork
from harness.sim.patches import virtual
from harness.sim.servers.mysql.server import MysqlServer

from .connections import STILL_WAITS, Connections, Outcome, connect_to

PATIENCE_S: Final = 0.05
"""A statement without an answer after this virtual time waits."""
SERVER: Final = "db1"


class StepResult(NamedTuple):
    """``outcome`` is None if the statement waits, or if the step has none; ``ended`` are the outcomes of earlier
    statements that have waited until this step, by connection."""

    outcome: Outcome | None
    ended: Mapping[int, Outcome]


def simulate(setup: Sequence[str], steps: Sequence[Step]) -> list[StepResult]:
    """Run all steps on a new server and return their results."""
    kernel = Kernel(0)
    network = SimNetwork(kernel)
    client, host = SimHost(network, "c1"), SimHost(network, SERVER)
    host.install(MysqlServer())
    found: list[StepResult] = []

    def main() -> None:
        player = SimulatedPlayer(host, setup)
        found.extend(player.run(step) for step in steps)
        kernel.finish()

    with virtual():
        client.spawn(main)
        try:
            kernel.run()
        finally:
            kernel.close()
    return found


class SimulatedPlayer:
    """Runs steps in the simulated world. To be used by a task of a client's host."""

    def __init__(self, host: SimHost, setup: Sequence[str]) -> None:
        self._host = host
        self._connections = Connections(lambda: connect_to(SERVER), setup)

    def run(self, step: Step) -> StepResult:
        kind, *arguments = step
        outcome: Outcome | None = None
        if kind == "settings":
            self._connections.settings[arguments[0]] = arguments[1]
        elif kind == "sql":
            outcome = self._execute(*arguments)
        elif kind == "close":
            self._connections.close(arguments[0])
            time.sleep(PATIENCE_S)
        elif arguments[0] == "pause":
            outcome = self._pause(*arguments[1:])
        else:
            self._restart(wiped=arguments[1] == "without data")
        return StepResult(outcome, self._ended())

    def _execute(self, number: int, text: str, seconds: float = 0.0) -> Outcome | None:
        if number in self._connections.waiting:
            return STILL_WAITS
        thread = self._connections.get(number)
        thread.begin(self._connections.fill_in(text))
        return self._connections.note(number, thread.answer(PATIENCE_S + seconds))

    def _pause(self, seconds: float, number: int, text: str) -> Outcome | None:
        if number in self._connections.waiting:
            return STILL_WAITS
        thread = self._connections.get(number)
        self._host.pause()
        thread.begin(text)
        time.sleep(seconds)
        self._host.resume()
        return self._connections.note(number, thread.answer(PATIENCE_S))

    def _restart(self, *, wiped: bool) -> None:
        self._host.kill()
        self._host.start(wiped=wiped)
        time.sleep(PATIENCE_S)
        self._connections.close_idle()
        if wiped:
            self._connections.make_tables()
        else:
            self._connections.keep_snapshot()

    def _ended(self) -> dict[int, Outcome]:
        """Return the outcomes of the statements that wait no longer."""
        found: dict[int, Outcome] = {}
        if self._connections.waiting:
            time.sleep(PATIENCE_S)
        for number in sorted(self._connections.waiting):
            outcome = self._connections.get(number).answer(0.001)
            if outcome is not None:
                self._connections.note(number, outcome)
                found[number] = outcome
        return found
