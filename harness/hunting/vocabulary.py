"""What a lock's clients do and say when nothing goes wrong: the events on which faults can strike."""

from __future__ import annotations

from typing import Final

import msgspec

from ..client_program import event
from ..history import NEMESIS, SECOND
from ..plan import Plan
from ..replaying.simulated import Simulated, simulate
from .asked import Asked

OVERRUN: Final = 1.5
"""Of the ttl: how long a section takes when it is asked whether the lock renews its lease."""


OPENED_NS: Final = SECOND // 2
"""What is heard so soon after the start belongs to the opening of connections, unless it is heard again."""


class Vocabulary(msgspec.Struct, frozen=True, kw_only=True):
    """``events`` are calls (``acquire:invoke``, ``acquire``, ``read`` ...), ``commands`` what clients send to servers,
    but for what opens a connection, in capitals. ``renews``: is the lock still held when the work takes longer than the
    lease?"""

    events: tuple[str, ...]
    commands: tuple[str, ...]
    renews: bool


def learnt(asked: Asked) -> Vocabulary:
    """What is said in runs of a completed ``asked`` without faults: one of each workload, some of whose clients ask
    again before they write and do not wait for long, and one with long sections."""
    events: dict[str, None] = {}
    commands: dict[str, None] = {}
    usual = msgspec.structs.replace(asked.plan(), clients=2, hold=0.1, time_limit=6.0, discipline="checking", wait=0.05)
    for workload in asked.workloads:
        _heard(msgspec.structs.replace(usual, workload=workload), events, commands)
    ttl = asked.plan().ttl
    long = msgspec.structs.replace(asked.plan(), clients=2, hold=OVERRUN * ttl, wait=3 * ttl, time_limit=8 * ttl)
    verdicts = _heard(long, events, commands).verdicts
    renews = all(verdicts[name].valid is True for name in ("mutual-exclusion", "resource", "ownership"))
    return Vocabulary(events=tuple(events), commands=tuple(commands), renews=renews)


def _heard(plan: Plan, events: dict[str, None], commands: dict[str, None]) -> Simulated:
    """A run, whose events and commands are noted in the order in which they were first heard."""
    run = simulate(plan)
    opened = run.history.origin + OPENED_NS
    commands.update(dict.fromkeys(command.name for command in run.commands if command.time > opened))
    events.update(dict.fromkeys(event(op.f, op.type) for op in run.history if op.process != NEMESIS))
    return run
