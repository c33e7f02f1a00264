"""Find when each fault of a plan struck in its simulated history, and beside which steps of the clients."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypedDict

import msgspec

from harness.faults.catalogue import build_fault, is_on_command
from harness.history import NEMESIS, SECOND, History, Op
from harness.plan import FaultSpec, Plan
from harness.run.fault_engine import FaultTrigger, first_strike_s
from harness.run.tapping import Command
from harness.worker.client_program import event


@dataclass(frozen=True, slots=True)
class RecordedStrike:
    """A fault's first strike: its entry, and the client whose event triggered it, if one did."""

    inject: Op
    client: str | None = None

    @property
    def hosts(self) -> list[str]:
        """Return the hosts that were hit."""
        hosts: list[str] = self.inject.value["hosts"]
        return hosts


@dataclass(frozen=True, slots=True)
class _Due:
    """Time (ns) at which a fault should have struck by the plan, and the client that triggered it."""

    time: int
    client: str | None


def strikes(plan: Plan, history: History, commands: Sequence[Command]) -> list[RecordedStrike | None]:
    """Return the first strike of each fault of the plan, in the plan's order; None for a fault that never struck."""
    injected = [op for op in history.nemesis("inject") if op.type == "invoke"]
    found: list[RecordedStrike | None] = []
    for spec in plan.faults:
        alike = [op for op in injected if _is_of(op, spec)]
        due = _due(spec, history, commands)
        op = min(alike, key=lambda op: 0 if due is None else abs(op.time - due.time), default=None)
        if op is not None:
            injected.remove(op)
        found.append(None if op is None else RecordedStrike(op, None if due is None else due.client))
    return found


def _is_of(op: Op, spec: FaultSpec) -> bool:
    params: dict[str, object] = op.value["params"]
    return bool(op.value["fault"] == spec.fault) and params == msgspec.to_builtins(build_fault(spec))


def _due(spec: FaultSpec, history: History, commands: Sequence[Command]) -> _Due | None:
    """Return when the fault should have struck. None if unknown: it waits for a command that was not recorded or never
    came."""
    if spec.on is None:
        return _Due(history.origin + round(first_strike_s(spec) * SECOND), None)
    waiting = FaultTrigger(spec)
    for name, client, node, time in _events(spec, history, commands):
        if waiting.fires(name, client, node, time):
            return _Due(time + round(spec.delay * SECOND), client)
    return None


def _events(
    spec: FaultSpec, history: History, commands: Sequence[Command]
) -> Iterator[tuple[str, str | None, str | None, int]]:
    """Yield the events as the nemesis of the run received them: event, client, node and time (ns)."""
    if is_on_command(spec):
        for command in commands:
            yield f"{command.phase}:{command.name}", command.client, command.server, command.time
    else:
        for op in steps(history):
            yield event(op.f, op.type), op.node, op.node, op.time


def steps(history: History) -> list[Op]:
    """Return the clients' entries."""
    return [op for op in history if op.process != NEMESIS]


def before(history: History, index: int, client: str | None = None) -> Op | None:
    """Return the last entry of a client (this one, or any) before the entry number ``index``."""
    earlier = (history[i] for i in range(index - 1, -1, -1) if history.process[i] != NEMESIS)
    return next((op for op in earlier if client in (None, op.node)), None)


def after(history: History, index: int, client: str) -> Op | None:
    """Return the next entry of this client after the entry number ``index``."""
    later = (i for i in range(index + 1, len(history)) if history.process[i] != NEMESIS)
    return next((history[i] for i in later if history.node[i] == client), None)


class TriggerFields(TypedDict):
    """The event that a fault waits for, as fields of its FaultSpec."""

    on: str
    client: int
    nth: int


def trigger(history: History, op: Op) -> TriggerFields:
    """Return the trigger of a fault that waits for exactly this entry, counted as the fault engine counts."""
    on, client = event(op.f, op.type), int(str(op.node).removeprefix("c"))
    earlier = [other for other in steps(history) if other.index <= op.index]
    nth = sum(other.node == op.node and event(other.f, other.type) == on for other in earlier)
    return {"on": on, "client": client, "nth": nth}


def named(history: History, op: Op) -> str:
    """Name an entry in plain words: ``c0's 2nd acquire:invoke``."""
    found = trigger(history, op)
    nth = found["nth"]
    return f"{op.node}'s {'' if nth == 1 else f'{ordinal(nth)} '}{found['on']}"


def ordinal(number: int) -> str:
    """Return a number as ``1st``, ``2nd``, ``11th``."""
    tens = 10 < number % 100 < 20
    return f"{number}{'th' if tens else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"
