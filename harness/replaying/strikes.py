"""Which fault of a plan struck when in its simulated history, and beside which steps of the clients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

import msgspec

from ..client_program import event
from ..fault_specs import build_fault
from ..history import NEMESIS, SECOND, History, Op
from ..plan import FaultSpec, Plan
from .simulated import Command

TAPS = ("request", "reply")


def on_command(spec: FaultSpec) -> bool:
    """Does it strike on what goes over the wire, and not on a client's call?"""
    return (spec.on or "").partition(":")[0] in TAPS


@dataclass(frozen=True, slots=True)
class Strike:
    """A fault's first strike: its entry, and the client whose doing triggered it, if one did."""

    inject: Op
    client: str | None = None

    @property
    def hosts(self) -> list[str]:
        """Whom it hit."""
        hosts: list[str] = self.inject.value["hosts"]
        return hosts


@dataclass(frozen=True, slots=True)
class _Due:
    """When a fault should have struck (ns), by the plan; ``client`` caused it."""

    time: int
    client: str | None


def strikes(plan: Plan, history: History, commands: Sequence[Command]) -> list[Strike | None]:
    """The first strike of each fault of the plan, in the plan's order; None for one that never struck."""
    injected = [op for op in history.nemesis("inject") if op.type == "invoke"]
    found: list[Strike | None] = []
    for spec in plan.faults:
        alike = [op for op in injected if _is_of(op, spec)]
        due = _due(spec, history, commands)
        op = min(alike, key=lambda op: 0 if due is None else abs(op.time - due.time), default=None)
        if op is not None:
            injected.remove(op)
        found.append(None if op is None else Strike(op, None if due is None else due.client))
    return found


def _is_of(op: Op, spec: FaultSpec) -> bool:
    params: dict[str, object] = op.value["params"]
    return bool(op.value["fault"] == spec.fault) and params == msgspec.to_builtins(build_fault(spec))


def _due(spec: FaultSpec, history: History, commands: Sequence[Command]) -> _Due | None:
    """None: nobody knows, for what is on a command that nobody overheard or that never came."""
    if spec.on is None:
        return _Due(history.origin + round((spec.at or spec.every or 0.0) * SECOND), None)
    if on_command(spec):
        moments = [
            _Due(said.time, said.client)
            for said in commands
            if f"{said.phase}:{said.name}" == spec.on and spec.node in (None, said.server)
        ]
    else:
        moments = [_Due(op.time, op.node) for op in steps(history) if event(op.f, op.type) == spec.on]
        moments = [due for due in moments if spec.node in (None, due.client)]
    moments = [due for due in moments if spec.client is None or due.client == f"c{spec.client}"]
    if len(moments) < spec.nth:
        return None
    due = moments[spec.nth - 1]
    return _Due(due.time + round(spec.delay * SECOND), due.client)


def steps(history: History) -> list[Op]:
    """The clients' entries."""
    return [op for op in history if op.process != NEMESIS]


def before(history: History, index: int, client: str | None = None) -> Op | None:
    """The last entry of a client (of this one, or of any) before the entry number ``index``."""
    earlier = (history[i] for i in range(index - 1, -1, -1) if history.process[i] != NEMESIS)
    return next((op for op in earlier if client in (None, op.node)), None)


def after(history: History, index: int, client: str) -> Op | None:
    """The next entry of this client after the entry number ``index``."""
    later = (i for i in range(index + 1, len(history)) if history.process[i] != NEMESIS)
    return next((history[i] for i in later if history.node[i] == client), None)


class Trigger(TypedDict):
    """What a fault waits for, as the fields of its FaultSpec."""

    on: str
    client: int
    nth: int


def trigger(history: History, op: Op) -> Trigger:
    """Of a fault that waits for just this entry, counted as the nemesis counts."""
    on = event(op.f, op.type)
    earlier = [other for other in steps(history) if other.index <= op.index and other.node == op.node]
    nth = sum(event(other.f, other.type) == on for other in earlier)
    return {"on": on, "client": int(str(op.node).removeprefix("c")), "nth": nth}


def named(history: History, op: Op) -> str:
    """An entry in plain words: ``c0's 2nd acquire:invoke``."""
    found = trigger(history, op)
    nth = found["nth"]
    return f"{op.node}'s {'' if nth == 1 else f'{ordinal(nth)} '}{found['on']}"


def ordinal(number: int) -> str:
    """``1st``, ``2nd``, ``11th``."""
    tens = 10 < number % 100 < 20
    return f"{number}{'th' if tens else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"
