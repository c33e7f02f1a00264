"""A simulated run in this process, with what its worker would send to the harness."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field

import msgspec

from harness.clusters.kinds import KINDS
from harness.documents.messages import MessageTrace, TraceMode
from harness.history import History, Op
from harness.plan import Plan
from harness.run import simulated
from harness.run.completion import complete
from harness.run.lock_facts import find_facts
from harness.run.tapping import Command
from harness.trace.building import build
from harness.trace.streams import read_streams
from harness.worker.channel import Channel, Frame


@dataclass
class LoggedRun:
    """``commands`` are what the servers say that they executed."""

    plan: Plan
    entries: list[bytes] = field(default_factory=list)
    batches: list[bytes] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)

    def history(self) -> History:
        return History(msgspec.json.decode(entry, type=Op) for entry in self.entries)

    def trace(self, mode: TraceMode = "on") -> MessageTrace:
        kind = self.plan.kind
        found = build(
            read_streams(self.batches),
            kind=kind,
            service=KINDS.find(kind).service,
            backend="sim",
            mode=mode,
            history=self.history(),
            violations=(),
        )
        assert found is not None
        return found


class _Collecting(Channel):
    def __init__(self, run: LoggedRun) -> None:
        one, self._other = socket.socketpair()
        super().__init__(one)
        self._run = run

    def send(self, kind: Frame, body: bytes) -> None:
        if kind is Frame.ENTRY:
            self._run.entries.append(body)
        elif kind is Frame.MESSAGES:
            self._run.batches.append(body)
        elif kind is Frame.COMMAND:
            self._run.commands.append(msgspec.json.decode(body, type=Command))


def run_logged(plan: Plan, *, logs: bool = True) -> LoggedRun:
    """Run a plan with the log of its messages, and with the commands that its servers report."""
    lock = find_facts(plan.lock)
    found = LoggedRun(complete(plan, lock))
    request = simulated.SimulatedRequest(plan=found.plan, lock=lock, logs_messages=logs, reports_commands=logs)
    simulated.run(msgspec.json.encode(request), _Collecting(found))
    return found
