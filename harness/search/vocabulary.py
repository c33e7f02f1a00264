"""Vocabulary of a lock: the calls and commands of its clients in runs without faults, on which faults can strike."""

from __future__ import annotations

from typing import Final

import msgspec

from harness.history import NEMESIS, SECOND
from harness.plan import Plan
from harness.run.processes import workers
from harness.search.replay.simulated import Simulated, simulate
from harness.worker.client_program import event

from .request import HuntRequest

OVERRUN: Final = 1.5
"""Length of a critical section, as a multiple of the ttl, that shows whether the lock renews its lease."""

OPENED_NS: Final = SECOND // 2
"""Commands this soon (ns) after the start only open connections, unless they come again later."""


class Vocabulary(msgspec.Struct, frozen=True, kw_only=True):
    """Events of a lock's clients.

    ``events`` are calls (``acquire:invoke``, ``acquire``, ``read`` ...). ``commands`` are the names, in capitals, of
    what clients send to servers after connections are open. ``renews``: the lock stays held when work takes longer
    than the lease.
    """

    events: tuple[str, ...]
    commands: tuple[str, ...]
    renews: bool


def learn_vocabulary(request: HuntRequest) -> Vocabulary:
    """Run a completed ``request`` without faults and collect its vocabulary.

    There is one run for each workload, with clients that check the lock before they write and wait only briefly, and
    one run with critical sections longer than the lease.
    """
    events: dict[str, None] = {}
    commands: dict[str, None] = {}
    usual = msgspec.structs.replace(
        request.plan(), clients=2, hold=0.1, time_limit=6.0, discipline="checking", wait=0.05
    )
    for workload in request.workloads:
        _observe(msgspec.structs.replace(usual, workload=workload), events, commands)
    ttl = request.plan().ttl
    long = msgspec.structs.replace(request.plan(), clients=2, hold=OVERRUN * ttl, wait=3 * ttl, time_limit=8 * ttl)
    verdicts = _observe(long, events, commands).verdicts
    renews = all(verdicts[name].valid is True for name in ("mutual-exclusion", "resource", "ownership"))
    return Vocabulary(events=tuple(events), commands=tuple(commands), renews=renews)


def _observe(plan: Plan, events: dict[str, None], commands: dict[str, None]) -> Simulated:
    """Simulate a plan; add its events and commands in the order of their first occurrence."""
    before = len(workers.forwarded)
    run = simulate(plan)
    if len(workers.forwarded) > before:
        raise KeyboardInterrupt  # the run took the signal that was meant for the hunt
    opened = run.history.origin + OPENED_NS
    commands.update(dict.fromkeys(command.name for command in run.commands if command.time > opened))
    events.update(dict.fromkeys(event(op.f, op.type) for op in run.history if op.process != NEMESIS))
    return run
