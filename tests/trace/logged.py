"""A simulated run in this process, with what its worker would send to the harness."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from harness.clusters.kinds import KINDS
from harness.documents.messages import LOG, MessageTrace, TraceMode
from harness.history import History, Op
from harness.plan import Plan
from harness.run import simulated
from harness.run.plans.completion import complete
from harness.run.plans.lock_facts import find_facts
from harness.run.tapping import Command
from harness.trace.log import LoggedMessages, Place
from harness.trace.reading import load_trace
from harness.trace.storing import TracedRun, stored_log
from harness.worker.channel import Channel, Frame


@dataclass
class LoggedRun:
    """``commands`` are what the servers say that they executed."""

    plan: Plan
    entries: list[bytes] = field(default_factory=list)
    messages: LoggedMessages = field(default_factory=LoggedMessages)
    commands: list[Command] = field(default_factory=list)

    def history(self) -> History:
        return History(msgspec.json.decode(entry, type=Op) for entry in self.entries)

    def trace(self, mode: TraceMode = "on") -> MessageTrace:
        with TemporaryDirectory() as folder:
            (Path(folder) / LOG).write_bytes(self.log(mode))
            found = load_trace(Path(folder), self.history())
        assert found is not None
        return found

    def log(self, mode: TraceMode = "on") -> bytes:
        """Return the contents of the file with the log."""
        kind = self.plan.kind
        traced = TracedRun(kind, KINDS.find(kind).service, "sim", mode)
        found = stored_log(self.messages, traced, self.history(), ())
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
            self._run.messages.batches.append(body)
        elif kind is Frame.PLACE:
            self._run.messages.places.append(msgspec.json.decode(body, type=Place))
        elif kind is Frame.COMMAND:
            self._run.commands.append(msgspec.json.decode(body, type=Command))


def run_logged(plan: Plan, *, logs: bool = True) -> LoggedRun:
    """Run a plan with the log of its messages, and with the commands that its servers report."""
    lock = find_facts(plan.lock)
    found = LoggedRun(complete(plan, lock))
    request = simulated.SimulatedRequest(plan=found.plan, lock=lock, logs_messages=logs, reports_commands=logs)
    simulated.run(msgspec.json.encode(request), _Collecting(found))
    return found
